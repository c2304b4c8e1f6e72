"""A TCP proxy that drops bytes or whole connections on request."""

from __future__ import annotations

import contextlib
import socket
import threading


class LossyProxy:
    """A proxy of one server. Thread-safe."""

    def __init__(self) -> None:
        self._target = ("", 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._connections: list[tuple[socket.socket, socket.socket]] = []
        self._swallowing = False
        self._delay_seconds = 0.0
        self._vanished: set[socket.socket] = set()
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def stand_before(self, server: str) -> None:
        """Sends new connections to this host:port."""
        host, port = server.rsplit(":", 1)
        self._target = (host, int(port))

    def swallow_answers(self) -> None:
        """Drops the server's bytes from now on, until the next cut."""
        with self._lock:
            self._swallowing = True

    def begin_late(self, seconds: float) -> None:
        """Delays the server's first bytes on each new connection."""
        with self._lock:
            self._delay_seconds = seconds

    def vanish(self) -> None:
        """Stops forwarding on the existing connections, which stay open. New ones work."""
        with self._lock:
            self._vanished.update(end for pair in self._connections for end in pair)

    def cut(self) -> None:
        """Closes all connections. New ones work."""
        with self._lock:
            connections, self._connections = self._connections, []
            self._swallowing = False
        for pair in connections:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._is_closed:
                    client.close()
                    server.close()
                    return
                self._connections.append((client, server))
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answers: bool) -> None:
        with contextlib.suppress(OSError):
            if is_answers:
                threading.Event().wait(self._delay_seconds)
            while data := source.recv(1 << 16):
                with self._lock:
                    is_lost = (is_answers and self._swallowing) or source in self._vanished
                if not is_lost:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
