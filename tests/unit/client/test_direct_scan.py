"""A scan on a direct connection of its own (threads): what it receives, how it ends, and who closes its socket."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace

import pyarrow as pa
import pytest
from rowlock._codec.scan_message import ScanMessage
from rowlock._core import direct_stream
from rowlock._transport import channels, scan_opening
from rowlock._transport.direct_scan import DirectScan
from rowlock._transport.scan_opening import RepeatableScan
from rowlock._transport.servers import Servers
from rowlock._transport.stream_sockets import KeptSocketLostError
from rowlock.errors import ClosedError, DeadlineError, RegionTooBusyError, ServerError, ServerUnavailableError
from rowlock.schema import Region
from rowlock_proto.direct_frames import ANSWERS, END, HEAD, SCAN_BATCH, SCAN_END, frame
from rowlock_proto.v1 import types_pb2
from rowlock_proto.v1.region_pb2 import ScanBatch, ScanRequest

from tests.threads import is_at
from tests.unit.client.direct_server import LONG_S
from tests.unit.client.scan_server import REGION, ScanServer, batch_frame
from tests.unit.client.test_direct_choice import HERE
from tests.waiting import wait_until

BUSY = types_pb2.Error(code=types_pb2.Error.REGION_TOO_BUSY, message="busy").SerializeToString()
GARBAGE = [
    (frame(SCAN_BATCH, b"\xff"), ServerError),
    (frame(SCAN_END, b"\xff"), ServerError),
    (frame(SCAN_END, BUSY), RegionTooBusyError),
    (frame(END, BUSY), RegionTooBusyError),
    (frame(ANSWERS, b""), ServerError),
    (HEAD.pack(0, SCAN_BATCH), ServerUnavailableError),
]


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


class InThread:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], ScanMessage | None], waits_at: str) -> None:
        """Returns when the call waits at this passage of code, or has ended."""
        self._done: Future[ScanMessage | None] = Future()
        self._call = call
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        wait_until(lambda: is_at(self.thread, waits_at) or self._done.done())

    def _run(self) -> None:
        try:
            self._done.set_result(self._call())
        except BaseException as error:
            self._done.set_exception(error)

    def result(self) -> ScanMessage | None:
        try:
            return self._done.result(LONG_S)
        finally:
            self.thread.join()


def next_in_thread(scan: DirectScan, timeout_s: float = LONG_S) -> InThread:
    return InThread(lambda: scan.next(timeout_s), "self._poll.poll(")


def row_count(batch: ScanMessage | None) -> int:
    assert batch is not None
    return batch.row_count


def test_batches_come_in_order_and_in_any_pieces(server: ScanServer) -> None:
    scan = scan_of(server)
    scan.begin(b"request", LONG_S)
    assert server.socket.recv(100) == b"request"
    for byte in batch_frame(1)[:-1], batch_frame(1)[-1:], batch_frame(2) + batch_frame(3):
        server.socket.sendall(byte)
    assert [row_count(scan.next(LONG_S)) for _ in range(3)] == [1, 2, 3]
    waiting = next_in_thread(scan)
    large = bytes(1 << 20)
    server.socket.sendall(batch_frame(4, large) + frame(SCAN_END, b""))
    batch = waiting.result()
    assert batch is not None
    assert (batch.row_count, batch.arrow.size) == (4, len(large))
    assert scan.next(LONG_S) is None


@pytest.mark.parametrize("is_too_large", [False, True])
def test_a_large_batch_is_received_in_memory_of_arrows_pool_unless_it_is_too_large(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch, is_too_large: bool
) -> None:
    rows = os.urandom(10_000_000)
    message = ScanBatch(arrow=rows, row_count=7).SerializeToString()
    if is_too_large:
        monkeypatch.setattr(direct_stream, "_POOLED_BYTES_MAX", len(message) - 1)
    scan = scan_of(server)
    sender = threading.Thread(target=server.socket.sendall, args=(frame(SCAN_BATCH, message),))
    sender.start()
    gc.collect()
    before = pa.total_allocated_bytes()
    batch = scan.next(LONG_S)
    sender.join()
    assert batch is not None
    assert (batch.row_count, batch.arrow.to_pybytes() == rows) == (7, True)
    expected = 0 if is_too_large else len(message)
    assert expected <= pa.total_allocated_bytes() - before < expected + 10_000
    del batch
    assert pa.total_allocated_bytes() <= before


def test_a_batch_that_does_not_come_in_time_is_a_deadline_error(server: ScanServer) -> None:
    scan = scan_of(server)
    server.socket.sendall(batch_frame(1)[:-1])
    with pytest.raises(DeadlineError):
        scan.next(0.05)


def test_a_server_that_is_silent_is_lost(server: ScanServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "KEEPALIVE_MS", 20)
    monkeypatch.setattr(channels, "KEEPALIVE_TIMEOUT_MS", 20)
    with pytest.raises(ServerUnavailableError, match="silent"):
        scan_of(server).next(LONG_S)


def test_the_longest_timeout_is_no_error(server: ScanServer) -> None:
    scan = scan_of(server)
    scan.begin(b"request", 1e9)
    waiting = next_in_thread(scan, 1e9)
    server.send_batch(1)
    assert row_count(waiting.result()) == 1


def test_a_server_that_goes_away_in_the_middle_of_a_frame_is_lost_and_not_used_for_the_catalog(
    server: ScanServer,
) -> None:
    scan = scan_of(server)
    waiting = next_in_thread(scan)
    server.socket.sendall(batch_frame(1)[:-1])
    server.socket.close()
    with pytest.raises(ServerUnavailableError, match="the connection to target was lost: the server closed it"):
        waiting.result()
    assert scan._servers.catalog_address == "second:1"


@pytest.mark.parametrize(("sent", "kind"), GARBAGE)
def test_what_makes_no_sense_and_errors_end_the_scan(server: ScanServer, sent: bytes, kind: type[Exception]) -> None:
    server.socket.sendall(sent)
    with pytest.raises(kind):
        scan_of(server).next(LONG_S)


def test_the_thread_that_receives_closes_the_socket_of_a_scan_that_is_cancelled(server: ScanServer) -> None:
    scan = scan_of(server)
    waiting = next_in_thread(scan)
    reason = ClosedError("closed")
    server.client_socket.is_deaf = True  # So that the thread receives until the server's end is closed.
    scan.cancel(reason)
    assert server.client_socket.fileno() != -1
    server.socket.close()
    with pytest.raises(ClosedError) as raised:
        waiting.result()
    assert raised.value is reason
    assert server.client_socket.fileno() == -1
    scan.cancel()
    with pytest.raises(ClosedError):
        scan.next(LONG_S)


def test_a_scan_that_is_cancelled_leaves_the_server_and_ends_the_thread_that_receives(server: ScanServer) -> None:
    scan = scan_of(server)
    waiting = next_in_thread(scan)
    scan.cancel(ClosedError("closed"))
    assert server.is_left()
    with pytest.raises(ClosedError):
        waiting.result()


def test_the_thread_that_sends_closes_the_socket_of_a_scan_that_is_cancelled(narrow: ScanServer) -> None:
    scan = scan_of(narrow)

    def begin() -> None:
        scan.begin(bytes(1 << 20), LONG_S)

    sending = InThread(begin, "self._socket.sendall(")
    wait_until(lambda: len(narrow.socket.recv(1, socket.MSG_PEEK)) == 1)
    narrow.client_socket.is_deaf = True  # So that the thread sends until the server's end is closed.
    scan.cancel(ClosedError("closed"))
    assert narrow.client_socket.fileno() != -1
    narrow.socket.close()
    with pytest.raises(ClosedError):
        sending.result()
    assert narrow.client_socket.fileno() == -1


def test_the_socket_is_not_closed_while_another_thread_shuts_it_down(server: ScanServer) -> None:
    """Its descriptor could be another file's by then."""
    scan = scan_of(server)
    waiting = next_in_thread(scan)
    shown = []

    def look() -> None:
        wait_until(lambda: is_at(waiting.thread, "with self._closing") or not waiting.thread.is_alive())
        shown.append(server.client_socket.fileno() != -1)

    server.client_socket.after_shutdown = look
    scan.cancel(ClosedError("closed"))
    with pytest.raises(ClosedError):
        waiting.result()
    assert shown == [True]
    assert server.client_socket.fileno() == -1


def test_an_interruption_while_the_request_is_sent_closes_the_socket(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server.client_socket, "sendall", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        scan_of(server).begin(b"request", LONG_S)
    assert server.is_left()
    assert server.client_socket.fileno() == -1


def test_a_request_that_can_not_be_sent_ends_the_scan(server: ScanServer) -> None:
    server.socket.close()
    scan = scan_of(server)
    with pytest.raises(ServerUnavailableError, match="the connection to target was lost"):
        scan.begin(b"request", LONG_S)
    assert server.client_socket.fileno() == -1
    assert scan._servers.catalog_address == "second:1"


def test_a_scan_that_its_user_closes_does_not_change_the_server_of_the_catalog(server: ScanServer) -> None:
    scan = scan_of(server)
    waiting = next_in_thread(scan)
    scan.cancel()
    with pytest.raises(ServerUnavailableError):
        waiting.result()
    assert scan._servers.catalog_address == "first:1"


def test_the_child_of_a_fork_closes_its_copy_and_leaves_the_parent_s_scan_alone(server: ScanServer) -> None:
    parents = socket.socket(fileno=os.dup(server.client_socket.fileno()))
    scan = scan_of(server)
    scan._closing.acquire()  # As another thread of the parent, which the child does not have.
    holding = scan._closing
    in_child = threading.Thread(target=forget_and_cancel, args=(scan,))
    in_child.start()
    in_child.join(LONG_S)
    assert not in_child.is_alive()
    holding.release()
    assert server.client_socket.fileno() == -1
    with parents:
        server.send_batch(1)
        assert parents.recv(1000) == batch_frame(1)
        parents.sendall(b"x")
        assert server.socket.recv(1) == b"x"


def forget_and_cancel(scan: DirectScan) -> None:
    scan.forget()
    scan.cancel()
    with pytest.raises(ServerUnavailableError, match="it belongs to the parent of this process"):
        scan.next(LONG_S)


# The connection is used again


def test_a_signal_handler_may_cancel_a_scan_while_it_leaves(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = scan_of(server)
    lost = DirectScan._lost

    def interrupted(_: DirectScan, reason: object) -> ServerUnavailableError:
        if reason == "the scan has ended":
            scan.cancel()
        return lost(scan, reason)

    monkeypatch.setattr(DirectScan, "_lost", interrupted)
    scan.leave()
    assert server.kept._kept == []
    assert server.is_left()
    with pytest.raises(ServerUnavailableError, match="the scan was closed"):
        scan.next(LONG_S)


def test_a_scan_that_has_ended_leaves_its_connection_to_the_next_one(server: ScanServer) -> None:
    first = scan_of(server)
    server.socket.sendall(batch_frame(1) + frame(SCAN_END, b""))
    assert row_count(first.next(LONG_S)) == 1
    assert server.kept.take(HERE) is None
    assert first.next(LONG_S) is None
    assert server.kept.take(HERE) is server.opened
    second = scan_of(server)
    first.cancel()
    with pytest.raises(ServerUnavailableError, match="the scan has ended"):
        first.next(LONG_S)
    del first
    second.begin(b"request", LONG_S)
    assert server.socket.recv(100) == b"request"
    server.send_batch(2)
    assert row_count(second.next(LONG_S)) == 2


@pytest.mark.parametrize("comes", ["with the batch", "later"])
def test_a_scan_that_is_left_when_all_rows_have_come_leaves_its_connection_too(server: ScanServer, comes: str) -> None:
    scan = scan_of(server)
    end = frame(SCAN_END, b"")
    server.socket.sendall(batch_frame(1) + (end if comes == "with the batch" else b""))
    scan.next(LONG_S)
    scan.leave()
    if comes == "later":
        server.socket.sendall(end)
    scan.cancel()
    assert server.kept.take(HERE) is server.opened
    with pytest.raises(ServerUnavailableError, match="the scan has ended"):
        scan.next(LONG_S)
    assert server.opened.socket.fileno() != -1


def test_a_scan_that_was_cancelled_takes_its_connection_with_it_when_it_is_left(server: ScanServer) -> None:
    scan = scan_of(server)
    server.socket.sendall(batch_frame(1) + frame(SCAN_END, b""))
    scan.next(LONG_S)
    scan.cancel()
    scan.leave()
    assert server.kept._kept == []
    assert server.client_socket.fileno() == -1


@pytest.mark.parametrize("sent", [frame(SCAN_END, BUSY), frame(SCAN_END, b"") + b"\0"])
def test_a_scan_that_has_not_ended_as_it_should_takes_its_connection_with_it(server: ScanServer, sent: bytes) -> None:
    scan = scan_of(server)
    server.socket.sendall(sent)
    with contextlib.suppress(RegionTooBusyError):
        scan.next(LONG_S)
    assert server.kept.take(HERE) is None
    scan.cancel()
    assert server.is_left()


def test_a_scan_that_is_cancelled_while_its_end_comes_takes_its_connection_with_it(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = scan_of(server)
    server.socket.sendall(frame(SCAN_END, b""))

    def leave(*, is_ending: bool) -> None:
        scan.cancel()
        DirectScan._leave(scan, is_ending=is_ending)

    monkeypatch.setattr(scan, "_leave", leave)
    assert scan.next(LONG_S) is None
    assert server.kept._kept == []
    assert server.client_socket.fileno() == -1


def kept_scan_of(server: ScanServer) -> DirectScan:
    server.opened.is_kept = True
    return scan_of(server)


def test_a_kept_connection_that_is_lost_before_it_brings_anything_is_reported_as_such(server: ScanServer) -> None:
    scan = kept_scan_of(server)
    scan.begin(b"request", LONG_S)
    waiting = next_in_thread(scan)
    server.socket.close()
    with pytest.raises(KeptSocketLostError):
        waiting.result()
    assert scan._servers.catalog_address == "first:1"
    with pytest.raises(KeptSocketLostError):
        scan.begin(b"request", LONG_S)
    assert server.client_socket.fileno() == -1


def test_a_kept_connection_that_is_lost_in_the_middle_of_a_scan_is_like_a_new_one(server: ScanServer) -> None:
    scan = kept_scan_of(server)
    server.socket.sendall(batch_frame(1)[:-1])
    server.socket.close()
    with pytest.raises(ServerUnavailableError):
        scan.next(LONG_S)
    assert scan._servers.catalog_address == "second:1"


def test_a_scan_on_a_kept_connection_that_is_cancelled_does_not_begin_again(server: ScanServer) -> None:
    scan = kept_scan_of(server)
    waiting = next_in_thread(scan)
    scan.cancel()
    with pytest.raises(ServerUnavailableError, match="the scan was closed"):
        waiting.result()


def test_a_scan_that_is_cancelled_while_it_begins_again_is_cancelled_there_too(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers(("first:1", "second:1"))
    server.opened.is_kept = True
    repeatable = RepeatableScan(servers, REGION, ScanRequest(), scan_of(server))
    again = ScanServer()

    def open_again(*_: object) -> DirectScan:
        repeatable.cancel()
        return scan_of(again)

    monkeypatch.setattr(scan_opening, "open_stream", open_again)
    server.socket.close()
    with pytest.raises(ServerUnavailableError, match="the scan was closed"):
        repeatable.next(LONG_S)
    assert again.is_left()
    again.close()


def test_a_scan_that_begins_again_has_what_is_left_of_its_time(
    server: ScanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.opened.is_kept = True
    first = scan_of(server)
    repeatable = RepeatableScan(Servers(("first:1", "second:1")), REGION, ScanRequest(), first)
    now = [0.0]
    given: list[float] = []

    def lost(timeout_s: float) -> ScanMessage | None:
        given.append(timeout_s)
        now[0] += 6.0
        raise KeptSocketLostError

    again = ScanServer()

    def open_again(servers: Servers, region: Region, request: ScanRequest, timeout_s: float) -> DirectScan:
        given.append(timeout_s)
        now[0] += 3.0
        scan = scan_of(again)
        monkeypatch.setattr(scan, "next", given.append)
        return scan

    monkeypatch.setattr(first, "next", lost)
    monkeypatch.setattr(scan_opening, "open_stream", open_again)
    monkeypatch.setattr(scan_opening, "time", SimpleNamespace(monotonic=lambda: now[0]))
    repeatable.next(10.0)
    assert given == [10.0, 4.0, 1.0]
    again.close()


def test_a_scan_that_is_dropped_closes_its_socket(server: ScanServer) -> None:
    scan = scan_of(server)
    del server.opened
    gc.collect()
    assert server.client_socket.fileno() != -1
    del scan
    gc.collect()
    assert server.client_socket.fileno() == -1
    assert server.is_left()
