"""Broken builds of connections for bulk batches: memory, clients that leave or do not read, and what is kept."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

CONNECTION = "unit/rpc/direct/test_bulk_connection.py"
THREADS = "unit/client/test_direct_bulk.py"
LINKS = "unit/client/blocking/test_bulk_links.py"
ROOM = f"{CONNECTION}::test_an_idle_connection_makes_room_for_another_client"

BULK_CONNECTIONS = [
    Mutant(
        "a batch is received before there is memory for it",
        "BulkConnection._has_begun_large",
        "return may_receive and self._incoming.begin_large(_memory)",
        "self._incoming.reader.begin_large(_memory)\n            return True",
        f"{CONNECTION}::test_a_large_batch_waits_for_memory",
    ),
    Mutant(
        "batches that come slowly take the memory to work on one",
        "BulkAdmission.may_receive",
        " and self._ledger.requests.has_room(work_bytes)",
        "",
        f"{CONNECTION}::test_batches_that_come_slowly_leave_memory_to_work_on_one",
    ),
    Mutant(
        "batches are received while others wait for admission",
        "BulkAdmission.may_receive",
        "not self._waiting_bytes and ",
        "",
        f"{CONNECTION}::test_no_large_batch_is_received_while_another_one_waits_for_admission",
    ),
    Mutant(
        "a batch is received only when the one that waited for admission is done",
        "BulkAdmission.admit",
        "            if not self._waiting_bytes:\n                self._ledger.wake()",
        "            if False:\n                self._ledger.wake()",
        f"{CONNECTION}::test_no_large_batch_is_received_while_another_one_waits_for_admission",
    ),
    Mutant(
        "the deadline for memory stays after the memory was found",
        "BulkConnection._begin_large",
        "        if has_begun:\n            self._stop_waiting()\n",
        "",
        f"{CONNECTION}::test_memory_that_is_released_while_a_batch_begins_to_wait_is_used_and_the_connection_stays",
    ),
    Mutant(
        "a connection keeps a batch that is done until it asks for the next one",
        "BulkConnection._deliver",
        "        self._wanted = None  # It would keep the batch for as long as BulkStreams asks for no other one.\n",
        "",
        f"{CONNECTION}::test_a_batch_that_is_done_and_not_answered_is_not_kept",
    ),
    Mutant(
        "the error of a stream keeps the batches behind it",
        "BulkConnection._serve",
        "            failure.with_traceback(None)",
        "            pass",
        f"{CONNECTION}::test_a_batch_behind_a_bad_one_is_not_kept",
    ),
    Mutant(
        "a client that is sending loses the end of a server that stops",
        "BulkConnection._end_with",
        "            self._close_when_silent()\n",
        "            self._transport.close()\n",
        f"{CONNECTION}::test_a_client_that_is_sending_when_the_server_stops_gets_its_answers_and_the_end",
    ),
    Mutant(
        "a batch that has arrived is not counted until it is admitted",
        "BulkConnection._deliver",
        "        self._requests.add(len(body) - self._incoming.pass_on())\n"
        "        self._held_bytes.append(len(body))\n",
        "",
        f"{CONNECTION}::test_batches_that_have_arrived_are_counted_until_they_are_admitted",
    ),
    Mutant(
        "a batch stays counted where it was received",
        "BulkStreams._begin",
        "        release()  # If another thread takes the bytes first, the batch waits.\n",
        "",
        f"{CONNECTION}::test_batches_are_answered_in_order_and_a_third_is_not_received_before",
    ),
    Mutant(
        "batches of a client that has left stay counted",
        "BulkConnection._drop_batches",
        "        while self._held_bytes:\n            self._release()\n",
        "",
        f"{CONNECTION}::test_batches_that_have_arrived_are_counted_until_they_are_admitted",
    ),
    Mutant(
        "a batch waits for memory for ever",
        "BulkConnection._refuse",
        "            self._wanted.set_exception("
        "self._requests.refusal(REQUEST_COST * self._incoming.reader.large_bytes))\n",
        "            pass\n",
        f"{CONNECTION}::test_a_batch_without_memory_in_time_ends_the_connection_with_an_error_to_repeat",
    ),
    Mutant(
        "a batch does not notice that memory was released",
        "BulkConnection._begin_large",
        "        self._service.when_memory_is_given(self._try_again)\n",
        "",
        f"{CONNECTION}::test_a_large_batch_waits_for_memory",
    ),
    Mutant(
        "answers pile up for a client that does not read",
        "BulkConnection._write",
        "        await self._may_write.wait()\n",
        "",
        f"{CONNECTION}::test_a_client_that_reads_no_answer_sends_no_further_batches_and_is_dropped",
    ),
    Mutant(
        "a frame that the server does not read is too slow",
        "BulkConnection._resume_reading",
        "            self._incoming.read_on()\n",
        "",
        f"{CONNECTION}::test_a_client_that_sends_a_batch_too_slowly_is_dropped_but_not_while_the_server_reads_nothing",
    ),
    Mutant(
        "a connection that waits for an answer is closed as idle",
        "BulkConnection._is_idle",
        "not self._unanswered_count and ",
        "",
        f"{CONNECTION}::test_a_connection_without_a_batch_for_long_is_closed[False]",
    ),
    Mutant(
        "a connection makes room before its first batch",
        "StreamConnection.make_room",
        "not (self._has_served and self._is_idle)",
        "not self._is_idle",
        ROOM,
    ),
    Mutant(
        "a connection with an unanswered batch makes room",
        "StreamConnection.make_room",
        "not (self._has_served and self._is_idle)",
        "not self._has_served",
        ROOM,
    ),
    Mutant(
        "what came with the greeting is lost when another connection receives",
        "BulkConnection._deliver_or_receive",
        "            self._pause_reading()\n            incoming.hold()\n            return\n",
        "            self._pause_reading()\n            return\n",
        f"{CONNECTION}::test_what_comes_before_the_server_asks_for_a_batch_is_not_lost",
    ),
    Mutant(
        "a frame of another kind is taken for a batch",
        "BulkConnection._deliver_or_receive",
        "found[0] != BULK_BATCH",
        "False",
        f"{CONNECTION}::test_bad_input_ends_the_connection_after_the_answers",
    ),
    # The client
    Mutant(
        "a stream that another thread has cancelled has sent its batch",
        "DirectBulk._send",
        "  # Another thread has cancelled the stream.\n                raise self._end\n",
        "\n                return\n",
        f"{THREADS}::test_a_stream_that_is_cancelled_ends_a_call_of_another_thread[put]",
        CLIENT,
    ),
    Mutant(
        "a server that takes a large batch slowly is given up",
        "DirectBulk._send",
        "                continue\n            give_up_at = time.monotonic() + self._timeout_s\n",
        "                continue\n",
        f"{THREADS}::test_a_server_that_takes_nothing_of_a_batch_is_given_up_and_one_that_takes_some_is_not",
        CLIENT,
    ),
    Mutant(
        "a connection with an unanswered batch is kept",
        "DirectBulk.put",
        "        self._unanswered_count += 1\n"
        "        with self._using():\n            try:\n                self._send(parts)\n",
        "        with self._using():\n            try:\n                self._send(parts)\n",
        f"{THREADS}::test_a_stream_with_an_unanswered_batch_or_bytes_behind_takes_its_connection_with_it",
        CLIENT,
    ),
    Mutant(
        "each stream of batches opens a connection",
        "ServerLink.open_for",
        "        if (kept := streams.kept.take(announcement)) is not None:\n            return kept\n"
        "        if choice.may_open(began):\n            until = min(deadline, began + OPEN_S_MAX)\n            try:\n"
        "                opened = open_socket(",
        "        if choice.may_open(began):\n            until = min(deadline, began + OPEN_S_MAX)\n            try:\n"
        "                opened = open_socket(",
        f"{LINKS}::test_one_stream_after_another_uses_one_connection",
        CLIENT,
    ),
    Mutant(
        "what came before a failed send is lost",
        "DirectBulk.put",
        "                self._send(parts)\n            except OSError as error:\n",
        "                self._send(parts)\n            except ZeroDivisionError as error:\n",
        f"{THREADS}::test_answers_and_an_end_that_came_before_a_failed_send_are_returned",
        CLIENT,
    ),
    Mutant(
        "a connection that the server has closed between two batches is a lost one",
        "_answers",
        "                if stream is not None and stream.has_received():\n                    if send.is_waiting:\n"
        "                        break\n"
        "                    stream.close()  # The server has closed it, because it was idle.\n"
        "                    stream = None\n                if stream is None:\n                    stream = _opened(",
        "                if stream is None:\n                    stream = _opened(",
        f"{LINKS}::test_a_connection_that_the_server_closes_between_two_batches_is_replaced",
        CLIENT,
    ),
    Mutant(
        "batches that the server has not begun are in doubt",
        "BulkSend.lost",
        "was_sent=may_have_begun",
        "was_sent=True",
        f"{LINKS}::test_batches_without_an_answer_are_not_in_doubt_when_the_server_has_ended_the_stream",
        CLIENT,
    ),
    Mutant(
        "an empty part is sent for ever",
        "_joined",
        "            if len(piece):\n                short.append(piece)\n",
        "            short.append(piece)\n",
        f"{THREADS}::test_no_part_of_a_frame_is_empty",
        CLIENT,
    ),
    Mutant(
        "a batch that is too large is sent",
        "batch_frame",
        "    if byte_count > body_bytes_max:\n",
        "    if False:\n",
        f"{THREADS}::test_a_batch_that_is_too_large_is_not_sent_and_the_stream_goes_on",
        CLIENT,
    ),
    Mutant(
        "an earlier server is asked for a connection for batches",
        "body_bytes_max_of",
        "    if purpose is not Purpose.POINTS and welcome.protocol < purpose.value:\n",
        "    if False:\n",
        f"{LINKS}::test_an_earlier_server_gets_batches_by_grpc_and_scans_directly",
        CLIENT,
    ),
    Mutant(
        "a connection for batches lives in the child of a fork",
        "ServerLink.forget",
        "self._running_streams():\n            stream.forget()\n        self.scans.kept.forget()\n"
        "        self.bulk.kept.forget()\n",
        "self._running_streams():\n            stream.forget()\n        self.scans.kept.forget()\n",
        "unit/client/test_stream_sockets.py::test_the_child_of_a_fork_closes_the_copies_of_each_link",
        CLIENT,
    ),
]
