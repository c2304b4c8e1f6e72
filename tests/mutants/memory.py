"""Broken builds of the ledger, of the parts that it counts, and of the choice of flushes when memory is scarce."""

from __future__ import annotations

from .broken_build import Mutant

CACHE = "unit/storefile/test_cache.py"
FLUSHING = "unit/host/test_flushing.py"
LEDGER = "unit/test_ledger.py"
LIMIT = "unit/test_memory_limit.py"
PLAN = "unit/test_memory_plan.py"
PROCESS = "unit/test_process.py"
RECEIVING = "unit/rpc/test_receiving.py"
SCANS = "unit/engine/test_scans.py"
SERVER = "unit/host/test_region_server.py"

MEMORY = [
    Mutant(
        "what Arrow compresses has memory that is not returned",
        "prepare",
        'or "jemalloc"',
        'or "mimalloc"',
        f"{PROCESS}::test_what_arrow_compresses_has_memory_of_the_allocator_that_returns_it",
    ),
    Mutant(
        "a server of little memory maps only the largest blocks",
        "set_allocators",
        "_MAPPED_BYTES * memory // ample",
        "_MAPPED_BYTES",
        f"{PROCESS}::test_large_blocks_leave_no_holes_in_a_server_of_little_memory",
    ),
    Mutant(
        "the allocators of a server do not know its memory",
        "_serve",
        "        process.set_allocators(config.memory)\n",
        "",
        f"{PROCESS}::test_the_command_applies_all_settings",
    ),
    Mutant(
        "small additions of memory are never followed by a measurement",
        "Account.add",
        "            ledger._unmeasured_bytes += abs(byte_count)\n",
        "",
        f"{LEDGER}::test_a_part_that_counts_by_itself_is_measured_when_much_was_added_and_released",
    ),
    Mutant(
        "refused memory is counted",
        "Account.try_take",
        "                return False\n            self._count(byte_count)\n",
        "                self._count(byte_count)\n                return False\n            self._count(byte_count)\n",
        f"{LEDGER}::test_bytes_that_do_not_fit_now_are_refused_with_a_delay_and_not_counted",
    ),
    Mutant(
        "all parts together have no bound",
        "Account.has_room",
        " and ledger.bytes_needed + byte_count <= ledger.bytes_max",
        "",
        f"{LEDGER}::test_all_parts_together_have_a_bound_too",
    ),
    Mutant(
        "memory that the block cache has borrowed is refused to others",
        "Account.has_room",
        "ledger.bytes_needed + byte_count",
        "ledger.bytes_held + byte_count",
        f"{LEDGER}::test_borrowed_memory_is_free_for_the_others_and_is_returned_when_they_take_it",
    ),
    Mutant(
        "borrowed memory is not returned when others take it",
        "Account.try_take",
        "        self._ledger.block_cache.return_borrowed()\n",
        "",
        f"{LEDGER}::test_borrowed_memory_is_free_for_the_others_and_is_returned_when_they_take_it",
    ),
    Mutant(
        "borrowed memory is not returned when others use it",
        "Account.add",
        "            ledger.block_cache.return_borrowed()\n",
        "            pass\n",
        f"{LEDGER}::test_the_block_cache_borrows_what_the_others_leave_unused",
    ),
    Mutant(
        "the block cache is locked when memory is released",
        "Account.add",
        "        if byte_count > 0:\n",
        "        if True:\n",
        f"{LEDGER}::test_memory_that_others_release_makes_nobody_return_any",
    ),
    Mutant(
        "the block cache borrows memory that others use",
        "BorrowingAccount.bytes_max_now",
        "self._lent_bytes_max - held_by_others",
        "self._lent_bytes_max",
        f"{LEDGER}::test_the_block_cache_borrows_what_the_others_leave_unused",
    ),
    Mutant(
        "the block cache keeps what it has borrowed",
        "SharedParts.count_in",
        "        ledger.block_cache.when_short(self.cache.shrink)\n",
        "",
        f"{SERVER}::test_the_block_cache_borrows_unused_memory_and_returns_it",
    ),
    Mutant(
        "the block cache holds more than its bound while it takes a block",
        "BlockCache.put",
        "            self._evict(bytes_max - bytes_held)\n            self._blocks[key] = block, bytes_held\n",
        "            self._blocks[key] = block, bytes_held\n            self._evict(bytes_max - bytes_held)\n",
        f"{CACHE}::test_a_cache_makes_room_before_it_takes_a_block",
    ),
    Mutant(
        "a request that can never fit is told to retry",
        "Account.refusal",
        "        if byte_count > self.bytes_max:\n",
        "        if False:\n",
        f"{LEDGER}::test_bytes_that_can_never_fit_are_refused_without_a_retry",
    ),
    Mutant(
        "no thread is woken when memory is released",
        "Ledger.wake",
        "        for wake in woken:\n            wake()\n",
        "",
        f"{LEDGER}::test_a_watcher_is_called_once_when_bytes_are_released",
    ),
    Mutant(
        "a part with its own counter is polled only once",
        "_Followed.measure",
        "            self._byte_count += change\n            self._account._count(change)\n",
        "            self._account._count(change)\n            self._bytes_held = lambda: self._byte_count\n",
        f"{LEDGER}::test_a_part_that_counts_by_itself_is_followed",
    ),
    Mutant(
        "indexes of removed files are counted forever",
        "BlockCache._drop_released",
        "            self.index_bytes_held -= self._index_bytes.pop(reader, 0)\n",
        "",
        f"{CACHE}::test_memory_of_indexes_is_counted_until_their_readers_are_released",
    ),
    Mutant(
        "the index of a store file is not counted",
        "BlockFile.__init__",
        "cache.new_reader(index_bytes)",
        "cache.new_reader()",
        f"{SERVER}::test_the_ledger_counts_the_memory_of_open_files",
    ),
    Mutant(
        "all connections that sent something are closed when memory is full",
        "ReceiveWatch.look",
        "            if excess > 0 and sender.peer",
        "            if sender.peer",
        f"{RECEIVING}::test_the_connections_that_sent_the_most_are_closed_and_no_more_than_needed",
    ),
    Mutant(
        "connections are closed again for memory that is not freed yet",
        "ReceiveWatch.look",
        " - being_freed",
        "",
        f"{RECEIVING}::test_a_closed_connection_whose_memory_is_not_freed_yet_counts_as_freed",
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
        "end_to_end/test_bounds.py::test_bytes_received_during_recovery_are_charged_to_clients",
    ),
    Mutant(
        "clients of a Unix socket are disconnected for counted memory",
        "unix_senders",
        "measure() - ledger.own_bytes - ledger.bytes_held\n    if",
        "measure() - ledger.own_bytes\n    if",
        f"{RECEIVING}::test_connections_of_a_unix_socket_share_the_uncounted_bytes_and_are_closed_one_by_one",
    ),
    Mutant(
        "connections of a Unix socket have no bound",
        "_options",
        "config.connections_max * (1 if is_unix else 2)",
        "config.connections_max * 2",
        "end_to_end/test_bounds.py::test_a_unix_socket_accepts_no_connection_too_many",
    ),
    Mutant(
        "messages that were read count as unread",
        "Connection.count_message",
        "        self.message_bytes += len(message)\n",
        "",
        f"{RECEIVING}::test_each_connection_has_its_count_of_unread_bytes",
    ),
    Mutant(
        "windows stay large although scans hold much memory",
        "OpenScan._is_slice_over",
        "        return is_over or self._account.is_half_full\n",
        "        return is_over\n",
        f"{SCANS}::test_each_slice_ends_with_its_window_while_scans_hold_half_of_their_memory",
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
        f"{PLAN}::test_impossible_settings_are_refused",
    ),
    Mutant(
        "under pressure one region is flushed at a time",
        "FlushThreads._with_largest",
        "                excess -= byte_count\n",
        "                excess = 0\n",
        f"{FLUSHING}::test_under_pressure_so_many_of_the_largest_are_due_as_bring_the_memstores_to_a_quarter",
    ),
    Mutant(
        "memory that is being flushed counts as held",
        "FlushThreads._with_largest",
        "            freed_soon = sum(self._running.values())\n",
        "            freed_soon = 0\n",
        f"{FLUSHING}::test_memory_of_running_flushes_counts_as_freed",
    ),
    Mutant(
        "a region whose flush found a full disk is flushed again at once",
        "FlushThreads._postponed",
        "if at > since)}",
        "if False)}",
        f"{FLUSHING}::test_a_region_that_the_disk_refused_holds_up_no_other_and_comes_again_later",
    ),
    Mutant(
        "no flush begins while there is no memory for its work",
        "FlushThreads._begin_due_flushes",
        "                    self._work.add(work_bytes)  # One flush",
        "                    return  # One flush",
        f"{FLUSHING}::test_flushes_wait_for_memory_for_their_work_but_one_always_runs",
    ),
]
