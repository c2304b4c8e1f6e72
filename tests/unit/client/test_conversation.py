"""Requests that wait, are in flight and are answered, with limits so small that each is reached."""

from __future__ import annotations

import pytest
from rowlock._core import point
from rowlock._core.conversation import Conversation, Request
from rowlock._core.sequences import Sequences
from rowlock.errors import LimitExceededError, ServerUnavailableError
from rowlock_proto.v1 import region_pb2

from tests.invariants import check


class Caller:
    """A request and how often it was woken."""

    def __init__(self, conversation: Conversation, row: bytes = b"row") -> None:
        self.request: Request = point.get("t", [row], None)
        self.wake_count = 0
        self.request.prepare(1, 1000, self.woken)
        conversation.submit(self.request)

    def woken(self) -> None:
        self.wake_count += 1


def sent(conversation: Conversation) -> list[int]:
    """Returns the ids in the next message; [] if there is none."""
    message = conversation.next_message()
    check(conversation)
    return [] if message is None else [item.id for item in region_pb2.PointRequests.FromString(message).requests]


def answer(conversation: Conversation, *ids: int) -> None:
    conversation.answered([region_pb2.PointAnswer(id=number) for number in ids])
    check(conversation)


def test_waiting_requests_share_a_message() -> None:
    conversation = Conversation(Sequences())
    for _ in range(3):
        Caller(conversation)
    assert sent(conversation) == [1, 2, 3]
    assert sent(conversation) == []
    assert conversation.statistics().messages_sent == 1


def test_a_message_holds_at_least_one_request_and_no_more_bytes_than_allowed() -> None:
    conversation = Conversation(Sequences(), message_bytes_max=100)
    for row in (b"x" * 500, b"a", b"b", b"y" * 60):
        Caller(conversation, row)
    assert sent(conversation) == [1]
    assert sent(conversation) == [2, 3]
    assert sent(conversation) == [4]


def test_no_more_are_in_flight_than_allowed() -> None:
    conversation = Conversation(Sequences(), in_flight_max=2)
    for _ in range(3):
        Caller(conversation)
    assert sent(conversation) == [1, 2]
    assert not conversation.can_send
    assert sent(conversation) == []
    answer(conversation, 2)
    assert conversation.can_send
    assert sent(conversation) == [3]


def test_answers_come_in_any_order_and_wake_once() -> None:
    conversation = Conversation(Sequences())
    callers = [Caller(conversation) for _ in range(3)]
    sent(conversation)
    answer(conversation, 3, 1)
    answer(conversation, 1, 2)
    assert [caller.wake_count for caller in callers] == [1, 1, 1]
    assert all(caller.request.answer is not None for caller in callers)
    assert conversation.statistics().answers_without_request == 1


def test_a_lost_stream_wakes_all_callers_and_marks_those_in_doubt() -> None:
    conversation = Conversation(Sequences(), in_flight_max=1)
    callers = [Caller(conversation) for _ in range(2)]
    sent(conversation)
    conversation.lost(ServerUnavailableError("cut"))
    check(conversation)
    assert [caller.wake_count for caller in callers] == [1, 1]
    assert [caller.request.is_in_doubt for caller in callers] == [True, False]
    assert conversation.statistics().in_flight == conversation.statistics().waiting == 0


def test_a_request_beyond_the_limit_fails_alone_and_the_others_are_only_cut_off() -> None:
    conversation = Conversation(Sequences())
    small, large, waiting = Caller(conversation), Caller(conversation), Caller(conversation)
    large.request.payload = bytes(2_000_000)
    sent_small = conversation.next_message()
    sent_large = conversation.next_message()
    assert sent_small is not None
    assert sent_large is not None
    assert len(sent_small) < len(sent_large)
    conversation.lost(LimitExceededError("too large", limit="request_bytes_max", limit_value=1_000_000))
    assert isinstance(large.request.failure, LimitExceededError)
    assert isinstance(small.request.failure, ServerUnavailableError)
    assert isinstance(waiting.request.failure, ServerUnavailableError)


def test_when_the_request_beyond_the_limit_was_abandoned_no_other_fails_with_it() -> None:
    conversation = Conversation(Sequences())
    small, large = Caller(conversation), Caller(conversation)
    large.request.payload = bytes(2_000_000)
    conversation.next_message()
    conversation.next_message()
    conversation.abandon(large.request)
    conversation.lost(LimitExceededError("too large"))
    assert isinstance(small.request.failure, ServerUnavailableError)
    assert large.wake_count == 0


@pytest.mark.parametrize("is_sent", [False, True])
def test_an_abandoned_request_does_not_wake_its_caller(is_sent: bool) -> None:
    conversation = Conversation(Sequences())
    caller = Caller(conversation)
    if is_sent:
        sent(conversation)
    conversation.abandon(caller.request)
    check(conversation)
    answer(conversation, 1)
    conversation.lost(ServerUnavailableError("cut"))
    assert caller.wake_count == 0
    assert sent(conversation) == []


def test_a_repeated_request_gets_an_id_of_its_own() -> None:
    conversation = Conversation(Sequences())
    caller = Caller(conversation)
    sent(conversation)
    conversation.lost(ServerUnavailableError("cut"))
    caller.request.prepare(2, 500, caller.woken)
    conversation.submit(caller.request)
    message = region_pb2.PointRequests.FromString(conversation.next_message() or b"")
    assert (message.requests[0].id, message.requests[0].region_id, message.requests[0].timeout_ms) == (2, 2, 500)
    answer(conversation, 1)
    assert caller.request.answer is None
    answer(conversation, 2)
    assert caller.request.answer is not None


def test_each_message_names_the_client_and_its_floor() -> None:
    sequences = Sequences()
    conversation = Conversation(sequences)
    first = sequences.take(3)
    sequences.take()
    Caller(conversation)
    sequences.release(first)
    message = region_pb2.PointRequests.FromString(conversation.next_message() or b"")
    assert message.client_id == sequences.client_id
    assert len(message.client_id) == 16
    assert message.sequence_floor == 4


def test_a_message_waits_for_more_requests_only_when_many_are_in_flight() -> None:
    conversation = Conversation(Sequences())
    Caller(conversation)
    assert not conversation.is_worth_waiting
    for _ in range(15):
        Caller(conversation)
    sent(conversation)
    Caller(conversation)
    assert conversation.is_worth_waiting
    for _ in range(3):
        Caller(conversation)
    assert not conversation.is_worth_waiting


def test_a_few_callers_send_at_once_and_several_gather() -> None:
    conversation = Conversation(Sequences())
    for _ in range(3):
        Caller(conversation)
        sent(conversation)
        assert not conversation.is_busy
    Caller(conversation)
    assert conversation.is_busy
    assert not conversation.is_worth_waiting  # They only let other threads run.


def test_numbers_rise_and_the_floor_is_the_lowest_in_use() -> None:
    sequences = Sequences()
    assert sequences.floor() == 1
    with sequences.taken(2) as first, sequences.taken(1) as second:
        assert (first, second) == (1, 3)
        assert sequences.floor() == 1
    assert sequences.floor() == 4
    assert Sequences().client_id != sequences.client_id
