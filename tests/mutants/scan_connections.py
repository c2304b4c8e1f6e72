"""Broken builds of connections for scans: clients that leave, do not read or send too early, and what is counted."""

from __future__ import annotations

from .broken_build import Mutant

CONNECTION = "unit/rpc/direct/test_scan_connection.py"
ROOM = f"{CONNECTION}::test_a_connection_that_is_kept_for_a_later_scan_makes_room_for_another_client"

SCAN_CONNECTIONS = [
    Mutant(
        "the rest of a batch is not counted",
        "ScanConnection._send_last",
        "        self._sender.keep_unsent()\n",
        "",
        f"{CONNECTION}::test_a_scan_whose_client_does_not_read_ends_behind_the_rest_of_its_batch",
    ),
    Mutant(
        "the rest of a batch is not copied, and keeps a window alive",
        "FrameSender.keep_unsent",
        "            self._unsent = [memoryview(rest)]\n",
        "",
        f"{CONNECTION}::test_the_rest_of_a_batch_in_parts_does_not_keep_their_memory_alive",
    ),
    Mutant(
        "a part of which the system took some is sent again from its start",
        "FrameSender._drop_sent",
        "unsent[0] = first[byte_count:]",
        "unsent[0] = first",
        "unit/rpc/direct/test_frame_sender.py::test_frames_arrive_whole_wherever_the_system_stops",
    ),
    Mutant(
        "the system gets more parts at once than it takes",
        "FrameSender._send_on",
        "self._unsent[:_PARTS_MAX]",
        "self._unsent",
        f"{CONNECTION}::test_batches_in_parts_arrive_whole",
    ),
    Mutant(
        "a batch in parts counts without the window that it keeps alive",
        "Scans._write_batches",
        "bytes_held(batches[-1])",
        "len(batches[-1])",
        f"{CONNECTION}::test_the_rest_of_a_batch_in_parts_does_not_keep_their_memory_alive",
    ),
    Mutant(
        "the window of the last batch is counted by nobody",
        "_StepAhead._count",
        "if batches and self._is_over() else 0",
        "if False else 0",
        "unit/engine/test_scans.py::"
        "test_the_last_window_is_counted_with_the_last_batch_when_the_scan_counts_it_no_more",
    ),
    Mutant(
        "the window of the last batch is counted by nobody while batches before it are sent",
        "Scans._write_batches",
        "if batches and scan.is_over else 0",
        "if False else 0",
        "unit/engine/test_scans.py::"
        "test_the_last_window_is_counted_while_a_batch_before_it_is_sent_and_the_scan_has_ended",
    ),
    Mutant(
        "the last window is not counted when the step ahead finds the end",
        "_StepAhead._count",
        "            self._when_made()\n",
        "            pass\n",
        "unit/engine/test_scans.py::"
        "test_the_last_window_is_counted_while_a_batch_before_it_is_sent_and_the_scan_has_ended",
    ),
    Mutant(
        "a scan whose client has left keeps its batches until a garbage collection",
        "Scans._write_batches",
        "            batches = []\n",
        "",
        f"{CONNECTION}::test_a_client_that_leaves_keeps_no_batches_until_a_garbage_collection",
    ),
    Mutant(
        "a scan whose client has left keeps the batches made ahead until a garbage collection",
        "Scans._write_batches",
        "                ahead.cancel()\n                ahead = None\n",
        "                ahead.cancel()\n",
        f"{CONNECTION}::test_a_client_that_leaves_keeps_no_batches_until_a_garbage_collection",
    ),
    Mutant(
        "gRPC gets the parts of a batch",
        "RegionService._scan",
        "context.write(joined(message))",
        "context.write(message)",
        "end_to_end/test_direct_scans.py::test_a_long_scan_goes_directly_and_has_the_same_rows_as_by_grpc",
    ),
    Mutant(
        "a small share of a large table keeps it alive",
        "scan_message",
        " and bytes_held <= HELD_SHARE_MAX * byte_count",
        "",
        "unit/rpc/test_scan_batches.py::"
        "test_a_small_share_of_a_large_table_is_copied_so_that_it_does_not_keep_the_rest_alive",
    ),
    Mutant(
        "a scan begins before the end of the last one is read",
        "ScanConnection.buffer_updated",
        " or (self._state is _State.IDLE and self._sender.unsent_bytes)",
        "",
        f"{CONNECTION}::test_a_client_that_sends_a_scan_before_it_has_read_the_end_of_the_last_one_is_dropped",
    ),
    Mutant(
        "an idle connection for scans does not stop",
        "ScanConnection.stop",
        "if self._state is _State.IDLE:",
        "if False:",
        f"{CONNECTION}::test_an_idle_connection_ends_at_once_when_the_server_stops",
    ),
    Mutant(
        "a client that leaves does not free its scan",
        "ScanConnection.connection_lost",
        "        if self._task is not None:\n            self._task.cancel()\n",
        "",
        f"{CONNECTION}::test_a_client_that_leaves_ends_its_scan",
    ),
    Mutant(
        "the end of a scan overtakes the rest of its batch",
        "FrameSender.send",
        "            self._unsent.append(memoryview(HEAD.pack(len(body) + 1, kind)))\n"
        "            if body:\n"
        "                self._unsent += map(memoryview, [body] if isinstance(body, bytes) else body.parts)\n",
        "            parts = [body] if isinstance(body, bytes) else body.parts\n"
        "            self._unsent[:0] = map(memoryview, [HEAD.pack(len(body) + 1, kind), *parts])\n",
        f"{CONNECTION}::test_a_scan_whose_client_does_not_read_ends_behind_the_rest_of_its_batch",
    ),
    Mutant(
        "a client that reads nothing of the end of its scan stays",
        "ScanConnection.look",
        "if self._unread.is_too_long(unsent_bytes, now):",
        "if False:",
        f"{CONNECTION}::test_a_client_that_reads_nothing_of_an_end_is_dropped",
    ),
    Mutant(
        "a client may send while its scan is running",
        "ScanConnection.buffer_updated",
        "if self._state is _State.SCANNING or (",
        "if (",
        f"{CONNECTION}::test_a_client_that_sends_during_its_scan_is_dropped",
    ),
    Mutant(
        "a connection that is kept for a later scan takes the place of other clients",
        "DirectClients.refusal",
        " and not any(make_room() for make_room in self._scanning.values())",
        "",
        ROOM,
    ),
    Mutant(
        "a connection makes room before its first scan",
        "ScanConnection.make_room",
        " or not self._has_served",
        "",
        ROOM,
    ),
    Mutant(
        "a connection makes room twice",
        "ScanConnection.make_room",
        " or self._transport.is_closing()",
        "",
        ROOM,
    ),
    Mutant(
        "a connection makes room during its scan",
        "ScanConnection.make_room",
        "self._state is not _State.IDLE or ",
        "",
        ROOM,
    ),
    Mutant(
        "a connection makes room while the next request comes",
        "ScanConnection.make_room",
        " or self._incoming.reader.has_bytes",
        "",
        ROOM,
    ),
    Mutant(
        "an idle connection for scans is kept for ever",
        "ScanConnection.look",
        " and now - self._state_since > IDLE_SECONDS_MAX:",
        " and False:",
        f"{CONNECTION}::test_a_connection_that_is_idle_for_long_is_closed",
    ),
    Mutant(
        "an idle connection is closed while the next request comes",
        "ScanConnection.look",
        "elif not self._incoming.reader.has_bytes and now",
        "elif now",
        f"{CONNECTION}::test_a_connection_that_is_idle_for_long_is_closed",
    ),
    Mutant(
        "batches taken as soon as they are made stay counted",
        "_StepAhead._take",
        "        self._is_taken = True\n",
        "",
        "unit/engine/test_scans.py::test_batches_that_are_taken_as_soon_as_they_are_made_are_not_counted",
    ),
]
