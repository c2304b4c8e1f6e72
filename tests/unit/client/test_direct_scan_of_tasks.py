"""A scan on a direct connection of its own (asyncio): what it receives, how it ends, and who closes its socket."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Coroutine, Iterator
from typing import TypeVar

import pytest
from rowlock._core.direct import Purpose
from rowlock._transport import channels
from rowlock._transport.stream_sockets import KeptSocketLostError
from rowlock.aio._transport import direct_opening
from rowlock.aio._transport.direct_scan import DirectScan
from rowlock.aio._transport.servers import Servers
from rowlock.errors import ClosedError, DeadlineError, RegionTooBusyError, ServerUnavailableError
from rowlock_proto.direct_frames import SCAN_END, frame
from rowlock_proto.v1 import types_pb2

from tests.unit.client.direct_server import LONG_S
from tests.unit.client.scan_server import REGION, ScanServer, batch_frame
from tests.unit.client.test_direct_choice import HERE
from tests.unit.client.test_direct_scan import BUSY, GARBAGE, row_count
from tests.waiting import WAIT_S

T = TypeVar("T")


@pytest.fixture
def server() -> Iterator[ScanServer]:
    server = ScanServer()
    yield server
    server.close()


@pytest.fixture
def narrow() -> Iterator[ScanServer]:
    server = ScanServer(is_narrow=True)
    yield server
    server.close()


def scan_of(server: ScanServer) -> DirectScan:
    return DirectScan(Servers(("first:1", "second:1")), REGION, server.opened, server.kept)


async def begun(awaited: Coroutine[None, None, T]) -> asyncio.Task[T]:
    """Returns the task, which waits for its socket."""
    task = asyncio.create_task(awaited)
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_batches_come_in_order_and_in_any_pieces(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        await scan.begin(b"request", LONG_S)
        assert server.socket.recv(100) == b"request"
        server.socket.sendall(batch_frame(1) + batch_frame(2)[:-1])
        assert row_count(await scan.next(LONG_S)) == 1
        waiting = await begun(scan.next(LONG_S))
        server.socket.sendall(batch_frame(2)[-1:])
        assert row_count(await waiting) == 2
        waiting = await begun(scan.next(LONG_S))
        large = bytes(1 << 20)
        await asyncio.to_thread(server.socket.sendall, batch_frame(3, large) + frame(SCAN_END, b""))
        batch = await waiting
        assert batch is not None
        assert (batch.row_count, batch.arrow.size) == (3, len(large))
        assert await scan.next(LONG_S) is None

    asyncio.run(run())


def test_a_batch_that_does_not_come_in_time_is_a_deadline_error(server: ScanServer) -> None:
    async def run() -> None:
        with pytest.raises(DeadlineError):
            await scan_of(server).next(0.05)

    asyncio.run(run())


def test_a_server_that_is_silent_is_lost(server: ScanServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "KEEPALIVE_MS", 20)
    monkeypatch.setattr(channels, "KEEPALIVE_TIMEOUT_MS", 20)

    async def run() -> None:
        with pytest.raises(ServerUnavailableError, match="silent"):
            await scan_of(server).next(LONG_S)

    asyncio.run(run())


@pytest.mark.parametrize(("sent", "kind"), GARBAGE)
def test_what_makes_no_sense_and_errors_end_the_scan(server: ScanServer, sent: bytes, kind: type[Exception]) -> None:
    async def run() -> None:
        server.socket.sendall(sent)
        with pytest.raises(kind):
            await scan_of(server).next(LONG_S)

    asyncio.run(run())


def test_a_deadline_error_of_the_server_is_returned_as_it_is(server: ScanServer) -> None:
    async def run() -> None:
        error = types_pb2.Error(code=types_pb2.Error.DEADLINE_EXCEEDED, message="of the server")
        server.socket.sendall(frame(SCAN_END, error.SerializeToString()))
        with pytest.raises(DeadlineError, match="of the server"):
            await scan_of(server).next(LONG_S)

    asyncio.run(run())


def test_a_server_that_goes_away_in_the_middle_of_a_frame_is_lost_and_not_used_for_the_catalog(
    server: ScanServer,
) -> None:
    async def run() -> None:
        scan = scan_of(server)
        waiting = await begun(scan.next(LONG_S))
        server.socket.sendall(batch_frame(1)[:-1])
        server.socket.close()
        with pytest.raises(ServerUnavailableError, match="the connection to target was lost: the server closed it"):
            await waiting
        assert scan._servers.catalog_address == "second:1"

    asyncio.run(run())


def test_a_scan_that_another_task_cancels_ends_with_the_reason_and_closes_its_socket_later(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        waiting = await begun(scan.next(LONG_S))
        reason = ClosedError("closed")
        scan.cancel(reason)
        assert server.client_socket.fileno() != -1, "the event loop still watches it"
        with pytest.raises(ClosedError) as raised:
            await waiting
        assert raised.value is reason
        assert server.client_socket.fileno() == -1
        assert scan._servers.catalog_address == "first:1"

    asyncio.run(run())


def test_a_scan_that_another_task_cancels_while_it_sends_ends_with_the_reason(narrow: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(narrow)
        sending = await begun(scan.begin(bytes(1 << 20), LONG_S))
        scan.cancel(ClosedError("closed"))
        assert narrow.client_socket.fileno() != -1, "the event loop still watches it"
        with pytest.raises(ClosedError):
            await sending
        assert narrow.client_socket.fileno() == -1

    asyncio.run(run())


def test_a_task_that_is_cancelled_while_it_sends_closes_the_socket(narrow: ScanServer) -> None:
    async def run() -> None:
        sending = await begun(scan_of(narrow).begin(bytes(1 << 20), LONG_S))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert narrow.client_socket.fileno() == -1

    asyncio.run(run())


def test_a_task_that_is_cancelled_while_it_receives_leaves_the_scan_to_be_closed(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        waiting = await begun(scan.next(LONG_S))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        scan.cancel()
        assert server.client_socket.fileno() == -1
        assert server.is_left()

    asyncio.run(run())


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_opening_that_is_cancelled_or_too_late_closes_its_socket(is_cancelled: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"

        async def run() -> None:
            opening = asyncio.create_task(
                direct_opening.open_socket(target, HERE, LONG_S if is_cancelled else 0.05, Purpose.SCANS)
            )
            accepted, _ = await asyncio.wait_for(asyncio.to_thread(silent.accept), WAIT_S)
            with accepted:
                assert await asyncio.to_thread(accepted.recv, 1)
                if is_cancelled:
                    opening.cancel()
                with pytest.raises(asyncio.CancelledError if is_cancelled else TimeoutError):
                    await opening
                while await asyncio.to_thread(accepted.recv, 1000):
                    pass

        asyncio.run(run())


def test_an_ip_address_is_looked_up_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", None)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            target = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ConnectionRefusedError):
            await direct_opening.open_socket(target, HERE, LONG_S, Purpose.SCANS)

    asyncio.run(run())


def test_the_child_of_a_fork_closes_its_copy_and_leaves_the_parent_s_scan_alone(server: ScanServer) -> None:
    async def run() -> None:
        with socket.socket(fileno=os.dup(server.client_socket.fileno())) as parents:
            scan = scan_of(server)
            scan.forget()
            scan.cancel()
            assert server.client_socket.fileno() == -1
            server.send_batch(1)
            assert parents.recv(1000) == batch_frame(1)

    asyncio.run(run())


# The connection is used again


def test_a_scan_that_has_ended_leaves_its_connection_to_the_next_one(server: ScanServer) -> None:
    async def run() -> None:
        first = scan_of(server)
        server.socket.sendall(batch_frame(1) + frame(SCAN_END, b""))
        assert row_count(await first.next(LONG_S)) == 1
        assert server.kept.take(HERE) is None
        assert await first.next(LONG_S) is None
        assert server.kept.take(HERE) is server.opened
        second = scan_of(server)
        first.cancel()
        del first
        await second.begin(b"request", LONG_S)
        assert server.socket.recv(100) == b"request"
        waiting = await begun(second.next(LONG_S))
        server.send_batch(2)
        assert row_count(await waiting) == 2

    asyncio.run(run())


def test_a_scan_that_is_left_when_all_rows_have_come_leaves_its_connection_too(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        server.send_batch(1)
        await scan.next(LONG_S)
        scan.leave()
        server.socket.sendall(frame(SCAN_END, b""))
        scan.cancel()
        assert server.kept.take(HERE) is server.opened
        assert server.opened.socket.fileno() != -1

    asyncio.run(run())


def test_a_scan_that_was_cancelled_takes_its_connection_with_it_when_it_is_left(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        scan.cancel()
        scan.leave()
        assert server.kept._kept == []
        assert server.client_socket.fileno() == -1

    asyncio.run(run())


@pytest.mark.parametrize("sent", [frame(SCAN_END, BUSY), frame(SCAN_END, b"") + b"\0"])
def test_a_scan_that_has_not_ended_as_it_should_takes_its_connection_with_it(server: ScanServer, sent: bytes) -> None:
    async def run() -> None:
        scan = scan_of(server)
        server.socket.sendall(sent)
        with contextlib.suppress(RegionTooBusyError):
            await scan.next(LONG_S)
        assert server.kept.take(HERE) is None
        scan.cancel()
        assert server.is_left()

    asyncio.run(run())


def test_a_kept_connection_that_is_lost_before_it_brings_anything_is_reported_as_such(server: ScanServer) -> None:
    async def run() -> None:
        server.opened.is_kept = True
        scan = scan_of(server)
        await scan.begin(b"request", LONG_S)
        waiting = await begun(scan.next(LONG_S))
        server.socket.close()
        with pytest.raises(KeptSocketLostError):
            await waiting
        assert scan._servers.catalog_address == "first:1"
        with pytest.raises(KeptSocketLostError):
            await scan.begin(b"request", LONG_S)
        assert server.client_socket.fileno() == -1

    asyncio.run(run())


def test_a_kept_connection_that_is_lost_in_the_middle_of_a_scan_is_like_a_new_one(server: ScanServer) -> None:
    async def run() -> None:
        server.opened.is_kept = True
        scan = scan_of(server)
        server.socket.sendall(batch_frame(1)[:-1])
        server.socket.close()
        with pytest.raises(ServerUnavailableError):
            await scan.next(LONG_S)
        assert scan._servers.catalog_address == "second:1"

    asyncio.run(run())


def test_a_scan_that_is_dropped_closes_its_socket(server: ScanServer) -> None:
    async def run() -> None:
        scan = scan_of(server)
        del server.opened
        gc.collect()
        assert server.client_socket.fileno() != -1
        del scan

    asyncio.run(run())
    gc.collect()
    assert server.client_socket.fileno() == -1
    assert server.is_left()
