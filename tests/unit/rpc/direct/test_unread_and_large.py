"""A direct connection: answers that a client leaves unread, large frames, and pings."""

from __future__ import annotations

import asyncio

import pytest
from rowlock_proto.direct_frames import (
    PING,
    PONG,
    frame,
)
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.rpc.direct.clients import UNREAD_SECONDS_MAX
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import Port, RunPort, large_requests, requests_frame, turns
from tests.unit.rpc.stream import get, put

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
        await asyncio.wait_for(until(lambda: port.ledger.answers.bytes_held > 20_000), 20)
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
        await asyncio.wait_for(client.until(*range(20)), 20)

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
        clock.advance(int(UNREAD_SECONDS_MAX * 900))
        port.clients.drop_silent()
        assert await slow.frame() is not None  # It reads a little at a time.
        await turns()
        port.clients.drop_silent()
        clock.advance(int(UNREAD_SECONDS_MAX * 200))
        port.clients.drop_silent()
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
