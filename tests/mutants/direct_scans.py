"""Broken builds of scans on direct connections of their own: the client's side."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

THREADS = "unit/client/test_direct_scan.py"
TASKS = "unit/client/test_direct_scan_of_tasks.py"
LINKS = "unit/client/blocking/test_links.py"
SOCKETS = "unit/client/test_stream_sockets.py"
OF_NO_USE = f"{SOCKETS}::test_a_connection_that_may_be_of_no_use_is_closed"

DIRECT_SCANS = [
    Mutant(
        "a thread that ends a direct scan closes the socket that another one uses",
        "DirectStream.cancel",
        "                    self._socket.shutdown(socket.SHUT_RDWR)\n                if not self._is_in_use:\n",
        "                    self._socket.shutdown(socket.SHUT_RDWR)\n                if True:\n",
        f"{THREADS}::test_the_thread_that_receives_closes_the_socket_of_a_scan_that_is_cancelled",
        CLIENT,
    ),
    Mutant(
        "a socket is closed while another thread shuts it down",
        "DirectStream._using",
        "                with self._closing:\n                    self._socket.close()\n",
        "                self._socket.close()\n",
        f"{THREADS}::test_the_socket_is_not_closed_while_another_thread_shuts_it_down",
        CLIENT,
    ),
    Mutant(
        "a direct scan waits for ever for a server that vanished",
        "DirectStream._next_frame",
        "        silent_until = time.monotonic() + silent_s\n        while self._end is None:\n",
        "        silent_until = deadline\n        while self._end is None:\n",
        f"{THREADS}::test_a_server_that_is_silent_is_lost",
        CLIENT,
    ),
    Mutant(
        "a task that is cancelled while it begins a direct scan leaves the socket open",
        "DirectScan.begin",
        "                    await self._loop.sock_sendall(self._socket, request)\n        except BaseException:\n",
        "                    await self._loop.sock_sendall(self._socket, request)\n        except Exception:\n",
        f"{TASKS}::test_a_task_that_is_cancelled_while_it_sends_closes_the_socket",
        CLIENT,
    ),
    Mutant(
        "a client that only scans does not notice that the server was restarted",
        "ServerLink.open_for",
        "            direct.look()\n",
        "            pass\n",
        f"{LINKS}::test_a_client_that_only_scans_finds_a_restarted_server",
        CLIENT,
    ),
    # Connections that are kept for the next scans
    Mutant(
        "each scan opens a connection",
        "DirectStream._leave",
        "            if self._end is None:  # Another thread may have cancelled it.\n",
        "            if False:\n",
        f"{THREADS}::test_a_scan_that_has_ended_leaves_its_connection_to_the_next_one",
        CLIENT,
    ),
    Mutant(
        "a connection with bytes behind the end of its scan is used again",
        "DirectScan.next",
        "(*found, self._target)\n            if batch is None and not self._frames.has_bytes:\n",
        "(*found, self._target)\n            if batch is None:\n",
        f"{THREADS}::test_a_scan_that_has_not_ended_as_it_should_takes_its_connection_with_it",
        CLIENT,
    ),
    Mutant(
        "the connection of a scan that another thread cancelled is kept",
        "DirectStream._leave",
        "            if self._end is None:  # Another thread may have cancelled it.\n",
        "            if True:\n",
        f"{THREADS}::test_a_scan_that_is_cancelled_while_its_end_comes_takes_its_connection_with_it",
        CLIENT,
    ),
    Mutant(
        "a scan that is left at its limit closes its connection",
        "StreamSocket._has_ended",
        "        if not reader.has_bytes:\n",
        "        if False:\n",
        f"{THREADS}::test_a_scan_that_is_left_when_all_rows_have_come_leaves_its_connection_too[later]",
        CLIENT,
    ),
    Mutant(
        "a connection is used again before the end of its scan has come",
        "StreamSocket.is_ready",
        "if self.is_ending and not self._has_ended():",
        "if self.is_ending and self._has_ended():",
        f"{SOCKETS}::test_a_connection_whose_scan_is_ending_is_used_when_the_end_has_come",
        CLIENT,
    ),
    Mutant(
        "a connection with bytes behind the end that was not read is used again",
        "StreamSocket._has_ended",
        " or reader.has_bytes",
        "",
        f"{SOCKETS}::test_a_connection_whose_scan_is_ending_is_used_when_the_end_has_come",
        CLIENT,
    ),
    Mutant(
        "a thread repeats a scan from its beginning when it has had rows",
        "DirectStream._next_frame",
        "            self._received_some()\n            silent_until",
        "            silent_until",
        f"{THREADS}::test_a_kept_connection_that_is_lost_in_the_middle_of_a_scan_is_like_a_new_one",
        CLIENT,
    ),
    Mutant(
        "a task repeats a scan from its beginning when it has had rows",
        "DirectStream._next_frame",
        "            self._received_some()\n        raise self._end\n",
        "        raise self._end\n",
        f"{TASKS}::test_a_kept_connection_that_is_lost_in_the_middle_of_a_scan_is_like_a_new_one",
        CLIENT,
    ),
    Mutant(
        "a scan that was cancelled begins again",
        "RepeatableScan.next",
        "if self._is_cancelled:\n            self._stream.cancel()\n        return self._stream.next(max",
        "return self._stream.next(max",
        f"{THREADS}::test_a_scan_that_is_cancelled_while_it_begins_again_is_cancelled_there_too",
        CLIENT,
    ),
    Mutant(
        "a strict scan fails with the kept connection that it was to continue on",
        "RepeatableScan.next",
        "        self._stream = open_stream(self._servers, self._region, self._request, remaining_s)\n",
        "        raise ServerUnavailableError('the connection was lost')\n",
        "end_to_end/test_direct_scans.py::"
        "test_a_strict_scan_that_has_its_first_rows_survives_the_loss_of_a_kept_connection",
        CLIENT,
    ),
    Mutant(
        "a kept connection is used although the server has closed it",
        "KeptSockets.take",
        " and kept.is_ready()",
        "",
        f"{OF_NO_USE}[closed]",
        CLIENT,
    ),
    Mutant(
        "a kept connection is used for another run of the server",
        "KeptSockets.take",
        " and kept.announcement == announcement",
        "",
        f"{OF_NO_USE}[another run]",
        CLIENT,
    ),
    Mutant(
        "a kept connection is used however old it is",
        "KeptSockets.take",
        "is_young = time.monotonic() - kept.kept_at < KEPT_S_MAX",
        "is_young = True",
        f"{OF_NO_USE}[old]",
        CLIENT,
    ),
    Mutant(
        "any number of connections is kept",
        "KeptSockets._has_surplus",
        "len(kept) > KEPT_COUNT_MAX",
        "False",
        f"{SOCKETS}::test_the_newest_connections_are_used_again_each_once_and_more_than_four_are_not_kept",
        CLIENT,
    ),
    Mutant(
        "a connection that nobody holds any more is left to Python",
        "StreamSocket.__del__",
        "self.socket.close()",
        "pass",
        f"{SOCKETS}::test_a_connection_that_an_interruption_has_taken_from_its_scan_is_closed",
        CLIENT,
    ),
    Mutant(
        "old connections stay below newer ones",
        "KeptSockets._has_surplus",
        "now - kept[0].kept_at >= KEPT_S_MAX",
        "False",
        f"{SOCKETS}::test_old_connections_are_closed_when_a_newer_one_comes",
        CLIENT,
    ),
    Mutant(
        "a signal handler that cancels a scan as it leaves is overlooked",
        "DirectStream._leave",
        '        ended = self._lost(f"the {self._NAME} has ended")'
        "  # No call below: a signal handler could cancel there.\n"
        "        with self._closing:\n"
        "            if self._end is None:  # Another thread may have cancelled it.\n"
        "                self._end = ended\n",
        "        with self._closing:\n"
        "            if self._end is None:\n"
        '                self._end = self._lost(f"the {self._NAME} has ended")\n',
        f"{THREADS}::test_a_signal_handler_may_cancel_a_scan_while_it_leaves",
        CLIENT,
    ),
    Mutant(
        "a scan that begins again has all of its time again",
        "RepeatableScan.next",
        "self._stream = open_stream(self._servers, self._region, self._request, remaining_s)",
        "self._stream = open_stream(self._servers, self._region, self._request, timeout_s)",
        f"{THREADS}::test_a_scan_that_begins_again_has_what_is_left_of_its_time",
        CLIENT,
    ),
    Mutant(
        "a scan that ends after its client keeps its connection",
        "KeptSockets.keep",
        "if self._is_closed:",
        "if False:",
        f"{SOCKETS}::test_closing_closes_those_that_are_kept_and_those_that_come_later",
        CLIENT,
    ),
    Mutant(
        "kept connections outlive their client",
        "ServerLink.close",
        "        self.scans.kept.close()\n        self.bulk.kept.close()\n        self.close_stream(reason)\n",
        "        self.bulk.kept.close()\n        self.close_stream(reason)\n",
        f"{LINKS}::test_closing_the_client_closes_its_kept_connections",
        CLIENT,
    ),
    Mutant(
        "a kept connection lives in the child of a fork",
        "ServerLink.forget",
        "self._running_streams():\n            stream.forget()\n        self.scans.kept.forget()\n",
        "self._running_streams():\n            stream.forget()\n",
        f"{SOCKETS}::test_the_child_of_a_fork_closes_the_copies_of_each_link",
        CLIENT,
    ),
    Mutant(
        "the child of a fork ends the parent's kept connections",
        "KeptSockets.forget",
        "kept.socket.close()",
        "kept.close()",
        f"{SOCKETS}::test_the_child_of_a_fork_closes_its_copies_and_leaves_those_of_the_parent_alone",
        CLIENT,
    ),
    Mutant(
        "a scan that was cancelled in the middle looks complete",
        "Scan.__anext__",
        "        except BaseException:\n",
        "        except Exception:\n",
        "unit/client/test_aio.py::test_a_scan_that_is_cancelled_while_it_waits_does_not_look_complete",
        CLIENT,
    ),
    Mutant(
        "a fork does not wait for imports",
        "wait_for_imports",
        "while _are_running() and",
        "while False and",
        "unit/client/test_running_imports.py::test_a_fork_waits_for_an_import_of_another_thread",
        CLIENT,
    ),
]
