"""A stream of bulk batches on a direct connection (asyncio): what is sent and received, how it ends, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest
from rowlock.aio._transport.direct_bulk import DirectBulk
from rowlock.aio._transport.servers import Servers
from rowlock.errors import (
    ClosedError,
    DeadlineError,
    LimitExceededError,
    RegionTooBusyError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock_proto.direct_frames import BULK_BATCH, END, frame

from tests.unit.client.direct_server import BODY_BYTES_MAX, LONG_S
from tests.unit.client.scan_server import REGION, ScanServer
from tests.unit.client.test_direct_bulk import BUSY, GARBAGE, answer_frame, narrow, received

__all__ = ["narrow"]


@pytest.fixture
def server() -> Iterator[ScanServer]:
    server = ScanServer()
    yield server
    server.close()


def stream_to(server: ScanServer, timeout_s: float = LONG_S) -> DirectBulk:
    return DirectBulk(Servers(("first:1", "second:1")), REGION, server.opened, server.kept, timeout_s)


def test_batches_are_sent_and_answers_come_in_order_and_in_any_pieces(server: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(server)
        await stream.put([b"one", pa.py_buffer(b" batch")])
        assert received(server, 14) == frame(BULK_BATCH, b"one batch")
        for piece in answer_frame(1)[:-1], answer_frame(1)[-1:], answer_frame(2) + answer_frame(3):
            server.socket.sendall(piece)
        assert [(await stream.take()).cell_count for _ in range(3)] == [1, 2, 3]
        stream.cancel()

    asyncio.run(run())


def test_a_large_batch_is_sent_whole_through_a_small_socket(narrow: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(narrow)
        parts = [bytes((number,)) * size for number, size in enumerate([100, 20_000, 0, 2_000_000, 5])]
        expected = frame(BULK_BATCH, b"".join(parts))
        sending = asyncio.create_task(stream.put([pa.py_buffer(part) for part in parts]))
        assert await asyncio.to_thread(received, narrow, len(expected)) == expected
        await sending
        stream.cancel()

    asyncio.run(run())


def test_a_batch_that_is_too_large_is_not_sent(server: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(server)
        with pytest.raises(LimitExceededError):
            await stream.put([bytes(BODY_BYTES_MAX), b"x"])
        await stream.put([b"x"])
        assert received(server, 6) == frame(BULK_BATCH, b"x")
        stream.cancel()

    asyncio.run(run())


def test_a_server_that_takes_no_batch_or_answers_none_is_given_up(narrow: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(narrow, 0.05)
        with pytest.raises(DeadlineError, match=r"no answer to a batch came within 0\.05 s"):
            await stream.take()
        with pytest.raises(DeadlineError, match=r"no batch was accepted within 0\.05 s"):
            await stream.put([bytes(5_000_000)])
        stream.close()
        assert narrow.kept._kept == []
        assert narrow.client_socket.fileno() == -1

    asyncio.run(run())


@pytest.mark.parametrize(("sent", "expected"), GARBAGE)
def test_an_end_or_a_frame_that_makes_no_sense_raises_its_error(
    server: ScanServer, sent: bytes, expected: type[RowlockError]
) -> None:
    async def run() -> None:
        stream = stream_to(server)
        await stream.put([b"x"])
        server.socket.sendall(sent)
        with pytest.raises(expected):
            await stream.take()
        stream.close()
        assert server.kept._kept == []

    asyncio.run(run())


def test_answers_and_an_end_that_came_before_a_failed_send_are_returned(narrow: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(narrow)
        await stream.put([b"x"])
        narrow.socket.sendall(answer_frame(1) + frame(END, BUSY))
        sending = asyncio.create_task(stream.put([bytes(5_000_000)]))
        await asyncio.sleep(0.01)
        narrow.socket.close()  # With unread bytes.
        await sending
        assert (await stream.take()).cell_count == 1
        with pytest.raises(RegionTooBusyError):
            await stream.take()
        assert not stream.rest_may_have_begun
        stream.cancel()

    asyncio.run(run())


def test_a_server_that_takes_a_batch_slowly_is_not_given_up(narrow: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(narrow, 0.4)
        body = bytes(3 << 20)
        sending = asyncio.create_task(stream.put([body]))
        for _ in range(3):
            await asyncio.sleep(0.2)  # Together longer than the timeout.
            await asyncio.to_thread(received, narrow, 1 << 20)
        await asyncio.to_thread(received, narrow, 5)
        await sending
        stream.cancel()

    asyncio.run(run())


def test_a_server_that_leaves_is_lost(server: ScanServer) -> None:
    async def run() -> None:
        stream = stream_to(server)
        server.socket.close()
        with pytest.raises(ServerUnavailableError, match="the connection to target was lost"):
            await stream.put([bytes(5_000_000)])
        with pytest.raises(ServerUnavailableError, match="the server closed it"):
            await stream.take()

    asyncio.run(run())


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_stream_leaves_its_connection_to_the_next_one_if_its_batches_are_answered(
    server: ScanServer, is_answered: bool
) -> None:
    async def run() -> None:
        stream = stream_to(server)
        await stream.put([b"x"])
        received(server, 6)
        server.socket.sendall(answer_frame(1))
        if is_answered:
            await stream.take()
        stream.close()
        assert bool(server.kept._kept) == is_answered
        assert is_answered or server.is_left()

    asyncio.run(run())


@pytest.mark.parametrize("call", ["put", "take"])
def test_a_stream_that_is_cancelled_ends_a_call_of_another_task(narrow: ScanServer, call: str) -> None:
    async def run() -> None:
        stream = stream_to(narrow)
        waiting = asyncio.create_task(stream.put([bytes(5_000_000)]) if call == "put" else stream.take())
        await asyncio.sleep(0.05)
        stream.cancel(ClosedError("the client was closed"))
        with pytest.raises(ClosedError):
            await asyncio.wait_for(waiting, LONG_S)
        assert narrow.client_socket.fileno() == -1

    asyncio.run(run())


@pytest.mark.parametrize("call", ["put", "take"])
def test_a_task_that_is_cancelled_takes_the_connection_with_it(narrow: ScanServer, call: str) -> None:
    async def run() -> None:
        stream = stream_to(narrow)
        await stream.put([b"x"])
        waiting = asyncio.create_task(stream.put([bytes(5_000_000)]) if call == "put" else stream.take())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stream.close()
        assert narrow.kept._kept == []
        assert narrow.client_socket.fileno() == -1

    asyncio.run(run())
