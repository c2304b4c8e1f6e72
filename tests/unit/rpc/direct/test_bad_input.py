"""A direct connection: malformed input, slow and silent clients, and bounds."""

from __future__ import annotations

import logging
import random

import pytest
from rowlock_proto.direct_frames import (
    ANSWERS,
    HEAD,
    HELLO,
    LARGE_BODY_BYTES,
    PING,
    PREAMBLE,
    REQUESTS,
    SHORT_BODY_BYTES_MAX,
    frame,
)
from rowlock_proto.v1 import direct_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.rpc.direct import connection as direct
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX
from rowlock_regionserver.rpc.direct.incoming import FRAME_SECONDS_MAX
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.seeds import drawn_seed
from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import Port, RunPort, large_requests, requests_frame, turns
from tests.unit.rpc.stream import get, put

# Malformed input


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(500),
        bytes(1000),
        PREAMBLE + HEAD.pack(0, 1),
        PREAMBLE + HEAD.pack(0xFFFFFFFF, HELLO) + bytes(100_000),
        PREAMBLE + HEAD.pack(SHORT_BODY_BYTES_MAX + 2, HELLO),
        PREAMBLE + frame(REQUESTS, b""),
        PREAMBLE + frame(ANSWERS, b""),
    ],
)
def test_a_client_that_does_not_greet_is_dropped_with_a_line(
    run_port: RunPort, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        client.send_some(sent)
        assert await client.frame() is None
        await until(lambda: port.clients.greeting_count == 0)
        assert port.log.count == 1

    run_port(test)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"rowlock\x02" + frame(HELLO, b""), "version 2"),
        (PREAMBLE + frame(HELLO, b"\xff\xff\xff"), "not a rowlock.v1.DirectHello"),
        (PREAMBLE + frame(HELLO, direct_pb2.DirectHello(mechanism="X").SerializeToString()), "no authentication"),
    ],
)
def test_a_greeting_that_can_not_be_accepted_is_answered_with_the_reason(
    run_port: RunPort, sent: bytes, text: str
) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(sent + b"more that is not read")
        welcome = await client.welcome()
        assert welcome.error.code == Error.INVALID_ARGUMENT
        assert text in welcome.error.message
        assert await client.frame() is None

    run_port(test)


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (HEAD.pack(0, 0), Error.INVALID_ARGUMENT, "length 0"),
        (HEAD.pack(0xFFFFFFFF, REQUESTS) + bytes(1000), Error.LIMIT_EXCEEDED, "request_bytes_max = 5000"),
        (HEAD.pack(5002, REQUESTS), Error.LIMIT_EXCEEDED, "5001 bytes"),
        (frame(REQUESTS, b"\xff" * 20), Error.INVALID_ARGUMENT, "not a rowlock.v1.PointRequests"),
        (frame(REQUESTS, b"\x1a\x00" * 101), Error.INVALID_ARGUMENT, "101 requests in 202 bytes"),
        (frame(77, b"?"), Error.INVALID_ARGUMENT, "kind 77"),
        (frame(HELLO, b""), Error.INVALID_ARGUMENT, "kind 1"),
        (frame(PING, bytes(65)), Error.INVALID_ARGUMENT, "PING has 65 bytes"),
    ],
)
@pytest.mark.parametrize("config", [Config(request_bytes_max=5000)])
def test_a_malformed_frame_ends_the_connection_after_the_answers_to_earlier_requests(
    run_port: RunPort, region: FakeRegion, caplog: pytest.LogCaptureFixture, sent: bytes, code: int, text: str
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(requests_frame(get(1, b"slow"), get(2, b"a")) + sent + requests_frame(get(3, b"never")))
        await client.until(2)
        assert client.end is None
        region.gate.set()
        await client.rest()
        assert client.end is not None
        assert client.end.code == code
        assert text in client.end.message
        assert client.answers.keys() == {1, 2}
        if code == Error.LIMIT_EXCEEDED:
            assert (client.end.limit, client.end.limit_value) == ("request_bytes_max", 5000)
        client.close()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)
    assert b"never" not in region.begun
    assert text in caplog.text


def test_a_large_message_of_requests_too_small_to_be_valid_ends_the_connection(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(frame(REQUESTS, b"\x1a\x00" * INLINE_MESSAGE_BYTES_MAX))
        await client.rest()
        assert client.end is not None
        assert "262144 requests in 524288 bytes" in client.end.message
        assert port.ledger.bytes_held == 0

    run_port(test)


def test_a_few_requests_without_operation_are_answered_one_by_one(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(frame(REQUESTS, b"\x1a\x02\x08\x01" + b"\x1a\x00" * 99))
        await client.until(0, 1)
        assert sum(map(len, client.messages)) == 100
        assert {answer.error.code for answer in client.answers.values()} == {Error.INVALID_ARGUMENT}

    run_port(test)


def test_the_reason_of_an_end_does_not_keep_the_message_that_it_is_about(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        for body in (b"\x1a\x00" * 101, b"\xff" * 20):
            client = await port.welcomed()
            await client.send(requests_frame(get(1, b"slow"), get(2, b"a")) + frame(REQUESTS, body))
            await client.until(2)
            end = client.connection._end
            assert end is not None
            assert (end.__traceback__, end.__context__) == (None, None)

    run_port(test)


def test_what_a_client_sends_after_the_end_is_dropped_and_the_end_arrives(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(frame(77, b"") + bytes(500_000))
        await client.rest()
        assert client.end is not None
        assert port.ledger.bytes_held == 0

    run_port(test)


def test_a_client_that_does_not_close_after_the_end_is_closed(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(frame(77, b""))
        await client.rest()
        await turns()
        assert port.clients.open_count == 1
        assert isinstance(port.clock, ManualClock)
        port.clock.advance(int(ENDED_SECONDS_MAX * 1000) + 1)
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


# Else a changed length may announce a frame of many MiB, which is counted as such.
@pytest.mark.parametrize("config", [Config(request_bytes_max=LARGE_BODY_BYTES)])
def test_random_frames_and_bytes_harm_nobody(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        draw = random.Random(drawn_seed())
        good = await port.welcomed()
        for number in range(150):
            client = await port.connect()
            data = bytearray(PREAMBLE + frame(HELLO, b"") + requests_frame(get(1, b"a"), put(2, b"b", b"bad")))
            data += frame(draw.randrange(256), draw.randbytes(draw.randint(0, 2000)))
            for _ in range(draw.randint(0, 4)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            client.send_some(bytes(data))
            await turns(3)
            if draw.random() < 0.7:
                client.close()
            await good.ask(get(number, b"a"))
            await good.until(number)
        assert port.ledger.bytes_held < 150 * 2 * LARGE_BODY_BYTES

    run_port(test)


# Slow and silent clients


def test_a_client_that_is_silent_before_its_greeting_is_dropped(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        clients = [await port.connect() for _ in range(3)]
        await clients[1].send(PREAMBLE[:4])
        await clients[2].send(PREAMBLE + frame(HELLO, b"x" * 10)[:8])
        assert isinstance(port.clock, ManualClock)
        port.clock.advance(int(direct.GREETING_SECONDS_MAX * 1000))
        port.clients.drop_silent()
        await turns()
        assert port.clients.greeting_count == 3
        port.clock.advance(1)
        port.clients.drop_silent()
        await until(lambda: port.clients.greeting_count == 0)

    run_port(test)


def test_a_frame_that_trickles_is_dropped_and_a_long_one_in_good_time_is_not(
    run_port: RunPort, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(port: Port) -> None:
        trickling, steady, idle = [await port.welcomed() for _ in range(3)]
        clock = port.clock
        assert isinstance(clock, ManualClock)
        data = large_requests(get(1, b"a"))
        assert len(data) > 256_000
        await trickling.send(data[:8000])
        await steady.send(data[:200_000])
        await turns()
        clock.advance(int(FRAME_SECONDS_MAX * 1000) + 1500)
        port.clients.drop_silent()
        await turns()
        assert port.clients.open_count == 2
        await steady.send(data[200_000:])
        await steady.until(1)
        clock.advance(3_600_000)
        port.clients.drop_silent()
        for client in (steady, idle):
            await client.ask(get(7, b"a"))
            await client.until(7)

    run_port(test)
    assert "of a frame came in 32 s" in caplog.text


# Bounds


@pytest.mark.parametrize("config", [Config(connections_max=3)])
def test_a_connection_too_many_is_refused_with_the_reason(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed() for _ in range(3)]
        last = await port.connect()
        await last.send(PREAMBLE + frame(HELLO, b""))
        error = (await last.welcome()).error
        assert (error.code, error.can_retry, error.retry_after_ms > 0) == (Error.REGION_TOO_BUSY, True, True)
        assert "connections_max" in error.message
        clients[0].close()
        await until(lambda: port.clients.open_count == 2)
        await port.welcomed()

    run_port(test)


def test_of_many_connections_that_do_not_greet_the_oldest_are_dropped(
    run_port: RunPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock_regionserver.rpc.direct.clients.GREETING_COUNT_MAX", 5)

    async def test(port: Port) -> None:
        silent = [await port.connect() for _ in range(50)]
        await turns()
        assert port.clients.greeting_count <= 5
        assert await silent[0].frame() is None
        client = await port.welcomed()
        await client.ask(get(1, b"a"))
        await client.until(1)

    run_port(test)


def test_no_more_are_accepted_in_one_iteration_of_the_loop_either(
    run_port: RunPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock_regionserver.rpc.direct.clients.GREETING_COUNT_MAX", 5)

    class Accepted:
        """A connection that leaves in a later iteration of the loop, as those of sockets do."""

        def __init__(self) -> None:
            self.drop_count = 0

        def drop_if_silent(self, now: float) -> None: ...

        def stop(self) -> None: ...

        def abort(self) -> None: ...

        def drop(self, reason: str) -> None:
            self.drop_count += 1

    async def test(port: Port) -> None:
        accepted = [Accepted() for _ in range(20)]
        for connection in accepted:
            port.clients.enter(connection)
            assert port.clients.greeting_count <= 5
        assert [connection.drop_count for connection in accepted] == [1] * 15 + [0] * 5
        for connection in accepted:
            port.clients.leave(connection)

    run_port(test)


def test_dropped_connections_have_one_line_a_second_together(
    run_port: RunPort, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def test(port: Port) -> None:
        async def drop(count: int) -> None:
            for _ in range(count):
                client = await port.connect()
                await client.send(b"nonsense")
                assert await client.frame() is None

        await drop(50)
        assert isinstance(port.clock, ManualClock)
        port.clock.advance(1000)
        await drop(1)
        assert port.log.count == 51

    run_port(test)
    assert len(caplog.records) == 2
    assert "and 49 other connections" in caplog.records[1].getMessage()
