"""What a direct connection sends. Answers collect here while the transport still holds earlier bytes.

The transport passes bytes to the system at once, as long as the client reads. What the system does not take stays in
the transport, and then in this object. The ledger counts both, and the connection begins no request while they are too
many. So an answer costs the ledger nothing unless its client is slow.
"""

from __future__ import annotations

import asyncio
import threading

from rowlock_proto.direct_frames import ANSWERS, HEAD, frame

from rowlock_regionserver.config import MIB
from rowlock_regionserver.ledger import Account, Holding
from rowlock_regionserver.memory_plan import ANSWER_COST

# Answers are joined up to this size; a larger one is a frame of its own.
ANSWERS_BYTES_MAX = 1 * MIB


class Outgoing:
    """The encoded answers of one connection, which concatenate to one message. Used on the loop unless noted."""

    __slots__ = (
        "_account",
        "_answers",
        "_blocked_bytes",
        "_body_bytes_max",
        "_frame",
        "_holding",
        "_reserved_bytes",
        "_reserved_lock",
        "_transport",
        "_waiting_bytes",
        "is_blocked",
        "is_closed",
    )

    def __init__(self, account: Account, body_bytes_max: int) -> None:
        self._account = account
        self._holding = Holding(account)
        self._body_bytes_max = min(body_bytes_max, ANSWERS_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] = []
        self._waiting_bytes = 0
        # A frame that is not an answer; the next one replaces it.
        self._frame = b""
        # Whether the transport holds bytes, and how many.
        self.is_blocked = False
        self._blocked_bytes = 0
        self.is_closed = False
        self._reserved_lock = threading.Lock()
        # Guarded by self._reserved_lock:
        self._reserved_bytes = 0

    def set_transport(self, transport: asyncio.Transport) -> None:
        """Sets the transport, which from now on reports by `block` and `unblock` whether it holds any byte."""
        transport.set_write_buffer_limits(high=0)
        self._transport = transport

    @property
    def unread_bytes(self) -> int:
        """The bytes that wait here or in the transport, or are reserved. From any thread."""
        return self._waiting_bytes + self._blocked_bytes + self._reserved_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the system has taken all bytes."""
        return self.is_closed or not (self._answers or self._frame or self.is_blocked)

    @property
    def blocked_bytes(self) -> int:
        """The bytes that the transport holds now."""
        return self._transport.get_write_buffer_size() if self._transport is not None and not self.is_closed else 0

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        """Counts an answer that will be added. From any thread.

        With `must_fit`, returns False if all answers together would exceed their bound.
        """
        if not must_fit:
            self._account.add(ANSWER_COST * byte_count)
        elif not self._account.try_take(ANSWER_COST * byte_count):
            return False
        with self._reserved_lock:
            self._reserved_bytes += byte_count
        return True

    def release(self, byte_count: int) -> None:
        """Cancels a reservation, because the answer is added next."""
        with self._reserved_lock:
            self._reserved_bytes -= byte_count
        self._account.give(ANSWER_COST * byte_count)

    def add(self, answer: bytes) -> None:
        """Appends an answer; `flush` must follow soon."""
        if not self.is_closed:
            self._answers.append(answer)
            self._waiting_bytes += len(answer)

    def set_frame(self, kind: int, body: bytes) -> None:
        """Sends a frame before the next answers, in place of an earlier one that waits; `flush` must follow soon."""
        if not self.is_closed:
            self._frame = frame(kind, body)

    def flush(self) -> None:
        """Passes everything to the transport, until it is blocked."""
        while not self.is_blocked and (self._frame or self._answers):
            if self._frame:
                data, self._frame = self._frame, b""
            else:
                body = self._next_body()
                data = HEAD.pack(len(body) + 1, ANSWERS) + body
                del body
            assert self._transport is not None
            self._transport.write(data)
        if self.is_blocked or self._holding.byte_count:
            self._count()

    def _next_body(self) -> bytes:
        answers = self._answers
        if self._waiting_bytes <= self._body_bytes_max:
            self._answers = []
            self._waiting_bytes = 0
            return answers[0] if len(answers) == 1 else b"".join(answers)
        count, byte_count = 0, 0
        while count < len(answers) and (not count or byte_count + len(answers[count]) <= self._body_bytes_max):
            byte_count += len(answers[count])
            count += 1
        self._answers = answers[count:]
        self._waiting_bytes -= byte_count
        return b"".join(answers[:count])

    def block(self) -> None:
        """Notes that the transport holds bytes, which the system did not take."""
        self.is_blocked = True

    def unblock(self) -> None:
        """Notes that the system has taken all bytes of the transport; `flush` must follow."""
        self.is_blocked = False

    def _count(self) -> None:
        """Counts what waits in the ledger."""
        self._blocked_bytes = self.blocked_bytes if self.is_blocked else 0
        self._holding.set(ANSWER_COST * (self._waiting_bytes + self._blocked_bytes) if self.is_blocked else 0)

    def close(self) -> None:
        """Drops everything that waits, and all later answers."""
        self.is_closed = True
        self.is_blocked = False
        self._answers.clear()
        self._frame = b""
        self._waiting_bytes = self._blocked_bytes = 0
        self._holding.set(0)
