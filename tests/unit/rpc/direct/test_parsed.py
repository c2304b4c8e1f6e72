"""A direct connection: the memory of messages whose requests have not all begun."""

from __future__ import annotations

import asyncio

import pytest
from rowlock_proto.direct_frames import HEAD_BYTES, REQUESTS, frame
from rowlock_regionserver.config import Config
from rowlock_regionserver.memory_plan import PARSED_REQUEST_BYTES, REQUEST_COST
from rowlock_regionserver.rpc.direct.service import SMALL_MESSAGE_BYTES_MAX, DirectService

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import DirectClient, Port, RunPort, requests_frame, turns
from tests.unit.rpc.stream import HurryingClock, get

# It takes several receives of the small buffers, and is looked at before it is parsed.
LONG = requests_frame(get(1, b"long"), get(2, b"x" * SMALL_MESSAGE_BYTES_MAX))


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_message_that_has_not_begun_whole_is_counted(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        data = requests_frame(*(get(number, b"a") for number in range(100)))
        await client.send(data)
        await until(lambda: len(region.begun) > 10)
        held = REQUEST_COST * (len(data) - HEAD_BYTES) + 100 * PARSED_REQUEST_BYTES
        assert port.ledger.requests.bytes_held == held
        await client.until(*range(100))
        assert port.ledger.requests.bytes_held == 0
        assert not port.service.parsed

    run_port(test)


async def unread(port: Port, data: bytes) -> DirectClient:
    """Returns a client that has sent this, and has read so little that its message is set aside."""
    client = await port.welcomed()
    await client.send(data)
    await until(lambda: port.ledger.requests.bytes_held == len(data) - HEAD_BYTES)
    await turns(50)
    assert port.ledger.requests.bytes_held == len(data) - HEAD_BYTES
    assert not port.service.parsed
    return client


def many_gets() -> bytes:
    return requests_frame(*(get(number, b"a%d" % number) for number in range(300)))


@pytest.mark.parametrize("config", [Config(request_bytes_max=20_000)])
def test_only_the_bytes_of_a_message_are_kept_while_its_client_reads_nothing(
    run_port: RunPort, region: FakeRegion
) -> None:
    region.value = b"v" * 10_000

    async def test(port: Port) -> None:
        client = await unread(port, many_gets())
        assert len(region.begun) < 30
        await client.until(*range(300))
        assert region.begun == [b"a%d" % number for number in range(300)], "each began once, in order"
        assert port.ledger.requests.bytes_held == 0
        assert client.connection._open_count == 0

    run_port(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=20_000)])
def test_a_message_that_is_set_aside_is_answered_when_the_server_stops(run_port: RunPort, region: FakeRegion) -> None:
    region.value = b"v" * 10_000

    async def test(port: Port) -> None:
        client = await unread(port, many_gets())
        client.connection.stop()
        assert port.ledger.requests.bytes_held > 0, "its bytes are counted"
        await client.rest()
        assert client.answers.keys() == set(range(300))
        assert client.end is not None

    run_port(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=20_000)])
def test_a_client_that_leaves_while_its_message_is_set_aside_leaves_nothing(
    run_port: RunPort, region: FakeRegion
) -> None:
    region.value = b"v" * 10_000

    async def test(port: Port) -> None:
        client = await unread(port, many_gets())
        client.close()
        await until(lambda: port.clients.open_count == 0)
        assert client.connection._open_count == 0
        assert port.ledger.bytes_held == 0

    run_port(test)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how many bytes the memory was looked at, each time."""
    looks: list[int] = []
    may_parse = DirectService.may_parse

    def look(service: DirectService, byte_count: int) -> bool:
        looks.append(byte_count)
        return may_parse(service, byte_count)

    monkeypatch.setattr(DirectService, "may_parse", look)
    return looks


@pytest.mark.parametrize("port_clock", [HurryingClock()])
def test_a_long_message_without_memory_is_parsed_when_no_other_is_kept(
    run_port: RunPort, region: FakeRegion, looks: list[int]
) -> None:
    async def test(port: Port) -> None:
        first, second, third = [await port.welcomed() for _ in range(3)]
        held = port.ledger.requests.bytes_max
        port.ledger.requests.take(held)
        await first.ask(*(get(number, b"first") for number in range(100)))
        await until(lambda: len(region.begun) > 10)
        await second.send(LONG)
        await third.send(LONG)
        await first.until(*range(100))
        await second.until(1, 2)
        await third.until(1, 2)
        assert b"long" not in region.begun[:100]
        assert 3 < len(looks) < 30, "it looks when memory was given, and not all the time"
        port.ledger.requests.give(held)

    run_port(test)


def test_a_long_message_waits_for_memory(run_port: RunPort, region: FakeRegion, looks: list[int]) -> None:
    async def test(port: Port) -> None:
        waiting, other = await port.welcomed(), await port.welcomed()
        held = port.ledger.requests.bytes_max - len(LONG)
        port.ledger.requests.take(held)
        port.service.parsed.add("another connection")
        await waiting.send(LONG)
        await until(lambda: len(looks) > 0)
        await turns(50)
        assert not region.begun
        assert port.ledger.requests.bytes_held == held + len(LONG) - HEAD_BYTES
        count = len(looks)
        await turns(50)
        assert len(looks) == count < 6
        await other.ask(get(1, b"other"))
        await other.until(1)
        port.ledger.requests.give(held)
        await waiting.until(1, 2)

    run_port(test)


def test_memory_that_is_given_before_a_message_waits_for_it_is_noticed(
    run_port: RunPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [False, False, False]  # when it has come, before it is parsed, and before it waits
    monkeypatch.setattr(DirectService, "may_parse", lambda service, byte_count: refusals.pop() if refusals else True)

    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(LONG)
        await asyncio.wait_for(client.until(1, 2), 20)

    run_port(test)
    assert not refusals


def test_a_message_that_waited_for_memory_and_makes_no_sense_ends_the_connection(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        held = port.ledger.requests.bytes_max
        port.ledger.requests.take(held)
        for body in (b"\xff" * 20_000, b"\x1a\x00" * 10_000):
            port.service.parsed.add("another connection")
            client = await port.welcomed()
            await client.send(frame(REQUESTS, body))
            await until(lambda: port.ledger.requests.bytes_held == held + 20_000)
            await turns()
            port.service.parsed.clear()
            port.ledger.wake()
            await client.rest()
            assert client.end is not None
        port.ledger.requests.give(held)

    run_port(test)
