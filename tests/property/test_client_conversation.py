"""The conversation under random steps: every caller is woken once or has cancelled, and nothing is sent twice."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from rowlock._core import point
from rowlock._core.conversation import Conversation, Request
from rowlock._core.sequences import Sequences
from rowlock.errors import ServerUnavailableError
from rowlock_proto.v1 import region_pb2

from tests.drawn_cases import case_count
from tests.invariants import check


class Conversing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sequences = Sequences()
        self.conversation = Conversation(self.sequences, message_bytes_max=60, in_flight_max=4)
        self.wake_counts: dict[int, int] = {}
        self.waiting: dict[int, Request] = {}  # submitted, and neither woken nor abandoned
        self.on_the_wire: set[int] = set()
        self.taken: list[int] = []
        self.floor = 0

    @rule(size=st.integers(1, 50))
    def submit(self, size: int) -> None:
        request = point.get("t", [b"x" * size], None)
        number = len(self.wake_counts) + 1
        self.wake_counts[number] = 0

        def wake() -> None:
            self.wake_counts[number] += 1
            del self.waiting[number]

        request.prepare(1, 1000, wake)
        self.waiting[number] = request
        self.conversation.submit(request)
        assert request.point.id == number

    @rule()
    def send(self) -> None:
        message = self.conversation.next_message()
        if message is not None:
            ids = [item.id for item in region_pb2.PointRequests.FromString(message).requests]
            assert ids
            assert not self.on_the_wire & set(ids), "a request was sent twice"
            self.on_the_wire.update(ids)

    @precondition(lambda self: self.on_the_wire)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        ids = data.draw(st.sets(st.sampled_from(sorted(self.on_the_wire)), min_size=1))
        self.conversation.answered([region_pb2.PointAnswer(id=number) for number in ids])
        assert not ids & set(self.waiting)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.waiting)))
        self.conversation.abandon(self.waiting.pop(number))

    @rule()
    def lose(self) -> None:
        in_doubt = {number for number in self.waiting if number in self.on_the_wire}
        requests = dict(self.waiting)
        self.conversation.lost(ServerUnavailableError("cut"))
        assert not self.waiting
        assert {number for number, request in requests.items() if request.is_in_doubt} == in_doubt

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        self.taken.append(self.sequences.take(count))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(self.taken))
        self.taken.remove(first)
        self.sequences.release(first)

    @invariant()
    def holds(self) -> None:
        check(self.conversation)
        assert max(self.wake_counts.values(), default=0) <= 1
        floor = self.sequences.floor()
        assert floor >= self.floor, "the floor went back"
        assert all(floor <= first for first in self.taken)
        self.floor = floor


Conversing.TestCase.settings = settings(deadline=None, max_examples=case_count(60, 25), stateful_step_count=40)
TestConversing = Conversing.TestCase
