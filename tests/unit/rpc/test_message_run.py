"""The requests of a message that is set aside, and parsed again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from rowlock_proto.v1.region_pb2 import PointRequests
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.memory_plan import PARSED_COST, PARSED_REQUEST_BYTES, REQUEST_COST
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.messages.point_requests import PointGet
from rowlock_regionserver.rpc.services.message_run import MessageRun

from tests.unit.rpc.stream import get


class Begun:
    """In place of the points: keeps the gets that have begun, as those that wait for a worker are kept."""

    def __init__(self) -> None:
        self.config = Config()
        self.gets: list[PointGet] = []

    def get(self, request: PointGet, responder: Responder, *, is_large: bool) -> None:
        self.gets.append(request)

    @property
    def ids(self) -> list[int]:
        return [get._message.id for get in self.gets]


def run_of(begun: Begun, data: bytes, answered: list[int], message: PointRequests | None) -> MessageRun:
    responder = SimpleNamespace(send=lambda answer, count: answered.append(count))
    return MessageRun(cast("Points", begun), cast("Responder", responder), data, message)


def test_a_message_goes_on_where_it_was_set_aside() -> None:
    begun, answered = Begun(), list[int]()
    data = PointRequests(requests=[get(number, b"a") for number in range(10)]).SerializeToString()
    run = run_of(begun, data, answered, None)
    assert (run.is_parsed, run.byte_count) == (False, len(data))
    assert run.parse() == 10, "that many requests are to answer"
    for count in range(1, 7):
        assert not run.advance(lambda: True)
        assert begun.ids == list(range(count))
        assert run.byte_count == REQUEST_COST * len(data) + 10 * PARSED_REQUEST_BYTES
        if count % 2:
            run.set_aside()
            assert (run.is_parsed, run.byte_count) == (False, len(data))
            assert run.parse() == 0, "they are counted already"
    assert not run.advance(lambda: len(begun.gets) == 9)
    run.set_aside()
    run.parse()
    assert run.advance(lambda: False)
    assert begun.ids == list(range(10))
    assert not answered


@pytest.mark.parametrize("is_aside", [True, False])
def test_the_requests_that_never_begin_count_as_answered(is_aside: bool) -> None:
    answered = list[int]()
    message = PointRequests(requests=[get(number, b"a") for number in range(10)])
    run = run_of(Begun(), message.SerializeToString(), answered, message)
    run.advance(lambda: True)
    if is_aside:
        run.set_aside()
    run.drop()
    run.drop()
    assert answered == [9]


@pytest.mark.skipif(not anonymous_bytes(), reason="only Linux tells how much memory a process has")
def test_requests_that_wait_keep_one_parsed_message_however_often_it_was_parsed() -> None:
    begun = Begun()
    message = PointRequests(requests=[get(number, b"r") for number in range(15_000)])
    data = message.SerializeToString()
    run = run_of(begun, data, [], None)
    run.parse()
    before = anonymous_bytes()
    for _ in range(40):
        run.advance(lambda: True)
        run.set_aside()
        run.parse()
    assert begun.ids == list(range(40))
    assert anonymous_bytes() - before < 10 * PARSED_COST * len(data)
