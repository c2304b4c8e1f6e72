"""A direct connection for scans: one scan after another, clients that do not read or leave, and bad input."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys

import pyarrow as pa
import pytest
from rowlock_proto.direct_frames import (
    END,
    HELLO,
    PREAMBLE,
    REQUESTS,
    SCAN,
    SCAN_BATCH,
    SCAN_BODY_BYTES_MAX,
    SCAN_END,
    frame,
)
from rowlock_proto.v1 import direct_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import MessageParts, joined
from rowlock_regionserver.rpc.direct import frame_sender
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, IDLE_SECONDS_MAX, UNREAD_SECONDS_MAX

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import DirectClient, Port, RunPort, requests_frame, turns
from tests.unit.rpc.stream import get

MIB = 1 << 20
WINDOW_BYTES = 1000  # of the fake region's scans
ONE_BATCH = [(SCAN_BATCH, b"rows"), (SCAN_END, b"")]


def scan_frame(batches: int, *, is_held: bool = False) -> bytes:
    return frame(SCAN, region_pb2.ScanRequest(row_limit=batches, reverse=is_held).SerializeToString())


async def frames(client: DirectClient, count: int) -> list[tuple[int, bytes]]:
    found = []
    for _ in range(count):
        one = await client.frame()
        assert one is not None, "the connection has ended"
        found.append(one)
    return found


async def error_of_end(client: DirectClient, kind: int) -> Error:
    found = await client.frame()
    assert found is not None
    assert found[0] == kind
    return Error.FromString(found[1])


@pytest.fixture
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_sender, "UNIX_BUFFER_BYTES", 16 * 1024)


def test_a_connection_carries_one_scan_after_another(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        assert (port.clients.greeting_count, port.clients.open_count, port.counts) == (0, 1, [1])
        for batches in (5, 2, 1):
            await client.send(scan_frame(batches))
            assert await frames(client, batches + 1) == [(SCAN_BATCH, b"rows")] * batches + [(SCAN_END, b"")]
            assert region.open_scans == 0
        client.close()
        await until(lambda: port.clients.open_count == 0)
        assert port.counts == [1, 0]

    run_port(test)


@pytest.mark.usefixtures("_small_buffers")
def test_batches_that_the_system_takes_in_pieces_arrive_whole(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(range(256)) * 4096  # a MiB
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(9))
        assert await frames(client, 10) == [(SCAN_BATCH, port.batch)] * 9 + [(SCAN_END, b"")]

    run_port(test)


@pytest.mark.usefixtures("_small_buffers")
@pytest.mark.parametrize(("count", "size"), [(3, 400_000), (5000, 300)])
def test_batches_in_parts_arrive_whole(run_port: RunPort, count: int, size: int) -> None:
    async def test(port: Port) -> None:
        parts = [b"%4d" % number * (size // 4) for number in range(count)]
        port.batch = MessageParts([parts[0], *map(pa.py_buffer, parts[1:])], count * size, count * size)
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(5))
        assert await frames(client, 6) == [(SCAN_BATCH, b"".join(parts))] * 5 + [(SCAN_END, b"")]

    run_port(test)


@pytest.mark.parametrize("config", [Config(scan_lease_ms=50)])
@pytest.mark.usefixtures("_small_buffers")
def test_the_rest_of_a_batch_in_parts_does_not_keep_their_memory_alive(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        before = pa.total_allocated_bytes()
        window = pa.allocate_buffer(4 * MIB)
        memoryview(window)[:] = memoryview(bytes(range(256)) * (window.size // 256)).cast("b")
        port.batch = MessageParts([window.slice(0, MIB // 2), window.slice(MIB, MIB // 2)], MIB, window.size)
        batch = joined(port.batch)
        del window
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(2))
        await until(lambda: port.ledger.scans.bytes_held == WINDOW_BYTES + 4 * MIB)
        await until(lambda: port.scans.statistics().lease_expired_count == 1)
        port.batch = b""
        await until(lambda: pa.total_allocated_bytes() < before + MIB)
        assert MIB // 2 < port.ledger.scans.bytes_held < MIB
        assert await client.frame() == (SCAN_BATCH, batch)
        assert (await error_of_end(client, SCAN_END)).code == Error.LEASE_EXPIRED
        await until(lambda: port.ledger.scans.bytes_held == 0)

    run_port(test)


@pytest.mark.usefixtures("_small_buffers")
def test_a_client_that_leaves_keeps_no_batches_until_a_garbage_collection(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        before = pa.total_allocated_bytes()
        window = pa.allocate_buffer(2 * MIB)
        port.batch = MessageParts([window], window.size, window.size)
        del window
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(30))
        await client.frame()
        await until(lambda: port.ledger.scans.bytes_held == WINDOW_BYTES + len(port.batch))
        port.batch = b""
        client.close()
        await until(lambda: port.clients.open_count == 0)
        await until(lambda: pa.total_allocated_bytes() < before + MIB)

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        run_port(test)
    finally:
        if was_enabled:
            gc.enable()


def test_a_scan_that_comes_with_the_greeting_is_served(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        hello = PREAMBLE + frame(HELLO, direct_pb2.DirectHello(scans=True).SerializeToString())
        await client.send(hello + scan_frame(1))
        await client.welcome()
        assert await frames(client, 2) == ONE_BATCH

    run_port(test)


def test_a_request_may_come_in_pieces(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        for byte in scan_frame(1):
            await client.send(bytes((byte,)))
            await turns(2)
        assert await frames(client, 2) == ONE_BATCH

    run_port(test)


def test_a_failed_scan_ends_with_its_error_and_the_next_one_is_served(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(frame(SCAN, b"\xff"))
        assert (await error_of_end(client, SCAN_END)).code == Error.INVALID_ARGUMENT
        await client.send(scan_frame(1))
        assert await frames(client, 2) == ONE_BATCH

    run_port(test)


def test_a_client_that_leaves_ends_its_scan(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        for is_held in (True, False):
            client = await port.welcomed_for_scans()
            await client.send(scan_frame(100, is_held=is_held))
            await until(lambda: region.open_scans == 1)
            client.close()
            await until(lambda: port.clients.open_count == 0)
            await until(lambda: port.scans.statistics().open_count == 0)
            region.gate.set()
            await until(lambda: region.open_scans == 0)
            await until(lambda: port.ledger.bytes_held == 0)

    run_port(test)


@pytest.mark.parametrize("config", [Config(scan_lease_ms=50)])
@pytest.mark.usefixtures("_small_buffers")
def test_a_scan_whose_client_does_not_read_ends_behind_the_rest_of_its_batch(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(2))
        await until(lambda: port.scans.statistics().lease_expired_count == 1)
        await until(lambda: port.scans.statistics().open_count == 0)
        await turns()
        held = port.ledger.scans.bytes_held
        assert MIB // 2 < held < MIB, "the rest of the batch is not counted, or counted twice"
        assert await client.frame() == (SCAN_BATCH, port.batch)
        assert (await error_of_end(client, SCAN_END)).code == Error.LEASE_EXPIRED
        await until(lambda: port.ledger.scans.bytes_held == 0)
        await client.send(scan_frame(1))
        assert await frames(client, 2) == [(SCAN_BATCH, port.batch), (SCAN_END, b"")]

    run_port(test)


@pytest.mark.parametrize("config", [Config(scan_lease_ms=50)])
@pytest.mark.usefixtures("_small_buffers")
def test_a_scan_that_has_failed_keeps_no_batch(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        client = await port.welcomed_for_scans()
        gc.disable()
        try:
            references = sys.getrefcount(port.batch)
            await client.send(scan_frame(9))
            await client.frame()
            await until(lambda: port.scans.statistics().lease_expired_count == 1)
            while (await client.frame() or (SCAN_END, b""))[0] != SCAN_END:
                pass
            await until(lambda: sys.getrefcount(port.batch) <= references)
        finally:
            gc.enable()

    run_port(test)


@pytest.mark.parametrize("config", [Config(scan_lease_ms=50)])
@pytest.mark.usefixtures("_small_buffers")
def test_a_client_that_sends_a_scan_before_it_has_read_the_end_of_the_last_one_is_dropped(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(2))
        await until(lambda: port.scans.statistics().lease_expired_count == 1)
        await until(lambda: port.scans.statistics().open_count == 0)
        await client.send(scan_frame(2))
        await until(lambda: port.clients.open_count == 0)
        assert port.scans.statistics().opened_count == 1
        assert port.ledger.scans.bytes_held == 0

    run_port(test)


@pytest.mark.parametrize("config", [Config(scan_lease_ms=50)])
@pytest.mark.usefixtures("_small_buffers")
def test_a_client_that_reads_nothing_of_an_end_is_dropped(run_port: RunPort, port_clock: ManualClock) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(2))
        await until(lambda: port.scans.statistics().lease_expired_count == 1)
        await turns()
        port_clock.advance(1000 * int(UNREAD_SECONDS_MAX - 1))
        port.clients.drop_silent()
        await client.frame()  # It reads on in time.
        await client.frame()
        await client.send(scan_frame(2))
        await until(lambda: port.scans.statistics().lease_expired_count == 2)
        await turns()
        port_clock.advance(1000 * int(UNREAD_SECONDS_MAX + 1))
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)
        await until(lambda: port.ledger.scans.bytes_held == 0)

    run_port(test)


def test_a_running_scan_may_be_silent_for_long(run_port: RunPort, region: FakeRegion, port_clock: ManualClock) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(1, is_held=True))
        await until(lambda: region.open_scans == 1)
        port_clock.advance(3600_000)
        port.clients.drop_silent()
        await turns()
        region.gate.set()
        assert await frames(client, 2) == ONE_BATCH

    run_port(test)


def test_a_connection_that_is_idle_for_long_is_closed(run_port: RunPort, port_clock: ManualClock) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        for _ in range(2):
            port_clock.advance(1000 * int(IDLE_SECONDS_MAX - 1))
            port.clients.drop_silent()
            await client.send(scan_frame(1))
            assert await frames(client, 2) == ONE_BATCH
        port_clock.advance(1000 * int(IDLE_SECONDS_MAX - 1))
        await client.send(scan_frame(1)[:-1])
        await until(lambda: port.ledger.requests.bytes_held > 0)
        port_clock.advance(2_000)
        port.clients.drop_silent()  # It is not idle any more: the next request has begun to come.
        await client.send(scan_frame(1)[-1:])
        assert await frames(client, 2) == ONE_BATCH
        port_clock.advance(1000 * int(IDLE_SECONDS_MAX + 1))
        port.clients.drop_silent()
        assert await client.frame() is None
        await until(lambda: port.clients.open_count == 0)
        assert port.log.count == 0, "nothing was wrong"

    run_port(test)


# Bad input


async def _refused(client: DirectClient, code: int) -> None:
    assert (await error_of_end(client, END)).code == code
    assert await client.frame() is None


@pytest.mark.parametrize(
    "sent",
    [
        frame(REQUESTS, b""),
        frame(99, b""),
        frame(SCAN, bytes(SCAN_BODY_BYTES_MAX + 1)),
        b"\0\0\0\0\x10",
        b"\xff\xff\xff\xff\x10",
        requests_frame(get(1, b"a")),
        scan_frame(1) + scan_frame(1),
        scan_frame(1) + b"\0",
    ],
)
def test_other_frames_end_the_connection_with_a_reason(
    run_port: RunPort, region: FakeRegion, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        with caplog.at_level(logging.WARNING):
            await client.send(sent)
            await _refused(client, Error.INVALID_ARGUMENT)
        assert len(caplog.messages) == 1
        assert "closed the direct connection" in caplog.messages[0]
        assert region.open_scans == 0
        await client.send(bytes(100_000))  # It is read and dropped, until the client closes its side.
        client.close()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


def test_a_scan_frame_on_a_connection_for_requests_is_unknown(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(scan_frame(1))
        await client.rest()
        assert client.end is not None
        assert "kind 16" in client.end.message

    run_port(test)


def test_a_client_that_does_not_close_an_ended_connection_is_dropped(
    run_port: RunPort, port_clock: ManualClock
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(frame(99, b""))
        await _refused(client, Error.INVALID_ARGUMENT)
        port_clock.advance(1000 * int(ENDED_SECONDS_MAX - 1))
        port.clients.drop_silent()
        await turns()
        assert port.clients.open_count == 1
        port_clock.advance(2_000)
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


def test_a_client_that_sends_during_its_scan_is_dropped(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(1, is_held=True))
        await until(lambda: region.open_scans == 1)
        await client.send(scan_frame(1))
        await until(lambda: port.clients.open_count == 0)
        region.gate.set()
        await until(lambda: region.open_scans == 0)
        assert port.log.count == 1

    run_port(test)


def test_a_request_that_comes_too_slowly_is_dropped(run_port: RunPort, port_clock: ManualClock) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(1)[:-1])
        await until(lambda: port.ledger.requests.bytes_held > 0)
        port_clock.advance(29_000)
        port.clients.drop_silent()
        await turns()
        assert port.clients.open_count == 1
        port_clock.advance(2_000)
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


@pytest.mark.parametrize("config", [Config(connections_max=1)])
def test_connections_for_scans_count_as_connections(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        await port.welcomed_for_scans()
        second = await port.connect()
        await second.send(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(scans=True).SerializeToString()))
        assert (await second.welcome()).error.code == Error.REGION_TOO_BUSY

    run_port(test)


@pytest.mark.parametrize("config", [Config(connections_max=2)])
def test_a_connection_that_is_kept_for_a_later_scan_makes_room_for_another_client(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        kept = await port.welcomed_for_scans()
        new = await port.welcomed_for_scans()  # Its first request is on the way.
        await kept.send(scan_frame(1))
        assert await frames(kept, 2) == ONE_BATCH
        greeting = [await port.connect() for _ in range(2)]
        for client in greeting:  # Both at a time: one connection makes room for one other.
            await client.send(PREAMBLE + frame(HELLO, b""))
        codes = [(await client.welcome()).error.code for client in greeting]
        assert sorted(codes) == [Error.CODE_UNSPECIFIED, Error.REGION_TOO_BUSY]
        assert await kept.frame() is None
        await new.send(scan_frame(2))
        assert await frames(new, 3) == [(SCAN_BATCH, b"rows"), *ONE_BATCH]
        assert port.clients.open_count == 2
        request = scan_frame(1, is_held=True)
        await new.send(request[:-1])
        await until(lambda: port.ledger.requests.bytes_held > 0)
        await refused(port)
        await new.send(request[-1:])
        await until(lambda: region.open_scans == 1)
        await refused(port)
        region.gate.set()
        assert await frames(new, 2) == ONE_BATCH

    async def refused(port: Port) -> None:
        client = await port.connect()
        await client.send(PREAMBLE + frame(HELLO, b""))
        assert (await client.welcome()).error.code == Error.REGION_TOO_BUSY

    run_port(test)


# The end


def test_an_idle_connection_ends_at_once_when_the_server_stops(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        port.clients.stop()
        assert (await error_of_end(client, END)).code == Error.SERVER_STOPPING
        assert await client.frame() is None
        await until(lambda: port.clients.open_count == 0)

    run_port(test)


def test_a_running_scan_ends_with_the_server_and_then_the_connection(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(1, is_held=True))
        await until(lambda: region.open_scans == 1)
        port.clients.stop()
        port.scans.stop()
        await turns()
        assert port.clients.open_count == 1
        region.gate.set()
        found = await client.frame()
        if found is not None and found[0] == SCAN_BATCH:
            found = await client.frame()
        assert found is not None
        assert found[0] == SCAN_END
        assert Error.FromString(found[1]).code == Error.SERVER_STOPPING
        assert (await error_of_end(client, END)).code == Error.SERVER_STOPPING
        assert await client.frame() is None

    run_port(test)


@pytest.mark.usefixtures("_small_buffers")
def test_a_stop_waits_for_a_client_that_reads_nothing_for_its_time_only(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        port.batch = bytes(MIB)
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(9))
        await until(lambda: port.ledger.scans.bytes_held > MIB)
        port.clients.stop()
        port.scans.stop()
        await port.clients.left(0.05)
        assert port.clients.open_count == 0
        await until(lambda: port.ledger.bytes_held == 0)

    run_port(test)


def test_a_client_that_ends_its_own_side_ends_its_scan(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_scans()
        await client.send(scan_frame(1, is_held=True))
        await until(lambda: region.open_scans == 1)
        client.socket.shutdown(socket.SHUT_WR)
        await until(lambda: port.scans.statistics().open_count == 0)
        region.gate.set()
        assert await client.frame() is None

    run_port(test)


def test_the_sender_takes_no_frame_after_its_end(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        lost: list[None] = []
        sender = frame_sender.FrameSender(ours, port.ledger.scans, lambda: lost.append(None))
        theirs.close()
        for _ in range(3):
            sender.send(SCAN_BATCH, bytes(MIB))
        assert len(lost) == 1
        assert sender.send_rest() is None
        assert sender.unsent_bytes == 0
        sender.close()
        ours.close()
        await asyncio.sleep(0)

    run_port(test)
