"""The server's end of one direct connection, under the test's control step by step."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future

from rowlock._core import point
from rowlock._core.conversation import Request
from rowlock._core.sequences import Sequences
from rowlock._transport.direct import DirectConnection
from rowlock._transport.direct_socket import OpenSocket
from rowlock_proto.direct_frames import ANSWERS, HELLO, PING, PREAMBLE, REQUESTS, FrameReader, frame
from rowlock_proto.v1 import region_pb2

from tests.waiting import WAIT_S

BODY_BYTES_MAX = 8 << 20
LONG_S = min(60.0, WAIT_S)


def greeted_reader() -> FrameReader:
    """Returns a reader that has read the welcome."""
    greeted = FrameReader(BODY_BYTES_MAX, memoryview(bytearray(1 << 16)))
    greeting = PREAMBLE + frame(HELLO, b"")
    greeted.room()[: len(greeting)] = greeting
    greeted.received(len(greeting))
    assert greeted.next() == (HELLO, b"")
    return greeted


class DirectServer:
    """A connected pair of sockets: `connection` is the client's end, the rest is the server's."""

    def __init__(self, buffer_bytes: int = 0) -> None:
        """buffer_bytes: the size of the system's buffers; 0: the usual one."""
        theirs, self.socket = socket.socketpair()
        for end in (theirs, self.socket):
            if buffer_bytes:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.socket.settimeout(LONG_S)
        theirs.setblocking(False)
        self.connection = DirectConnection(
            OpenSocket(theirs, greeted_reader(), BODY_BYTES_MAX), "server", "target", Sequences()
        )
        self._reader = FrameReader(1 << 30, memoryview(bytearray(1 << 16)))
        self._reader._is_greeted = True
        self.requests: dict[bytes, region_pb2.PointRequest] = {}  # by row
        self.message_sizes: list[int] = []
        self.pings = 0

    def read(self) -> None:
        """Reads one frame."""
        while (found := self._reader.next()) is None:
            if self._reader.large_bytes:
                self._reader.begin_large()
            count = self.socket.recv_into(self._reader.room())
            assert count, "the client has closed the connection"
            self._reader.received(count)
        kind, body = found
        if kind == PING:
            self.pings += 1
            return
        assert kind == REQUESTS
        requests = region_pb2.PointRequests.FromString(bytes(body)).requests
        self.message_sizes.append(len(requests))
        self.requests.update((request.get.rows[0], request) for request in requests)

    def read_until(self, *rows: bytes) -> None:
        """Reads until these rows were requested."""
        while not set(rows) <= self.requests.keys():
            self.read()

    def answer(self, *rows: bytes) -> bytes:
        """Returns a frame with the answers for these rows: each row has one cell, with the row's name as value."""
        answers = region_pb2.PointAnswers()
        for row in rows:
            found = answers.answers.add(id=self.requests[row].id)
            found.get.rows.add().cells.add(family=b"f", qualifier=b"q", value=row)
        return frame(ANSWERS, answers.SerializeToString())

    def close(self) -> None:
        self.connection.close()
        self.connection._channel.close()  # A test may have left it to a reader that is gone.
        self.socket.close()


class Call:
    """A get in a thread of its own; the row is a name."""

    def __init__(self, server: DirectServer, row: bytes, timeout_s: float = LONG_S, padding: int = 0) -> None:
        self.row = row
        self._connection = server.connection
        self.request: Request = point.get("t", [row, *([b"x" * padding] if padding else [])], None)
        self._timeout_s = timeout_s
        self._done: Future[bool] = Future()
        self.thread = threading.Thread(target=self._run, name=f"call {row!r}")
        self.thread.start()

    def _run(self) -> None:
        try:
            self._done.set_result(self._connection.call(self.request, 1, time.monotonic() + self._timeout_s))
        except BaseException as error:
            self._done.set_exception(error)

    def ended(self) -> bytes | None:
        """Waits for the end; returns the value that was answered, None if there was no answer in time."""
        was_sent = self._done.result(LONG_S)
        self.thread.join()
        assert was_sent, "the connection was over"
        if self.request.failure is not None:
            raise self.request.failure
        return self.request.answer.get.rows[0].cells[0].value if self.request.answer is not None else None

    @property
    def is_reader(self) -> bool:
        return self._connection._reader is self.request

    @property
    def is_done(self) -> bool:
        return self._done.done()
