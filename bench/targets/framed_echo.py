"""The client of the raw framed echo: a blocking socket, for one thread, or for many whose requests travel together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import start_module
from bench.targets.framed_echo_server import LENGTH, exchanges


class FramedEcho:
    """One connection. Used by one thread at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = {method: exchange.request for method, exchange in exchanges().items()}

    def exchange(self, method: bytes, count: int = 1) -> bytes:
        """Sends one frame with so many requests of a method (G, P or I), and returns the body of the answer."""
        body = method + self._requests[method] * count
        self._socket.sendall(LENGTH.pack(len(body)) + body)
        [length] = LENGTH.unpack(self._receive(LENGTH.size))
        return self._receive(length)

    def _receive(self, count: int) -> bytes:
        data = self._socket.recv(count)
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the echo server closed the connection")
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


@dataclass(slots=True, eq=False)
class _Waiting:
    """A thread that waits, on a lock that is released when it is answered or must send for the others."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_answered: bool = False


class SharedFramedEcho:
    """One connection for many threads, as rowlock's client has it: requests that wait together travel together.

    One of the threads sends the requests of all that wait, in one frame, and receives their answers. The next of those
    that came meanwhile sends after it.
    """

    def __init__(self, echo: FramedEcho, method: bytes) -> None:
        self._echo, self._method = echo, method
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._waiting: list[_Waiting] = []
        self._has_sender = False
        self._failure: BaseException | None = None

    def exchange(self) -> None:
        """Sends one request and blocks for its answer. Raises the exception of the thread that sent it."""
        mine = _Waiting()
        mine.lock.acquire()
        with self._lock:
            self._raise_failure()
            self._waiting.append(mine)
            sends, self._has_sender = not self._has_sender, True
        if not sends:
            mine.lock.acquire()
        if not mine.is_answered:
            self._send_for_all()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise ConnectionError(f"the echo failed: {self._failure}")

    def _send_for_all(self) -> None:
        with self._lock:
            together, self._waiting = self._waiting, []
        try:
            self._echo.exchange(self._method, len(together))
        except BaseException as failure:
            with self._lock:
                self._failure = failure
                together, self._waiting = together + self._waiting, []
        with self._lock:
            successor = self._waiting[0] if self._waiting else None
            self._has_sender = successor is not None
        for each in together:
            each.is_answered = True
            each.lock.release()
        if successor is not None:
            successor.lock.release()


@contextmanager
def running_framed_echo(folder: Path) -> Iterator[str]:
    """Runs an echo server as a process until exit, and yields its address."""
    with start_module("bench.targets.framed_echo_server", [], folder / "framed-echo.log") as server:
        yield server.address


@contextmanager
def framed_echo(folder: Path) -> Iterator[FramedEcho]:
    """Runs an echo server and connects to it."""
    with running_framed_echo(folder) as address, closing(FramedEcho(address)) as echo:
        yield echo
