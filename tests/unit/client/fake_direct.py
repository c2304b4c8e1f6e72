"""The direct port of the server in memory: it reads frames, and its owner decides what each request meets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from rowlock_proto.direct_frames import ANSWERS, HELLO, PING, PONG, PREAMBLE, REQUESTS, FrameReader, frame
from rowlock_proto.v1 import direct_pb2, region_pb2

# Takes a message, returns its answers, and whether the connection goes on.
Meet = Callable[[region_pb2.PointRequests], tuple[region_pb2.PointAnswers, bool]]


class FakeDirect:
    """Listens on a port of its own, or on a Unix socket; a thread for each connection."""

    def __init__(self, meet: Meet, welcome: Callable[[], direct_pb2.DirectWelcome], path: str = "") -> None:
        self._meet = meet
        self._welcome = welcome
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._connections: list[socket.socket] = []
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
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        self.may_read.set()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()

    def cut(self) -> None:
        """Ends the connections that there are."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

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
            goes_on = True
            while goes_on:
                while (found := reader.next()) is None:
                    assert reader.error is None, reader.error
                    if reader.large_bytes:
                        reader.begin_large()
                    self.may_read.wait()
                    count = connection.recv_into(reader.room())
                    if not count:
                        return
                    reader.received(count)
                goes_on = self._take(connection, *found)
            connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._connections.remove(connection)

    def _take(self, connection: socket.socket, kind: int, body: bytes | bytearray) -> bool:
        if kind == HELLO:
            connection.sendall(PREAMBLE + frame(HELLO, self._welcome().SerializeToString()))
            return True
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
