"""A TCP relay that counts the bytes that a server sends to all its clients."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

_CHUNK_BYTES = 1 << 18


class Relay:
    """Listens on loopback and forwards every connection to the server, as a context manager. Thread-safe.

    The relay's address is known before the server's, because the server needs at its start the address to advertise.
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
        """Starts forwarding connections to the server's HOST:PORT."""
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent_bytes(self) -> int:
        """The bytes that the server has sent to its clients so far."""
        with self._lock:
            return self._sent_bytes

    def _accept(self) -> None:
        assert self._server is not None, "the relay was started without a server"
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
            threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_counted: bool) -> None:
        with suppress(OSError):  # when one side disconnects, the other is shut down
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
        # close() alone does not wake a thread that waits in accept().
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
