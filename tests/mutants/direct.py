"""Broken builds of direct connections: their framing, the server's side, and the client's."""

from __future__ import annotations

from .broken_build import CLIENT, PROTOCOL, Mutant

FRAMES = "property/test_direct_frames.py"
CONNECTION = "unit/rpc/direct/test_connection.py"
TURN = "unit/rpc/direct/test_turn.py"
UNREAD_AND_LARGE = "unit/rpc/direct/test_unread_and_large.py"
BAD_INPUT = "unit/rpc/direct/test_bad_input.py"
LISTENER = "unit/rpc/direct/test_listener.py"
PLAN = "unit/rpc/direct/test_plan.py"
THREADS = "unit/client/test_direct.py"
LINKS = "unit/client/blocking/test_links.py"
ASYNCIO = "unit/client/awaited/test_links.py"
TOGETHER = "unit/client/test_links.py"
CHOICE = "unit/client/test_direct_choice.py"
REAL = "end_to_end/test_direct.py"


def of_client(name: str, where: str, passage: str, replacement: str, caught_by: str) -> Mutant:
    return Mutant(name, where, passage, replacement, caught_by, CLIENT)


_FRAMING = [
    Mutant(
        "a frame may be of any length",
        "FrameReader.next",
        "        if not 0 < length <= self._length_max:\n",
        "        if not length:\n",
        f"{FRAMES}::test_a_length_of_zero_or_beyond_the_limit_is_an_error_behind_the_frames_before_it",
        PROTOCOL,
    ),
    Mutant(
        "half a frame is lost when the next bytes are received over it",
        "FrameReader.room",
        "            if self._at < self._end:\n",
        "            if False:\n",
        f"{FRAMES}::test_frames_are_cut_out_of_bytes_in_any_pieces",
        PROTOCOL,
    ),
    Mutant(
        "any bytes are a greeting",
        "FrameReader._is_greeting_complete",
        "        if came[: len(MAGIC)] != MAGIC[: len(came)]:\n",
        "        if False:\n",
        f"{FRAMES}::test_the_first_wrong_byte_of_a_preamble_is_an_error",
        PROTOCOL,
    ),
]

_SERVER = [
    Mutant(
        "a client that reads no answers is read from",
        "DirectConnection._is_unread_too_much",
        "        return unread_bytes > 0 and unread_bytes > self._points.unread_bytes_max\n",
        "        return False\n",
        f"{UNREAD_AND_LARGE}::test_a_client_that_reads_nothing_is_not_read_from_and_its_answers_are_counted",
    ),
    Mutant(
        "unread answers of a direct connection are not counted",
        "Outgoing._count",
        "        self._holding.set(",
        "        print(",
        f"{UNREAD_AND_LARGE}::test_a_client_that_reads_nothing_is_not_read_from_and_its_answers_are_counted",
    ),
    Mutant(
        "a turn that unread answers prevented is not made up for",
        "DirectConnection._flush",
        "                self._take_turn_soon()\n",
        "                pass\n",
        f"{UNREAD_AND_LARGE}::test_answers_of_workers_wait_for_a_client_that_reads_nothing",
    ),
    Mutant(
        "a large frame is received without memory for it",
        "Incoming.begin_large",
        "        if not self._points.requests.try_take(byte_count):\n",
        "        if self._points.requests.add(byte_count):\n",
        f"{UNREAD_AND_LARGE}::test_a_large_frame_waits_for_memory_and_is_not_read_meanwhile",
    ),
    Mutant(
        "what is received of a frame is not counted",
        "Incoming.hold",
        "            self._count()\n",
        "",
        f"{CONNECTION}::test_half_frames_of_two_connections_stay_apart_and_are_counted",
    ),
    Mutant(
        "bytes of one connection are read as another one's",
        "Incoming.hold",
        "            reader.hold()\n",
        "",
        f"{CONNECTION}::test_half_frames_of_two_connections_stay_apart_and_are_counted",
    ),
    Mutant(
        "the change of a single client waits for the next turn of the event loop",
        "Turn.join",
        "        is_alone = self._ready_count() < 2\n",
        "        is_alone = self._ready_count() < 1\n",
        f"{TURN}::test_the_change_of_the_only_ready_socket_waits_for_no_other",
    ),
    Mutant(
        "changes that one receive brought are made one by one",
        "Turn.join",
        "if is_alone and not has_more and connection not in self._members:",
        "if is_alone:",
        f"{TURN}::test_changes_that_one_receive_brought_are_made_together",
    ),
    Mutant(
        "the last change of a receive waits for the next turn of the event loop",
        "Turn.join",
        "        if is_alone and not has_more:\n            self.end()\n",
        "",
        f"{TURN}::test_changes_of_the_only_ready_socket_wait_for_no_other",
    ),
    Mutant(
        "a get passes a put of its connection that waits for the end of the turn",
        "Turn.end_for",
        "            self.end()\n",
        "            pass\n",
        f"{TURN}::test_the_requests_of_a_connection_begin_in_their_order",
    ),
    Mutant(
        "a change of one connection is answered to another",
        "CoalescedChanges._answer",
        "                responder.send(outcomes_answer(points, responder, request, [outcome]))\n",
        "                first.send(outcomes_answer(points, responder, request, [outcome]))\n",
        f"{TURN}::test_they_are_made_by_one_call_and_each_is_answered_to_its_client",
    ),
    Mutant(
        "changes of several connections are answered as those of one",
        "CoalescedChanges._answer",
        "responders.count(first) == count and ",
        "",
        f"{TURN}::test_they_are_made_by_one_call_and_each_is_answered_to_its_client",
    ),
    Mutant(
        "a connection stays open when its client has left",
        "DirectConnection.eof_received",
        "        self.abort()",
        "        return True",
        f"{CONNECTION}::test_a_client_that_is_gone_is_answered_no_more",
    ),
    Mutant(
        "a malformed frame ends the connection before earlier requests are answered",
        "DirectConnection._finish",
        "        if self._open_count or self._incoming.has_begun_message or not self._outgoing.is_empty:\n",
        "        if not self._outgoing.is_empty:\n",
        f"{BAD_INPUT}::test_a_malformed_frame_ends_the_connection_after_the_answers_to_earlier_requests",
    ),
    Mutant(
        "a client that does not greet is waited for",
        "DirectConnection.drop_if_silent",
        "        if self._state is _GREETING and now - self._state_since > GREETING_SECONDS_MAX:\n",
        "        if False:\n",
        f"{BAD_INPUT}::test_a_client_that_is_silent_before_its_greeting_is_dropped",
    ),
    Mutant(
        "a frame that trickles is waited for",
        "Incoming.slowness",
        "        if reader.has_bytes and not reader.large_bytes:\n",
        "        if False:\n",
        f"{BAD_INPUT}::test_a_frame_that_trickles_is_dropped_and_a_long_one_in_good_time_is_not",
    ),
    Mutant(
        "there may be any number of direct connections",
        "DirectClients.refusal",
        "len(self._open) >= self._count_max and",
        "False and",
        f"{BAD_INPUT}::test_a_connection_too_many_is_refused_with_the_reason",
    ),
    Mutant(
        "there may be any number of connections without a greeting",
        "DirectClients.enter",
        "        if len(self._greeting) > GREETING_COUNT_MAX:\n",
        "        if False:\n",
        f"{BAD_INPUT}::test_of_many_connections_that_do_not_greet_the_oldest_are_dropped",
    ),
    Mutant(
        "one iteration of the loop accepts any number of connections without a greeting",
        "DirectClients.enter",
        "            oldest, _ = self._greeting.popitem(last=False)\n",
        "            oldest = next(iter(self._greeting))\n",
        f"{BAD_INPUT}::test_no_more_are_accepted_in_one_iteration_of_the_loop_either",
    ),
    Mutant(
        "a direct client does not count for the last one that leaves",
        "DirectClients.greeted",
        "        self._when_count_changed(len(self._open))\n",
        "",
        f"{REAL}::test_an_idle_direct_client_keeps_a_private_server_and_a_killed_one_does_not",
    ),
    Mutant(
        "direct connections are accepted from other machines without being asked",
        "check_plan",
        "            is_insecure=is_insecure,\n",
        "            is_insecure=True,\n",
        f"{PLAN}::test_an_address_that_other_machines_reach_needs_insecure",
    ),
    Mutant(
        "the direct socket is open to other users",
        "denied_to_others",
        "    mask_before = os.umask(0o177)\n",
        "    mask_before = os.umask(0)\n",
        f"{LISTENER}::test_the_socket_is_only_for_its_user_and_goes_with_the_listener",
    ),
    Mutant(
        "a change that is sent by both ways is made twice",
        "WritePath._change_row",
        "            if saved is not None:\n",
        "            if False:\n",
        "end_to_end/test_repeats_both_ways.py"
        "::test_increments_that_are_sent_by_both_ways_at_once_count_once_and_are_answered_alike",
    ),
]

_CLIENT = [
    of_client(
        "another server at the announced address is used",
        "body_bytes_max_of",
        "    if found != (announcement.data_folder_id, announcement.incarnation_id):\n",
        "    if False:\n",
        f"{LINKS}::test_another_server_at_the_announced_address_gets_no_request",
    ),
    of_client(
        "a client whose direct connection can't be opened does not fall back",
        "DirectChoice.failed",
        "        self.reason = reason\n",
        "        raise ConnectionError(reason)\n",
        f"{LINKS}::test_a_direct_port_that_refuses_connections_is_reported_and_grpc_is_used",
    ),
    of_client(
        "a server is asked once and for all where it takes direct connections",
        "ServerLink._new",
        "            if not was_known:\n                choice.learned(announcement_of(self._ask(",
        "            if choice.announcement is None:\n                choice.learned(announcement_of(self._ask(",
        f"{LINKS}::test_a_restarted_server_is_found_at_its_new_port",
    ),
    of_client(
        "a reader that is done leaves the others unread",
        "DirectConnection._hand_reading_on",
        "                successor.wake()\n",
        "                pass\n",
        f"{THREADS}::test_a_reader_that_is_answered_makes_another_caller_the_reader",
    ),
    of_client(
        "a reader that gives up leaves the others unread",
        "DirectConnection._give_up",
        "                self._hand_reading_on(request)\n",
        "",
        f"{THREADS}::test_a_reader_that_gives_up_at_its_deadline_makes_another_caller_the_reader",
    ),
    of_client(
        "a reader that is interrupted leaves the others unread",
        "DirectConnection._interrupted",
        "                self._hand_reading_on(request)\n",
        "",
        f"{THREADS}::test_a_keyboard_interrupt_ends_its_own_call_and_no_other",
    ),
    of_client(
        "an interrupted section is continued by the next",
        "DirectConnection._interrupted",
        "            if self._entered_by == _thread.get_ident():\n                self._entered_by = 0\n"
        "                self._channel.lose(_INTERRUPTED)\n                self._end()\n            elif",
        "            self._entered_by = 0\n            if",
        f"{THREADS}::test_an_interruption_while_a_thread_sends_breaks_the_connection",
    ),
    of_client(
        "a client that can't send does not read",
        "DirectChannel.poll",
        "        polls_for = select.POLLIN if self.unsent is None else select.POLLIN | select.POLLOUT\n",
        "        polls_for = select.POLLIN if self.unsent is None else select.POLLOUT\n",
        f"{THREADS}::test_a_client_that_can_not_send_reads",
    ),
    of_client(
        "bytes that a caller could not send wait for the reader's next answer",
        "DirectChannel._wake",
        "        if self.is_polling:\n",
        "        if False:\n",
        f"{THREADS}::test_a_reader_that_waits_for_answers_sends_what_another_caller_could_not",
    ),
    of_client(
        "each request of many threads travels alone",
        "DirectConnection._send_soon",
        "            if channel.conversation.is_busy:\n",
        "            if False:\n",
        f"{THREADS}::test_what_waits_together_travels_together",
    ),
    of_client(
        "what arrives during a section waits for the next one",
        "DirectConnection._leave",
        "self._channel.failure is None and self._arrivals and self._enter()",
        "False",
        f"{THREADS}::test_what_arrives_during_a_section_is_sent_when_it_ends",
    ),
    of_client(
        "what arrives when a section has ended waits for the next one",
        "DirectConnection._arrive",
        "        if not self._entered_by:",
        "        if False:",
        f"{THREADS}::test_what_arrives_when_a_section_has_just_ended_is_sent_by_its_caller",
    ),
    of_client(
        "a caller that had to gather is not woken when it is answered",
        "DirectConnection._wait",
        "                    waiting.shut()  # Also if it has to gather now: it will wait again.\n"
        "                    is_over = self._reader is request or self._gatherer is request\n",
        "                    is_over = self._reader is request or self._gatherer is request\n"
        "                    if not is_over:\n                        waiting.shut()\n",
        f"{THREADS}::test_many_that_arrive_during_a_section_travel_together",
    ),
    of_client(
        "what arrives during the last section of a connection waits forever",
        "DirectConnection._end",
        "        while self._arrivals:\n",
        "        while False:\n",
        f"{THREADS}::test_what_arrives_during_the_last_section_fails_unsent",
    ),
    of_client(
        "a request that was not sent as a whole is in doubt",
        "DirectChannel._send",
        "            self.conversation.newest_message_not_sent()\n",
        "",
        f"{THREADS}::test_a_request_that_was_not_sent_as_a_whole_is_not_in_doubt",
    ),
    of_client(
        "a request is sent on a connection that was closed while it was idle",
        "DirectConnection._submit",
        "                    channel.receive_if_there()\n",
        "                    pass\n",
        f"{THREADS}::test_a_connection_that_was_closed_while_it_was_idle_is_found_before_anything_is_sent",
    ),
    of_client(
        "a silent server is waited for",
        "DirectChannel.ping_if_silent",
        "            self.lose(",
        "            print(",
        f"{THREADS}::test_a_server_without_a_sign_of_life_loses_its_requests",
    ),
    of_client(
        "a child of a fork ends its parent's connection",
        "DirectConnection.forget",
        "        self._channel.close()\n",
        "        self._channel.shut_down()\n",
        f"{THREADS}::test_a_child_of_a_fork_closes_its_copy_without_ending_the_connection",
    ),
    of_client(
        "each way has numbers of its own",
        "Connections.link",
        "                    self.sequences,\n",
        "                    Sequences(),\n",
        f"{TOGETHER}::test_the_floor_of_one_way_never_passes_a_change_that_is_waited_for_on_the_other",
    ),
    of_client(
        "failed attempts to go directly are repeated at once",
        "DirectChoice.failed",
        "        self._retry_at = now + ",
        "        self._retry_at = 0 * now + 0 * ",
        f"{CHOICE}::test_failures_are_repeated_after_a_hundred_times_their_duration_and_ever_later",
    ),
    of_client(
        "a path of another machine is tried on this one",
        "targets",
        "    if announcement.socket and _is_local(server):\n",
        "    if announcement.socket:\n",
        f"{CHOICE}::test_a_socket_is_tried_only_on_the_same_machine",
    ),
]

DIRECT = [*_FRAMING, *_SERVER, *_CLIENT]
