"""The direct port of the server in memory: it reads frames, and its owner decides what each request meets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from rowlock_proto.direct_frames import (
    ANSWERS,
    BULK_ANSWER,
    BULK_BATCH,
    END,
    HELLO,
    PING,
    PONG,
    PREAMBLE,
    REQUESTS,
    SCAN,
    SCAN_BATCH,
    SCAN_END,
    Body,
    Frame,
    FrameReader,
    frame,
)
from rowlock_proto.v1 import direct_pb2, region_pb2

from tests.unit.client.fake_errors import RefusedError
from tests.waiting import wait_until

# Takes a message, returns its answers, and whether the connection goes on.
Meet = Callable[[region_pb2.PointRequests], tuple[region_pb2.PointAnswers, bool]]
# Takes a request, returns its batches. Raises ConnectionError, which cuts the connection, and RefusedError.
Scan = Callable[[region_pb2.ScanRequest], Iterator[region_pb2.ScanBatch]]


# Takes a batch. Returns its answer or None, and whether the connection stays open. Raises RefusedError to end it.
MeetBulk = Callable[[region_pb2.BulkBatch], tuple[region_pb2.BulkAnswer | None, bool]]


def no_bulk(batch: region_pb2.BulkBatch) -> tuple[region_pb2.BulkAnswer | None, bool]:
    raise AssertionError("no test sends batches here")


def no_scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
    raise AssertionError("no test scans here")


class FakeDirect:
    """Listens on a port of its own, or on a Unix socket; a thread for each connection."""

    def __init__(
        self,
        meet: Meet,
        welcome: Callable[[], direct_pb2.DirectWelcome],
        path: str = "",
        scan: Scan = no_scan,
        bulk: MeetBulk = no_bulk,
    ) -> None:
        self._meet = meet
        self._welcome = welcome
        self.welcome_for_streams: Callable[[], direct_pb2.DirectWelcome] | None = None
        self._scan = scan
        self._bulk = bulk
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._connections: list[socket.socket] = []
        self._for_bulk: list[socket.socket] = []
        self.bulk_answer_count = 0
        self.accepted_count = 0
        self.pings: list[bytes] = []
        # While it is not set, nothing is read.
        self.may_read = threading.Event()
        self.may_read.set()
        self.answers_pings = True
        if path:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(path)
            self._listening.listen()
            self.address = path
        else:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, name="fake direct port")]
        self._threads[0].start()

    def stop(self) -> None:
        """Ends all connections."""
        self.stop_listening()
        self.may_read.set()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()

    def stop_listening(self) -> None:
        """Takes no more connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()

    def cut(self) -> None:
        """Ends the connections that there are."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def end_of_bulk(self) -> None:
        """Ends the connections for bulk batches, after the answers that they have."""
        with self._lock:
            connections = list(self._for_bulk)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait_until_left(self) -> None:
        """Waits until the clients have closed all connections."""
        wait_until(lambda: not self._connections)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
                self.accepted_count += 1
            thread = threading.Thread(target=self._serve, args=(connection,), name="fake direct connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            reader = FrameReader(1 << 30, memoryview(bytearray(1 << 16)))
            while (found := self._received(connection, reader)) is not None and self._take(connection, *found):
                pass
            connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._connections.remove(connection)

    def _received(self, connection: socket.socket, reader: FrameReader) -> Frame | None:
        while (found := reader.next()) is None:
            assert reader.error is None, reader.error
            if reader.large_bytes:
                reader.begin_large()
            self.may_read.wait()
            count = connection.recv_into(reader.room())
            if not count:
                return None
            reader.received(count)
        return found

    def _take(self, connection: socket.socket, kind: int, body: Body) -> bool:
        if kind == HELLO:
            hello = direct_pb2.DirectHello.FromString(bytes(body))
            if hello.bulk:
                with self._lock:
                    self._for_bulk.append(connection)
            welcome = (self.welcome_for_streams if hello.scans or hello.bulk else None) or self._welcome
            connection.sendall(PREAMBLE + frame(HELLO, welcome().SerializeToString()))
            return True
        if kind == SCAN:
            return self._answer_scan(connection, region_pb2.ScanRequest.FromString(bytes(body)))
        if kind == BULK_BATCH:
            try:
                answer, goes_on = self._bulk(region_pb2.BulkBatch.FromString(bytes(body)))
            except RefusedError as refused:
                connection.sendall(frame(END, refused.error.SerializeToString()))
                return False
            if answer is not None:
                connection.sendall(frame(BULK_ANSWER, answer.SerializeToString()))
                with self._lock:
                    self.bulk_answer_count += 1
            return goes_on
        if kind == PING:
            with self._lock:
                self.pings.append(bytes(body))
            if self.answers_pings:
                connection.sendall(frame(PONG, bytes(body)))
            return True
        assert kind == REQUESTS, kind
        answers, goes_on = self._meet(region_pb2.PointRequests.FromString(bytes(body)))
        if answers.answers:
            connection.sendall(frame(ANSWERS, answers.SerializeToString()))
        return goes_on

    def _answer_scan(self, connection: socket.socket, request: region_pb2.ScanRequest) -> bool:
        end = b""
        try:
            for batch in self._scan(request):
                connection.sendall(frame(SCAN_BATCH, batch.SerializeToString()))
        except RefusedError as refused:
            end = refused.error.SerializeToString()
        connection.sendall(frame(SCAN_END, end))
        return True
