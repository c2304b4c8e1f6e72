"""Connections for scans, and those that are kept for the next scans of the same server; of both faces, nothing waits.

A connection is kept when its scan has ended and nothing is left to be read. It is used again unless something has come
on it meanwhile, its end for instance. A server closes one that nobody uses for a minute, so clients do so earlier.
"""

from __future__ import annotations

import contextlib
import socket
import time

from rowlock_proto.direct_frames import SCAN_END

from rowlock._core.direct import Announcement
from rowlock._transport.direct_socket import OpenSocket

KEPT_COUNT_MAX = 4
KEPT_S_MAX = 30.0


class KeptSocketLostError(Exception):
    """A kept connection was lost before anything had come on it: begin the scan again on another one."""


class ScanSocket:
    """A connection for one scan after another. is_kept: an earlier scan has used it.

    target: where it goes, for messages. announcement: of its server.
    """

    __slots__ = ("announcement", "is_kept", "kept_at", "reader", "socket", "target")

    def __init__(self, opened: OpenSocket, target: str, announcement: Announcement) -> None:
        self.socket = opened.socket
        self.reader = opened.reader
        self.target = target
        self.announcement = announcement
        self.is_kept = False
        self.kept_at = 0.0

    def has_ended(self) -> bool:
        """Whether the end of the scan has come behind what was read: a client with a limit may leave before it."""
        reader = self.reader
        try:
            if not reader.has_bytes:
                reader.received(self.socket.recv_into(reader.room()))
            return reader.next() == (SCAN_END, b"") and not reader.has_bytes
        except OSError:
            return False

    def is_quiet(self) -> bool:
        """Whether nothing has come: no end, no error, no byte."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Ends the connection, also if another process has a copy of the socket."""
        with contextlib.suppress(OSError):  # The server has closed it.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class KeptSockets:
    """The kept connections of one server. Thread-safe without a lock, because each method of a list is atomic."""

    def __init__(self) -> None:
        self._kept: list[ScanSocket] = []  # the newest last
        self._is_closed = False

    def keep(self, left: ScanSocket) -> None:
        """Takes a connection whose scan has ended. The object that was its `socket` is as good as closed from here on.

        Closes the oldest if there are too many.
        """
        before = left.socket
        left.socket = socket.socket(before.family, before.type, before.proto, fileno=before.detach())
        left.socket.setblocking(False)
        left.is_kept = True
        left.kept_at = time.monotonic()
        self._kept.append(left)
        if self._is_closed:
            self.drop()
        elif len(self._kept) > KEPT_COUNT_MAX and (oldest := self._popped(0)) is not None:
            oldest.close()

    def take(self, announcement: Announcement) -> ScanSocket | None:
        """Returns a connection to the run of the server that has announced this. Closes those that are of no use."""
        while (kept := self._popped()) is not None:
            is_young = time.monotonic() - kept.kept_at < KEPT_S_MAX
            if is_young and kept.announcement == announcement and kept.is_quiet():
                return kept
            kept.close()
        return None

    def drop(self) -> None:
        """Closes all of them."""
        while (kept := self._popped()) is not None:
            kept.close()

    def close(self) -> None:
        """Closes all of them, and those that come later."""
        self._is_closed = True
        self.drop()

    def forget(self) -> None:
        """Closes this process's copies of the parent's sockets, in the child of a fork."""
        self._is_closed = True
        while (kept := self._popped()) is not None:
            kept.socket.close()

    def _popped(self, at: int = -1) -> ScanSocket | None:
        try:
            return self._kept.pop(at)
        except IndexError:
            return None

    def __del__(self) -> None:
        self.drop()
