"""A direct connection: greeting, requests and answers, fairness, and ends."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from rowlock_proto.direct_frames import (
    HELLO,
    PREAMBLE,
    frame,
)
from rowlock_proto.v1 import direct_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.rpc.direct import connection

from tests.seeds import drawn_seed
from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import DirectClient, Port, RunPort, requests_frame, turns
from tests.unit.rpc.stream import HurryingClock, get, put


def test_a_client_is_welcomed_with_the_ids_of_folder_and_run(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        assert (port.clients.greeting_count, port.clients.open_count) == (1, 0)
        await client.send(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(client="test").SerializeToString()))
        welcome = await client.welcome()
        assert (welcome.data_folder_id, welcome.incarnation_id, welcome.protocol) == ("folder", "run", 3)
        assert welcome.body_bytes_max == Config().request_bytes_max
        assert (port.clients.greeting_count, port.clients.open_count) == (0, 1)
        assert port.counts == [1]

    run_port(test)


def test_requests_of_a_frame_are_answered_in_one_frame(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(get(1, b"a"), put(2, b"b"), get(3, b"c", region_id=99), region_pb2.PointRequest(id=4))
        await client.until(1, 2, 3, 4)
        assert [[answer.id for answer in message] for message in client.messages] == [[1, 2, 3, 4]]
        assert client.answers[1].get.rows[0].cells[0].value == b"v"
        assert client.answers[2].mutate.results[0].timestamp == 5
        assert client.answers[3].error.code == Error.NOT_SERVING_REGION
        assert client.answers[4].error.code == Error.INVALID_ARGUMENT

    run_port(test)


def test_bytes_may_come_in_any_pieces(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        draw = random.Random(drawn_seed())
        client = await port.connect()
        data = PREAMBLE + frame(HELLO, b"") + b"".join(requests_frame(get(number, b"a")) for number in range(50))
        while data:
            size = draw.randint(1, 60)
            await client.send(data[:size])
            data = data[size:]
            if draw.random() < 0.5:
                await turns(2)
        await client.welcome()
        await client.until(*range(50))

    run_port(test)


def test_half_frames_of_two_connections_stay_apart_and_are_counted(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed(), await port.welcomed()]
        frames = [requests_frame(get(1, b"a")), requests_frame(get(1, b"a", region_id=99))]
        half_bytes = 0
        for client, data in zip(clients, frames, strict=True):
            await client.send(data[:-3])
            half_bytes += len(data) - 3
            await turns()
            assert port.ledger.requests.bytes_held == half_bytes
        for client, data in zip(clients, frames, strict=True):
            await client.send(data[-3:])
            await client.until(1)
        assert clients[0].answers[1].get.rows[0].cells[0].value == b"v"
        assert clients[1].answers[1].error.code == Error.NOT_SERVING_REGION
        assert port.ledger.requests.bytes_held == 0

    run_port(test)


def test_a_waiting_request_delays_no_other_of_the_connection(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(get(1, b"slow"), put(2, b"slow"), get(3, b"quick"))
        await client.until(3)
        assert client.answers.keys() == {3}
        region.gate.set()
        await client.until(1, 2)

    run_port(test)


def test_changes_published_together_are_answered_in_one_frame(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(*(put(number, b"later") for number in range(20)))
        await until(lambda: len(region.unpublished) > 0)
        for done in region.unpublished:
            done()
        await client.until(*range(20))
        assert len(client.messages) == 1

    run_port(test)


def test_a_single_client_is_alone(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(put(1, b"a"))
        await client.until(1)
        other = await port.welcomed()
        await client.ask(put(2, b"b"))
        await client.until(2)
        other.close()
        await until(lambda: port.clients.open_count == 1)
        await client.ask(put(3, b"c"))
        await client.until(3)
        assert region.alone == [b"a", b"c"]

    run_port(test)


# Fairness


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_flooding_connection_stands_behind_the_others_after_each_slice(run_port: RunPort, region: FakeRegion) -> None:
    """Here each look at the clock ends a slice."""

    async def test(port: Port) -> None:
        flooding, other = await port.welcomed(), await port.welcomed()
        await flooding.send(b"".join(requests_frame(get(number, b"flood")) for number in range(100)))
        await other.ask(get(1, b"other"))
        await other.until(1)
        assert region.begun.count(b"flood") < 20
        await flooding.until(*range(100))

    run_port(test)


@pytest.mark.parametrize("port_clock", [HurryingClock()])
@pytest.mark.parametrize("is_one_frame", [True, False])
def test_what_comes_during_a_slice_is_begun_before_the_next_slice_of_that_connection(
    run_port: RunPort, region: FakeRegion, is_one_frame: bool
) -> None:
    """Here each request is a slice of its own."""

    async def test(port: Port) -> None:
        flooding, other = await port.welcomed(), await port.welcomed()

        class Begun(list[bytes]):
            def append(self, row: bytes) -> None:
                super().append(row)
                if len(self) == 10:
                    other.send_some(requests_frame(get(1, b"other")))

        region.begun = Begun()
        requests = [get(number, b"flood") for number in range(20)]
        frames = [requests_frame(*requests)] if is_one_frame else map(requests_frame, requests)
        await flooding.send(b"".join(frames))
        await flooding.until(*range(20))
        await other.until(1)
        assert region.begun == [b"flood"] * 10 + [b"other"] + [b"flood"] * 10

    run_port(test)


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_changes_that_come_during_a_slice_are_made_before_the_next_slice_of_that_connection(
    run_port: RunPort, region: FakeRegion
) -> None:
    """Here each request is a slice of its own, and the changes are made together, at the end of their turn."""

    async def test(port: Port) -> None:
        flooding, *others = [await port.welcomed() for _ in range(3)]

        class Begun(list[bytes]):
            def append(self, row: bytes) -> None:
                super().append(row)
                if len(self) == 10:
                    port.ready_count = 3
                    for other in others:
                        other.send_some(requests_frame(put(1, b"other")))

        region.begun = Begun()
        await flooding.send(b"".join(requests_frame(get(number, b"flood")) for number in range(20)))
        await flooding.until(*range(20))
        for other in others:
            await other.until(1)
        assert region.begun == [b"flood"] * 10 + [b"other"] * 2 + [b"flood"] * 10
        assert region.changed_together == [[b"other", b"other"]]

    run_port(test)


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_long_frame_is_begun_in_slices(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        flooding, other = await port.welcomed(), await port.welcomed()
        await flooding.ask(*(get(number, b"flood") for number in range(100)))
        await other.ask(get(1, b"other"))
        await other.until(1)
        assert region.begun.count(b"flood") < 20
        await flooding.until(*range(100))
        assert sorted(flooding.answers) == list(range(100))

    run_port(test)


@contextmanager
def pauses_of(client: DirectClient) -> Iterator[list[float]]:
    """Yields the pauses that the server's end makes; they take no time."""
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def without_delay(delay: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        if callback == client.connection._take_due_turn:
            pauses.append(delay)
            delay = 0
        return call_later(delay, callback, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "FLOOD_SLICES", 20)
        patch.setattr(loop, "call_later", without_delay)
        yield pauses


@pytest.mark.parametrize("port_clock", [HurryingClock()])
@pytest.mark.parametrize(("step_count", "pause"), [(0, None), (3, 0.006), (100, connection.PAUSE_SECONDS_MAX)])
def test_a_flooding_connection_pauses_for_running_scans(
    run_port: RunPort, step_count: int, pause: float | None
) -> None:
    """Here each request is a slice of its own, and a receive takes 64 bytes: some three requests."""

    async def test(port: Port) -> None:
        port.service = replace(port.service, scratch=memoryview(bytearray(64)))
        flooding = await port.welcomed()
        port.points.workers.scan_step_count = step_count
        with pauses_of(flooding) as pauses:
            await flooding.send(b"".join(requests_frame(get(number, b"flood")) for number in range(200)))
            await flooding.until(*range(200))
        if pause is None:
            assert not pauses
        else:
            assert set(pauses) == {pause}
            assert len(pauses) > 50

    run_port(test)


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_connection_whose_receives_are_not_full_does_not_pause(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        port.points.workers.scan_step_count = 3
        with pauses_of(client) as pauses:
            for first in range(0, 200, 20):
                numbers = range(first, first + 20)
                await client.send(b"".join(requests_frame(get(number, b"row")) for number in numbers))
                await client.until(*numbers)
        assert not pauses

    run_port(test)


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_flooding_connection_that_ends_does_not_pause(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.service = replace(port.service, scratch=memoryview(bytearray(64)))
        flooding = await port.welcomed()
        port.points.workers.scan_step_count = 3
        with pauses_of(flooding) as pauses:
            await flooding.ask(*(get(number, b"flood") for number in range(200)))
            await until(lambda: bool(pauses))
            flooding.connection.stop()
            await flooding.until(*range(200))
        assert len(pauses) == 1

    run_port(test)


# Ends


def test_a_client_that_is_gone_is_answered_no_more(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(*(get(number, b"slow") for number in range(10)), put(11, b"later"))
        await until(lambda: port.points.statistics().in_flight == 11)
        client.socket.shutdown(socket.SHUT_WR)
        await until(lambda: port.clients.open_count == 0)
        assert port.counts == [1, 0]
        region.gate.set()
        region.unpublished[0]()

    run_port(test)
    assert region.begun.count(b"slow") <= 2, "only the two that threads had begun"


def test_a_stopping_server_answers_what_it_has_begun_and_says_so(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client, idle, greeting = await port.welcomed(), await port.welcomed(), await port.connect()
        await client.ask(get(1, b"slow"))
        await until(lambda: port.points.statistics().in_flight == 1)
        port.clients.stop()
        await idle.rest()
        assert idle.end is not None
        assert idle.end.code == Error.SERVER_STOPPING
        assert await greeting.frame() is None
        await client.ask(get(2, b"never"))
        region.gate.set()
        await client.rest()
        assert client.end is not None
        assert client.end.code == Error.SERVER_STOPPING
        assert client.answers.keys() == {1}
        await port.clients.left(60)
        late = await port.connect()
        await late.send(PREAMBLE + frame(HELLO, b""))
        assert (await late.welcome()).error.code == Error.SERVER_STOPPING

    run_port(test)
    assert b"never" not in region.begun


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_stopping_server_begins_all_requests_of_a_message_that_it_has_begun(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(*(get(number, b"a") for number in range(100)))
        await until(lambda: bool(region.begun))
        assert len(region.begun) < 100
        port.clients.stop()
        await client.rest()
        assert sorted(client.answers) == list(range(100))

    run_port(test)


def test_a_connection_that_does_not_end_is_closed_when_the_server_has_waited(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(get(1, b"slow"))
        await until(lambda: port.points.statistics().in_flight == 1)
        port.clients.stop()
        await port.clients.left(0.01)
        assert port.clients.open_count == 0
        assert await client.frame() is None
        region.gate.set()

    run_port(test)
