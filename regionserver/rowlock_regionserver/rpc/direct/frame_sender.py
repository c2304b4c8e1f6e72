"""Sends large frames on a socket that does not block, without copying or joining their bodies.

A transport of asyncio would copy what the system does not take at once. So this sends past the transport, by a
descriptor of its own; the transport sends nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from rowlock_proto.direct_frames import HEAD

from rowlock_regionserver.config import MIB
from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.ledger import Account, Holding

# Of a Unix socket: as much as a batch, so that the event loop need not come back to it several times. Over TCP the
# system finds the size.
UNIX_BUFFER_BYTES = 1 * MIB
# The system takes at most this many at once.
_PARTS_MAX = 1024


class FrameSender:
    """Used on the event loop. After `close` it drops everything."""

    def __init__(self, connected: socket.socket, account: Account, when_lost: Callable[[], None]) -> None:
        """when_lost: called when the client is gone, perhaps by `send`."""
        self._socket = connected.dup()
        if connected.family == socket.AF_UNIX:
            with contextlib.suppress(OSError):  # The system has a lower limit.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES)
        self._when_lost = when_lost
        self._loop = asyncio.get_running_loop()
        self._unsent: list[memoryview] = []
        self._left = Holding(account)
        self._is_waiting = False  # for the system to take more
        self._all_sent: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the system has not taken."""
        return sum(map(len, self._unsent))

    def send(self, kind: int, body: EncodedMessage) -> None:
        """Sends a frame, after earlier ones."""
        if not self._is_closed:
            self._unsent.append(memoryview(HEAD.pack(len(body) + 1, kind)))
            if body:
                self._unsent += map(memoryview, [body] if isinstance(body, bytes) else body.parts)
            if not self._is_waiting:
                self._send_on()

    def sent(self) -> asyncio.Future[None] | None:
        """Returns what ends when the system has taken everything, or the connection is closed; None: it has already.

        For one caller at a time.
        """
        if not self._unsent:
            return None
        self._all_sent = self._loop.create_future()
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
        try:
            sent = self._socket.sendmsg(self._unsent[:_PARTS_MAX])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            self._when_lost()
            return
        self._drop_sent(sent)
        if self._unsent and not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket.fileno(), self._send_on)
        elif not self._unsent:
            self._left.set(0)
            self._stop_waiting()

    def _drop_sent(self, byte_count: int) -> None:
        unsent = self._unsent
        while byte_count:
            first = unsent[0]
            if byte_count < len(first):
                unsent[0] = first[byte_count:]
                return
            byte_count -= len(first)
            del unsent[0]

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())
        if self._all_sent is not None and not self._all_sent.done():
            self._all_sent.set_result(None)

    def close(self) -> None:
        """Drops what is not sent, and closes the descriptor; the transport closes the connection. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._unsent = []
            self._left.set(0)
            self._stop_waiting()
            self._socket.close()
