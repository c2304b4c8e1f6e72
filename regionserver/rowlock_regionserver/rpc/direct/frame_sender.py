"""Sends large frames on a socket that does not block, without copying or joining their bodies.

A transport of asyncio would copy what the system does not take at once. So this sends past the transport, by a
descriptor of its own; the transport sends nothing meanwhile.

The thread that makes a frame sends it. If the client does not take it within a moment, the event loop sends the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

from rowlock_proto.direct_frames import HEAD
from rowlock_proto.sent_parts import send_some

from rowlock_regionserver.config import MIB
from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.ledger import Account, Holding

# Of a Unix socket: as much as a batch, so that the next one is made while the client takes it. Over TCP the system
# finds the size.
UNIX_BUFFER_BYTES = 2 * MIB
# How long a thread waits for a client to take a frame. One that reads takes it in less, and threads are few.
_PATIENCE_SECONDS = 0.005


class FrameSender:
    """Used on the event loop; `send_now` from any thread. After `close` it drops everything."""

    def __init__(self, connected: socket.socket, account: Account, when_lost: Callable[[], None]) -> None:
        """when_lost: called when the client is gone, perhaps by `send`."""
        self._socket = connected.dup()
        if connected.family == socket.AF_UNIX:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES)
        self._when_lost = when_lost
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()  # of `send_now` and `close`: no thread uses a closed descriptor
        self._unsent: list[memoryview] = []
        self._left = Holding(account)
        self._is_waiting = False  # for the system to take more
        self._left_rest = False  # by the last `send_now`
        self._all_sent: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the system has not taken."""
        return sum(map(len, self._unsent))

    def send(self, kind: int, body: EncodedMessage) -> None:
        """Sends a frame, after earlier ones."""
        if not self._is_closed:
            self._unsent += _parts(kind, body)
            self._send_on()

    def send_now(self, kind: int, body: EncodedMessage) -> bool:
        """Sends a frame from any thread, while nobody else sends; returns whether the system has taken it whole.

        Waits a moment for that, unless the client has left a rest of the last one, too. `send_rest` sends the rest.
        Returns False after `close`.
        """
        parts = _parts(kind, body)
        give_up_at = time.monotonic() + (0 if self._left_rest else _PATIENCE_SECONDS)
        self._left_rest = True
        while True:
            with self._lock:
                if self._is_closed:
                    return False
                self._unsent = parts
                try:
                    self._send_some()
                except OSError:
                    return False  # `send_rest` meets it, too.
                if not parts:
                    self._left_rest = False
                    return True
                descriptor = self._socket.fileno()
            seconds_left = give_up_at - time.monotonic()
            if seconds_left <= 0:
                return False
            # Closed meanwhile, the descriptor may be another one's: then the wait is for nothing.
            writable = select.poll()
            writable.register(descriptor, select.POLLOUT)
            writable.poll(1000 * seconds_left)

    def send_rest(self) -> asyncio.Future[None] | None:
        """Continues sending. Returns a future: done when the system has taken everything, or the connection is closed.

        Returns None if it has already. For one caller at a time.
        """
        if not self._unsent:
            return None
        self._all_sent = self._loop.create_future()
        self._send_on()
        return self._all_sent

    def keep_unsent(self) -> None:
        """Keeps a copy of what is not sent yet, and counts it in the ledger, because nobody else does any more.

        The parts of a body may keep alive much more than their own bytes.
        """
        if self._unsent:
            rest = b"".join(self._unsent)
            self._unsent = [memoryview(rest)]
            self._left.set(len(rest))

    def _send_on(self) -> None:
        """Sends on, or when the system takes more."""
        if not self._is_waiting:
            self._send_what_fits()

    def _send_what_fits(self) -> None:
        try:
            self._send_some()
        except OSError:
            self._lose()
            return
        if self._unsent and not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket.fileno(), self._send_what_fits)
        elif not self._unsent:
            self._left.set(0)
            self._stop_waiting()

    def _send_some(self) -> None:
        """Sends as much as the system takes now. Raises OSError if the client is gone."""
        with contextlib.suppress(BlockingIOError):
            send_some(self._socket, self._unsent)

    def _lose(self) -> None:
        if not self._is_closed:
            self.close()
            self._when_lost()

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())
        if self._all_sent is not None and not self._all_sent.done():
            self._all_sent.set_result(None)

    def close(self) -> None:
        """Drops what is not sent, and closes the descriptor; the transport closes the connection. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._unsent = []
        self._left.set(0)
        self._stop_waiting()
        self._socket.close()


def _parts(kind: int, body: EncodedMessage) -> list[memoryview]:
    """Returns the parts of a frame."""
    parts = [memoryview(HEAD.pack(len(body) + 1, kind))]
    if body:
        parts += map(memoryview, [body] if isinstance(body, bytes) else body.parts)
    return parts
