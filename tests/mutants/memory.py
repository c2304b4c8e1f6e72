"""Broken builds of the ledger, of the parts that it counts, and of the choice of flushes when memory is scarce."""

from __future__ import annotations

from .broken_build import Mutant

CACHE = "unit/storefile/test_cache.py"
FLUSHING = "unit/host/test_flushing.py"
LEDGER = "unit/test_ledger.py"
LIMIT = "unit/test_memory_limit.py"
PLAN = "unit/test_memory_plan.py"
RECEIVING = "unit/rpc/test_receiving.py"
SCANS = "unit/rpc/test_scans.py"
SERVER = "unit/host/test_region_server.py"

MEMORY = [
    Mutant(
        "refused memory is counted",
        "Account.try_take",
        "                return False\n            self._count(byte_count)\n",
        "                self._count(byte_count)\n                return False\n            self._count(byte_count)\n",
        f"{LEDGER}::test_what_does_not_fit_now_is_refused_with_a_delay_and_not_counted",
    ),
    Mutant(
        "all parts together have no bound",
        "Account.has_room",
        " and ledger.bytes_held + byte_count <= ledger.bytes_max",
        "",
        f"{LEDGER}::test_all_parts_together_have_a_bound_too",
    ),
    Mutant(
        "a request that can never fit is told to retry",
        "Account.refusal",
        "        if byte_count > self.bytes_max:\n",
        "        if False:\n",
        f"{LEDGER}::test_what_can_never_fit_is_refused_for_good",
    ),
    Mutant(
        "no thread is woken when memory is released",
        "Ledger.wake",
        "        for wake in woken:\n            wake()\n",
        "",
        f"{LEDGER}::test_who_waits_is_woken_once_when_something_is_given_back",
    ),
    Mutant(
        "a part with its own counter is polled only once",
        "_Followed.look",
        "            self._byte_count += change\n            self._account._count(change)\n",
        "            self._account._count(change)\n            self._bytes_held = lambda: self._byte_count\n",
        f"{LEDGER}::test_a_part_that_counts_by_itself_is_followed",
    ),
    Mutant(
        "indexes of removed files are counted forever",
        "BlockCache._drop_gone",
        "            self.index_bytes_held -= self._index_bytes.pop(reader, 0)\n",
        "",
        f"{CACHE}::test_what_indexes_hold_is_counted_until_their_readers_are_gone",
    ),
    Mutant(
        "the index of a store file is not counted",
        "Blocks.__init__",
        "cache.new_reader(index_bytes)",
        "cache.new_reader()",
        f"{SERVER}::test_what_files_keep_in_memory_is_counted_in_the_ledger",
    ),
    Mutant(
        "all connections that sent something are closed when memory is full",
        "ReceiveWatch.look",
        "            if too_much > 0 and sender.peer",
        "            if sender.peer",
        f"{RECEIVING}::test_those_that_sent_most_are_closed_and_no_more_than_make_up_for_it",
    ),
    Mutant(
        "connections are closed again for memory that is not freed yet",
        "ReceiveWatch.look",
        " - being_freed",
        "",
        f"{RECEIVING}::test_whose_memory_is_not_freed_yet_counts_as_gone",
    ),
    Mutant(
        "bytes that clients sent before the watch begins count as the server's own",
        "ReceiveWatch.__init__",
        "        self._own_bytes = ledger.own_bytes\n",
        "        self._own_bytes = measure() - ledger.bytes_held\n",
        f"{RECEIVING}::test_what_came_before_the_watch_began_is_not_the_servers_own",
    ),
    Mutant(
        "bytes that arrive while the server recovers count as its own",
        "Server._serve",
        "            region_server = await loop.run_in_executor(None, self._recover, folder, ledger)\n",
        "            region_server = await loop.run_in_executor(None, self._recover, folder, ledger)\n"
        "            ledger.own_bytes = anonymous_bytes()\n",
        "end_to_end/test_bounds.py::test_what_comes_while_the_server_recovers_is_not_its_own",
    ),
    Mutant(
        "clients of a Unix socket are disconnected for counted memory",
        "unix_senders",
        "measure() - ledger.own_bytes - ledger.bytes_held\n    if",
        "measure() - ledger.own_bytes\n    if",
        f"{RECEIVING}::test_connections_of_a_unix_socket_share_what_nobody_counts_and_are_ended_one_by_one",
    ),
    Mutant(
        "connections of a Unix socket have no bound",
        "_options",
        "config.connections_max * (1 if is_unix else 2)",
        "config.connections_max * 2",
        "end_to_end/test_bounds.py::test_of_a_unix_socket_no_connection_too_many_is_taken",
    ),
    Mutant(
        "messages that were read count as unread",
        "Connection.met",
        "        self.message_bytes += len(message)\n",
        "",
        f"{RECEIVING}::test_what_was_sent_and_not_read_is_told_of_each_connection",
    ),
    Mutant(
        "windows stay large although scans hold much memory",
        "OpenScan._is_slice_over",
        "        return is_over or self._account.is_half_full\n",
        "        return is_over\n",
        f"{SCANS}::test_while_scans_hold_half_of_what_they_may_each_turn_ends_with_its_window",
    ),
    Mutant(
        "only the innermost control group is checked",
        "_folders",
        "    for folder in (inside, *inside.parents):\n",
        "    for folder in (inside,):\n",
        f"{LIMIT}::test_of_nested_groups_the_smallest_limit_counts",
    ),
    Mutant(
        "parts may add up to more than the memory",
        "_check",
        "    if parts > config.memory:\n",
        "    if False:\n",
        f"{PLAN}::test_what_can_not_be_is_refused",
    ),
    Mutant(
        "under pressure one region is flushed at a time",
        "FlushThreads._with_the_largest",
        "                too_much -= byte_count\n",
        "                too_much = 0\n",
        f"{FLUSHING}::test_under_pressure_so_many_of_the_largest_are_due_as_bring_the_memstores_to_a_quarter",
    ),
    Mutant(
        "memory that is being flushed counts as held",
        "FlushThreads._with_the_largest",
        "            freed_soon = sum(self._running.values())\n",
        "            freed_soon = 0\n",
        f"{FLUSHING}::test_what_is_freed_soon_counts_as_freed",
    ),
    Mutant(
        "a region whose flush found a full disk is flushed again at once",
        "FlushThreads._put_off",
        "if at > since)}",
        "if False)}",
        f"{FLUSHING}::test_a_region_that_the_disk_refused_holds_up_no_other_and_comes_again_later",
    ),
    Mutant(
        "no flush begins while there is no memory for its work",
        "FlushThreads._begin_what_is_due",
        "                    self._work.add(work_bytes)  # One flush",
        "                    return  # One flush",
        f"{FLUSHING}::test_flushes_wait_for_room_for_what_they_work_on_but_one_always_runs",
    ),
]
