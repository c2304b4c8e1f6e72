"""A direct connection: greeting, requests and answers, fairness, and what a client may leave unread."""

from __future__ import annotations

import asyncio
import random

import pytest
from rowlock_proto.direct_frames import (
    HELLO,
    PING,
    PONG,
    PREAMBLE,
    frame,
)
from rowlock_proto.v1 import direct_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.rpc.direct import connection as direct
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.seeds import drawn_seed
from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import Port, RunPort, large_requests, requests_frame, turns
from tests.unit.rpc.stream import HurryingClock, get, put


def test_a_client_is_welcomed_with_the_ids_of_folder_and_run(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        assert (port.clients.greeting_count, port.clients.open_count) == (1, 0)
        await client.send(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(client="test").SerializeToString()))
        welcome = await client.welcome()
        assert (welcome.data_folder_id, welcome.incarnation_id, welcome.protocol) == ("folder", "run", 1)
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


# Unread answers


@pytest.mark.parametrize("config", [Config(request_bytes_max=20_000)])
def test_a_client_that_reads_nothing_is_not_read_from_and_its_answers_are_counted(
    run_port: RunPort, region: FakeRegion
) -> None:
    region.value = b"v" * 10_000

    async def test(port: Port) -> None:
        client = await port.welcomed()
        asked = [requests_frame(get(number, b"a" * 1000)) for number in range(1000)]
        sending = asyncio.create_task(client.send(b"".join(asked)))
        await until(lambda: port.ledger.answers.bytes_held > 20_000)
        await turns(200)
        assert not sending.done(), "the client is read from"
        assert len(region.begun) < 30
        held = port.ledger.answers.bytes_held
        assert held < 2 * 80_000
        other = await port.welcomed()
        await other.ask(get(1, b"b"))
        await other.until(1)
        await client.until(*range(1000))
        await sending
        assert port.ledger.answers.bytes_held == 0

    run_port(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=20_000)])
def test_answers_of_workers_wait_for_a_client_that_reads_nothing(run_port: RunPort, region: FakeRegion) -> None:
    region.value = b"v" * 10_000

    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.ask(*(get(number, b"slow") for number in range(20)))
        region.gate.set()
        await until(lambda: port.points.statistics().in_flight == 0)
        await until(lambda: port.ledger.answers.bytes_held > 0)
        await client.until(*range(20))

    run_port(test)


def test_a_client_that_reads_no_answer_for_a_minute_is_dropped(
    run_port: RunPort, region: FakeRegion, caplog: pytest.LogCaptureFixture
) -> None:
    region.value = b"v" * 200_000

    async def test(port: Port) -> None:
        client, slow = await port.welcomed(), await port.welcomed()
        await client.ask(get(1, b"a"))
        await slow.ask(get(1, b"a"))
        await until(lambda: port.ledger.answers.bytes_held > 400_000)
        clock = port.clock
        assert isinstance(clock, ManualClock)
        clock.advance(int(direct.UNREAD_SECONDS_MAX * 900))
        port.clients.look()
        assert await slow.frame() is not None  # It reads a little at a time.
        await turns()
        port.clients.look()
        clock.advance(int(direct.UNREAD_SECONDS_MAX * 200))
        port.clients.look()
        await until(lambda: port.clients.open_count == 1)
        await slow.ask(get(2, b"a"))
        await slow.until(2)

    run_port(test)
    assert "has read no answer for 60 s" in caplog.text


# Large frames


def test_a_large_frame_is_counted_while_it_is_received_and_executed_by_workers(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        data = large_requests(get(1, b"a"), put(2, b"b"))
        await client.send(data[:100_000])
        await until(lambda: port.ledger.requests.bytes_held >= len(data) - 5)
        assert port.ledger.requests.bytes_held <= len(data)
        await client.send(data[100_000:])
        await client.until(1, 2, 99)
        assert port.points.statistics().handed_over_count == 3
        await until(lambda: port.ledger.requests.bytes_held == 0)
        await client.ask(get(3, b"a"))
        await client.until(3)

    run_port(test)


@pytest.mark.parametrize(
    "config", [Config(request_bytes_max=1_000_000, request_bytes_in_flight_max=REQUEST_COST * 1_000_000)]
)
def test_a_large_frame_waits_for_memory_and_is_not_read_meanwhile(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        waiting, other = await port.welcomed(), await port.welcomed()
        held = port.ledger.requests.bytes_max - 100
        port.ledger.requests.take(held)
        sending = asyncio.create_task(waiting.send(large_requests(get(1, b"a"))))
        await turns(200)
        assert not sending.done()
        assert port.ledger.requests.bytes_held < held + 100_000, "at most what one receive brought"
        await other.ask(get(1, b"a"))
        await other.until(1)
        port.ledger.requests.give(held)
        await waiting.until(1, 99)
        await sending

    run_port(test)


@pytest.mark.parametrize(
    "config", [Config(request_bytes_max=1_000_000, request_bytes_in_flight_max=REQUEST_COST * 1_000_000)]
)
def test_a_large_message_without_memory_for_its_requests_is_refused_request_by_request(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        held = port.ledger.requests.bytes_max - 2 * INLINE_MESSAGE_BYTES_MAX
        port.ledger.requests.take(held)
        await client.send(large_requests(get(1, b"a")))
        await client.until(1, 99)
        assert {client.answers[number].error.code for number in (1, 99)} == {Error.REGION_TOO_BUSY}
        port.ledger.requests.give(held)

    run_port(test)


def test_a_client_that_leaves_in_the_middle_of_a_large_frame_leaves_nothing(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(large_requests()[:150_000])
        await until(lambda: port.ledger.requests.bytes_held > 0)
        client.close()
        await until(lambda: port.clients.open_count == 0)
        assert port.ledger.bytes_held == 0

    run_port(test)


def test_a_client_that_leaves_while_its_large_message_is_parsed_leaves_nothing(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        for count in range(20):
            client = await port.welcomed()
            await client.send(large_requests(get(1, b"a")))
            await turns(count)
            client.close()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


# Pings


def test_a_ping_is_answered_with_its_body(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(frame(PING, b"one") + frame(PING, b"two"))
        assert await client.frame() == (PONG, b"two")  # The newest one's is enough.
        await client.send(requests_frame(get(1, b"slow")) + frame(PING, b""))
        assert await client.frame() == (PONG, b"")

    run_port(test)


def test_pings_without_end_and_without_reading_hold_no_memory(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        for _ in range(2000):
            client.send_some(frame(PING, b"x" * 64) * 100)
            await turns(2)
        assert port.ledger.bytes_held < 100_000

    run_port(test)


# Malformed input
