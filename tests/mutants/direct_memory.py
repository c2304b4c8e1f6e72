"""Broken builds of what keeps parsed messages in memory: direct connections, and streams of gRPC."""

from __future__ import annotations

from .broken_build import Mutant

PARSED = "unit/rpc/direct/test_parsed.py"
BAD_INPUT = "unit/rpc/direct/test_bad_input.py"
RUN = "unit/rpc/test_message_run.py"
CONVERSATION = "unit/rpc/test_conversation.py"
ONLY_BYTES = f"{PARSED}::test_only_the_bytes_of_a_message_are_kept_while_its_client_reads_nothing"
ON_A_STREAM = (
    f"{CONVERSATION}::test_a_message_that_has_not_begun_whole_is_counted_and_only_its_bytes_while_answers_are_unread"
)

DIRECT_MEMORY = [
    Mutant(
        "a message may have any number of requests that can't be valid",
        "check_request_count",
        "byte_count < _REQUEST_BYTES_MIN * count",
        "byte_count < count",
        f"{BAD_INPUT}::test_a_malformed_frame_ends_the_connection_after_the_answers_to_earlier_requests",
    ),
    Mutant(
        "the reason of an end keeps the parsed message",
        "DirectConnection._end_with",
        "error.with_traceback(None)",
        "error",
        f"{BAD_INPUT}::test_the_reason_of_an_end_does_not_keep_the_message_that_it_is_about",
    ),
    Mutant(
        "a parsed message of a direct connection is not counted",
        "Incoming._count",
        "self.reader.bytes_held + byte_count",
        "self.reader.bytes_held",
        f"{PARSED}::test_a_message_that_has_not_begun_whole_is_counted",
    ),
    Mutant(
        "the requests of a large message are counted by their bytes only",
        "LargeMessageResponder.set_request_count",
        "            self._account.add(PARSED_REQUEST_BYTES * request_count)\n"
        "            self._byte_count += PARSED_REQUEST_BYTES * request_count\n",
        "            pass\n",
        f"{CONVERSATION}::test_too_many_bytes_of_large_messages_are_refused",
    ),
    Mutant(
        "a message stays parsed while its client reads nothing",
        "DirectConnection._take_turn",
        "                incoming.set_aside()\n",
        "",
        ONLY_BYTES,
    ),
    Mutant(
        "a message begins again when it is parsed again",
        "MessageRun.parse",
        "        for _ in islice(self._pending, self._begun_count):\n            pass\n",
        "",
        ONLY_BYTES,
    ),
    Mutant(
        "the requests of a message count again when it is parsed again",
        "MessageRun.parse",
        "        return 0 if is_known else self._count\n",
        "        return self._count\n",
        ONLY_BYTES,
    ),
    Mutant(
        "requests that wait keep each parsed copy of their message",
        "MessageRun.advance",
        "map(_copy, pending) if self._begun_count else pending",
        "pending",
        f"{RUN}::test_requests_that_wait_keep_one_parsed_message_however_often_it_was_parsed",
    ),
    Mutant(
        "the requests of a message that is set aside are never answered when the client leaves",
        "MessageRun.drop",
        "self._count - self._begun_count if self._pending is None",
        "0 if self._pending is None",
        f"{PARSED}::test_a_client_that_leaves_while_its_message_is_set_aside_leaves_nothing",
    ),
    Mutant(
        "a long message is parsed without memory for it",
        "DirectService.may_parse",
        "        return self.points.requests.has_room(PARSED_COST * byte_count)\n",
        "        return True\n",
        f"{PARSED}::test_a_long_message_waits_for_memory",
    ),
    Mutant(
        "long messages that together fill the account wait for each other",
        "DirectService.may_parse",
        " or not self.parsed:",
        ":",
        f"{PARSED}::test_a_long_message_without_memory_is_parsed_when_no_other_is_kept",
    ),
    Mutant(
        "a connection looks for memory all the time",
        "DirectConnection._take_turn",
        "                if incoming.may_continue:  # Memory was released before that.\n",
        "                if True:\n",
        f"{PARSED}::test_a_long_message_waits_for_memory",
    ),
    Mutant(
        "memory that is given before a message waits for it is not noticed",
        "DirectConnection._take_turn",
        "                if incoming.may_continue:  # Memory was released before that.\n",
        "                if False:\n",
        f"{PARSED}::test_memory_that_is_given_before_a_message_waits_for_it_is_noticed",
    ),
    Mutant(
        "a parsed message of a stream is not counted",
        "Conversation._begin_all",
        "                holding.set(run.byte_count)\n                await asyncio.sleep(0)\n",
        "                await asyncio.sleep(0)\n",
        ON_A_STREAM,
    ),
    Mutant(
        "a message of a stream stays parsed while its client reads nothing",
        "Conversation._begin_all",
        "                    run.set_aside()\n",
        "",
        ON_A_STREAM,
    ),
]
