"""Sockets for scans and bulk batches, and those kept for later ones. Used by both faces; nothing here blocks.

A connection is kept after the last row of a scan, or the last answer to a batch. It is used again only if the end of
the scan has come and nothing after it. A server closes one that nobody uses for a minute, so clients do so earlier.
"""

from __future__ import annotations

import contextlib
import socket
import time

from rowlock_proto.direct_frames import SCAN_END

from rowlock._core.direct import Announcement, Purpose
from rowlock._core.direct_choice import StreamChoice
from rowlock._transport.direct_socket import OpenSocket, peeked

KEPT_COUNT_MAX = 4
KEPT_S_MAX = 30.0


class KeptSocketLostError(Exception):
    """A kept connection was lost before anything had come on it: begin again on another one."""


class StreamSocket:
    """A connection for one scan, or one stream of bulk batches, after another. is_kept: an earlier one has used it.

    is_ending: the end of that scan was not read. target: where it goes, for messages. announcement: of its server.
    body_bytes_max: the server's limit.
    """

    __slots__ = ("announcement", "body_bytes_max", "is_ending", "is_kept", "kept_at", "reader", "socket", "target")

    def __init__(self, opened: OpenSocket, target: str, announcement: Announcement) -> None:
        self.socket = opened.socket
        self.reader = opened.reader
        self.body_bytes_max = opened.body_bytes_max
        self.target = target
        self.announcement = announcement
        self.is_kept = self.is_ending = False
        self.kept_at = 0.0

    def is_ready(self) -> bool:
        """Whether the last scan has ended and nothing has come since: no end of the connection, no error, no byte."""
        try:
            if self.is_ending and not self._has_ended():
                return False
        except OSError:
            return False
        return peeked(self.socket) is None

    def _has_ended(self) -> bool:
        reader = self.reader
        if not reader.has_bytes:
            reader.received(self.socket.recv_into(reader.room()))
        self.is_ending = reader.next() != (SCAN_END, b"") or reader.has_bytes
        return not self.is_ending

    def close(self) -> None:
        """Ends the connection, also if another process has a copy of the socket."""
        with contextlib.suppress(OSError):  # The server has closed it.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def __del__(self) -> None:
        # Its stream or its client was dropped, or an interruption came before it had either.
        self.socket.close()


class KeptSockets:
    """The kept connections of one server for one purpose.

    Thread-safe without a lock, because each method of a list is atomic.
    """

    def __init__(self) -> None:
        self._kept: list[StreamSocket] = []  # the newest last
        self._is_closed = False

    def keep(self, left: StreamSocket, *, is_ending: bool) -> None:
        """Takes a connection whose stream has ended. The object that was its `socket` is as good as closed after that.

        Closes the oldest ones if they are too many, or too old for `take`.
        """
        before = left.socket
        left.socket = socket.socket(before.family, before.type, before.proto, fileno=before.detach())
        left.socket.setblocking(False)
        left.is_kept, left.is_ending = True, is_ending
        left.kept_at = time.monotonic()
        self._kept.append(left)
        if self._is_closed:
            self.drop()
        while self._has_surplus(left.kept_at) and (oldest := self._popped(0)) is not None:
            oldest.close()

    def _has_surplus(self, now: float) -> bool:
        kept = self._kept[:]
        return len(kept) > KEPT_COUNT_MAX or (bool(kept) and now - kept[0].kept_at >= KEPT_S_MAX)

    def take(self, announcement: Announcement) -> StreamSocket | None:
        """Returns a connection to the run of the server that has announced this. Closes those that are of no use."""
        while (kept := self._popped()) is not None:
            is_young = time.monotonic() - kept.kept_at < KEPT_S_MAX
            if is_young and kept.announcement == announcement and kept.is_ready():
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

    def _popped(self, at: int = -1) -> StreamSocket | None:
        try:
            return self._kept.pop(at)
        except IndexError:
            return None


class Streams:
    """The scans of one server, or its streams of bulk batches: how many go which way, and the kept connections."""

    __slots__ = ("choice", "connection_count", "direct_count", "grpc_count", "kept", "purpose")

    def __init__(self, purpose: Purpose, choice: StreamChoice) -> None:
        self.purpose = purpose
        self.choice = choice
        self.kept = KeptSockets()
        self.direct_count = self.grpc_count = self.connection_count = 0

    def lost_kept(self) -> None:
        """Takes back the count of a stream that begins again on another connection, because its own was lost.

        The other kept ones may be lost, too.
        """
        self.direct_count -= 1
        self.kept.drop()
