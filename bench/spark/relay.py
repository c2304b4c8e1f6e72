"""A TCP relay that counts the bytes that pass through it: what really leaves a server, whoever asked."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

_CHUNK_BYTES = 1 << 18


class Relay:
    """Listens on loopback and passes every connection on to the server, as a context manager. Thread-safe.

    The address is there at once, the server's may be told later: a server must know at its start where its clients
    find it.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._server: tuple[str, int] | None = None
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._sent_bytes = 0
        self._sockets: list[socket.socket] = []

    def begin(self, server: str) -> None:
        """Passes connections on to that HOST:PORT from now on."""
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent_bytes(self) -> int:
        """What the server has sent to its clients so far."""
        with self._lock:
            return self._sent_bytes

    def _accept(self) -> None:
        assert self._server is not None, "the relay was begun without a server"
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_counted: bool) -> None:
        with suppress(OSError):  # either side may vanish, and the other is told
            while chunk := source.recv(_CHUNK_BYTES):
                if is_counted:
                    with self._lock:
                        self._sent_bytes += len(chunk)
                sink.sendall(chunk)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A thread that waits in accept is not woken by close alone.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
