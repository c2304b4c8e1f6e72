"""A stream of bulk batches on a direct connection (threads): what is sent and received, how it ends, and when."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pyarrow as pa
import pytest
from rowlock._core.direct_bulk import batch_frame
from rowlock._transport import direct_socket
from rowlock._transport.direct_bulk import DirectBulk
from rowlock._transport.servers import Servers
from rowlock.errors import (
    ClosedError,
    DeadlineError,
    LimitExceededError,
    RegionTooBusyError,
    RowlockError,
    ServerError,
    ServerUnavailableError,
)
from rowlock.schema import Region
from rowlock_proto.direct_frames import ANSWERS, BULK_ANSWER, BULK_BATCH, END, HEAD, frame
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.threads import is_at
from tests.unit.client.direct_server import BODY_BYTES_MAX, LONG_S
from tests.unit.client.scan_server import REGION, ScanServer
from tests.waiting import wait_until

BUSY = types_pb2.Error(code=types_pb2.Error.REGION_TOO_BUSY, message="busy").SerializeToString()
GARBAGE = [
    (frame(BULK_ANSWER, b"\xff"), ServerError),
    (frame(END, b"\xff"), ServerError),
    (frame(END, BUSY), RegionTooBusyError),
    (frame(ANSWERS, b""), ServerError),
    (HEAD.pack(0, BULK_ANSWER), ServerUnavailableError),
    (HEAD.pack(1 << 30, BULK_ANSWER), ServerUnavailableError),
]


@pytest.fixture
def server() -> Iterator[ScanServer]:
    server = ScanServer()
    yield server
    server.close()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScanServer]:
    monkeypatch.setattr(direct_socket, "_UNIX_BUFFER_BYTES", 4096)
    server = ScanServer(is_narrow=True)
    yield server
    server.close()


def stream_to(server: ScanServer, timeout_s: float = LONG_S) -> DirectBulk:
    return DirectBulk(Servers(("first:1", "second:1")), REGION, server.opened, server.kept, timeout_s)


def answer_frame(cell_count: int) -> bytes:
    return frame(BULK_ANSWER, region_pb2.BulkAnswer(cell_count=cell_count).SerializeToString())


def received(server: ScanServer, byte_count: int) -> bytes:
    found = b""
    while len(found) < byte_count:
        found += server.socket.recv(byte_count - len(found))
    return found


class InThread:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], object], waits_at: str) -> None:
        """Returns when the call waits at this passage of code, or has ended."""
        self._done: Future[object] = Future()
        self._call = call
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        wait_until(lambda: is_at(self.thread, waits_at) or self._done.done())

    def _run(self) -> None:
        try:
            self._done.set_result(self._call())
        except BaseException as error:
            self._done.set_exception(error)

    def result(self) -> object:
        try:
            return self._done.result(LONG_S)
        finally:
            self.thread.join()


def test_batches_are_sent_and_answers_come_in_order_and_in_any_pieces(server: ScanServer) -> None:
    stream = stream_to(server)
    stream.put([b"one", pa.py_buffer(b""), pa.py_buffer(b" batch")])
    assert received(server, 14) == frame(BULK_BATCH, b"one batch")
    for piece in answer_frame(1)[:-1], answer_frame(1)[-1:], answer_frame(2) + answer_frame(3):
        server.socket.sendall(piece)
    assert [stream.take().cell_count for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("sizes", [[5_000_000], [1] * 3000, [100, 20_000, 7, 0, 3, 2_000_000, 5], [20_000, 0]])
def test_a_large_batch_is_sent_whole_through_a_small_socket(narrow: ScanServer, sizes: list[int]) -> None:
    parts = [bytes((number % 251,)) * size for number, size in enumerate(sizes)]
    sending = InThread(lambda: stream_to(narrow).put([pa.py_buffer(part) for part in parts]), "writable.poll(")
    expected = frame(BULK_BATCH, b"".join(parts))
    assert received(narrow, len(expected)) == expected
    sending.result()


@pytest.mark.parametrize("sizes", [[], [0], [20_000, 0], [0, 20_000], [0, 20_000, 0, 0, 30_000, 5, 0]])
def test_no_part_of_a_frame_is_empty(sizes: list[int]) -> None:
    parts = batch_frame([bytes(size) for size in sizes], BODY_BYTES_MAX, "server")
    assert all(map(len, parts)), "it would be sent for ever"
    assert b"".join(parts) == frame(BULK_BATCH, bytes(sum(sizes)))


@pytest.mark.parametrize("call", ["put", "take"])
def test_a_timeout_may_be_longer_than_the_system_waits(narrow: ScanServer, call: str) -> None:
    stream = stream_to(narrow, 1e9)
    waiting = (
        InThread(lambda: stream.put([bytes(5_000_000)]), "writable.poll(")
        if call == "put"
        else InThread(stream.take, "self._poll.poll(")
    )
    assert waiting.thread.is_alive()
    stream.cancel(ClosedError("closed"))
    with pytest.raises(ClosedError):
        waiting.result()


def test_a_batch_that_is_too_large_is_not_sent_and_the_stream_goes_on(server: ScanServer) -> None:
    stream = stream_to(server)
    with pytest.raises(LimitExceededError) as caught:
        stream.put([bytes(BODY_BYTES_MAX), b"x"])
    assert (caught.value.limit, caught.value.limit_value) == ("request_bytes_max", BODY_BYTES_MAX)
    assert caught.value.found == BODY_BYTES_MAX + 1
    stream.put([b"x"])
    assert received(server, 6) == frame(BULK_BATCH, b"x")


def test_a_server_that_takes_nothing_of_a_batch_is_given_up_and_one_that_takes_some_is_not(narrow: ScanServer) -> None:
    stream = stream_to(narrow, 0.5)
    sending = InThread(lambda: stream.put([bytes(2_000_000)]), "writable.poll(")
    ends_at = time.monotonic() + 1.0
    while time.monotonic() < ends_at:
        narrow.socket.recv(4096)
        time.sleep(0.05)
    with pytest.raises(DeadlineError, match=r"no batch was accepted within 0\.5 s"):
        sending.result()
    assert time.monotonic() > ends_at


def test_an_answer_that_does_not_come_in_time_is_a_deadline_error(server: ScanServer) -> None:
    stream = stream_to(server, 0.05)
    stream.put([b"x"])
    with pytest.raises(DeadlineError, match=r"no answer to a batch came within 0\.05 s"):
        stream.take()


@pytest.mark.parametrize(("sent", "expected"), GARBAGE)
def test_an_end_or_a_frame_that_makes_no_sense_raises_its_error(
    server: ScanServer, sent: bytes, expected: type[RowlockError]
) -> None:
    stream = stream_to(server)
    stream.put([b"x"])
    server.socket.sendall(sent)
    with pytest.raises(expected):
        stream.take()
    stream.close()
    assert server.kept._kept == []
    assert server.client_socket.fileno() == -1


def test_a_server_that_leaves_is_lost_while_the_client_sends_and_while_it_receives(server: ScanServer) -> None:
    stream = stream_to(server)
    server.socket.close()
    with pytest.raises(ServerUnavailableError, match="the connection to target was lost"):
        stream.put([bytes(5_000_000)])
    with pytest.raises(ServerUnavailableError, match="the server closed it"):
        stream.take()
    assert stream._servers.catalog_address == "second:1"


def test_answers_and_an_end_that_came_before_a_failed_send_are_returned(narrow: ScanServer) -> None:
    stream = stream_to(narrow)
    stream.put([b"x"])
    narrow.socket.sendall(answer_frame(1) + frame(END, BUSY))
    sending = InThread(lambda: stream.put([bytes(5_000_000)]), "writable.poll(")
    narrow.socket.close()  # With unread bytes.
    sending.result()
    assert stream.take().cell_count == 1
    assert stream.rest_may_have_begun
    with pytest.raises(RegionTooBusyError):
        stream.take()
    assert not stream.rest_may_have_begun


def test_an_answer_or_an_end_that_has_come_is_noticed(server: ScanServer) -> None:
    stream = stream_to(server)
    assert not stream.has_received()
    server.socket.sendall(answer_frame(1) * 2)
    assert stream.has_received()
    stream.take()
    assert stream.has_received()
    stream.take()
    assert not stream.has_received()
    server.socket.close()
    assert stream.has_received()


def test_a_stream_whose_batches_are_answered_leaves_its_connection_to_the_next_one(server: ScanServer) -> None:
    for _ in range(2):
        stream = stream_to(server)
        for _ in range(2):
            stream.put([b"x"])
            received(server, 6)
            server.socket.sendall(answer_frame(1))
            stream.take()
        stream.close()
        [kept] = server.kept._kept
        assert kept is server.opened
        assert server.kept.take(server.opened.announcement) is kept
        with pytest.raises(ServerUnavailableError, match="the stream of batches has ended"):
            stream.take()


@pytest.mark.parametrize("rest", [b"", answer_frame(1)[:3], answer_frame(1) * 2])
def test_a_stream_with_an_unanswered_batch_or_bytes_behind_takes_its_connection_with_it(
    server: ScanServer, rest: bytes
) -> None:
    stream = stream_to(server)
    stream.put([b"x"])
    received(server, 6)
    server.socket.sendall(rest)
    if len(rest) > len(answer_frame(1)):
        stream.take()
    stream.close()
    assert server.kept._kept == []
    assert server.is_left()


@pytest.mark.parametrize("call", ["put", "take"])
def test_a_stream_that_is_cancelled_ends_a_call_of_another_thread(narrow: ScanServer, call: str) -> None:
    stream = stream_to(narrow)
    waiting = (
        InThread(lambda: stream.put([bytes(5_000_000)]), "writable.poll(")
        if call == "put"
        else InThread(stream.take, "self._poll.poll(")
    )
    stream.cancel(ClosedError("the client was closed"))
    with pytest.raises(ClosedError):
        waiting.result()
    assert narrow.client_socket.fileno() == -1
    stream.close()
    with pytest.raises(ClosedError):
        stream.put([b"x"])


def test_an_interruption_while_a_batch_is_sent_closes_the_socket(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(parts: object) -> None:
        raise KeyboardInterrupt

    stream = stream_to(server)
    monkeypatch.setattr(server.client_socket, "sendmsg", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        stream.put([b"x"])
    stream.close()
    assert server.is_left()
    assert server.kept._kept == []


def test_a_stream_connects_to_one_server_and_folder(server: ScanServer) -> None:
    stream = stream_to(server)
    assert stream.connects_to(Region(2, "other", b"a", b"b", REGION.server))
    assert not stream.connects_to(Region(1, "t", b"", b"", "second:1"))
    assert not stream.connects_to(Region(1, "t", b"", b"", REGION.server, data_folder_id="another"))


def test_a_unix_socket_takes_a_batch_at_once(server: ScanServer) -> None:
    stream_to(server)
    assert server.client_socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 300_000
