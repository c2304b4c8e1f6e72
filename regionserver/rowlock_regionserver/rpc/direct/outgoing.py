"""What a direct connection sends. Answers collect here while the transport still holds earlier bytes.

The transport passes bytes to the system at once, as long as the client reads. What the system does not take stays in
the transport, and then in this object. The ledger counts both, and the connection begins no request while they are too
many. So an answer costs the ledger nothing unless its client is slow.
"""

from __future__ import annotations

import asyncio

from rowlock_proto.direct_frames import ANSWERS, HEAD, frame

from rowlock_regionserver.config import MIB
from rowlock_regionserver.ledger import Account, Holding
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.rpc.waiting_answers import WaitingAnswers

# Answers are joined up to this size; a larger one is a frame of its own.
ANSWERS_BYTES_MAX = 1 * MIB


class Outgoing:
    """The encoded answers of one connection, which concatenate to one message. Used on the loop unless noted."""

    __slots__ = (
        "_blocked_bytes",
        "_body_bytes_max",
        "_frame",
        "_holding",
        "_transport",
        "answers",
        "is_blocked",
        "is_closed",
    )

    def __init__(self, account: Account, body_bytes_max: int) -> None:
        self._holding = Holding(account)
        self._body_bytes_max = min(body_bytes_max, ANSWERS_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self.answers = WaitingAnswers(account)
        # A frame that is not an answer; the next one replaces it.
        self._frame = b""
        # Whether the transport holds bytes, and how many.
        self.is_blocked = False
        self._blocked_bytes = 0
        self.is_closed = False

    def set_transport(self, transport: asyncio.Transport) -> None:
        """Sets the transport, which from now on reports by `block` and `unblock` whether it holds any byte."""
        transport.set_write_buffer_limits(high=0)
        self._transport = transport

    @property
    def unread_bytes(self) -> int:
        """The bytes that wait here or in the transport, or are reserved. From any thread."""
        return self.answers.bytes_with_reserved + self._blocked_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the system has taken all bytes."""
        return self.is_closed or not (self.answers.byte_count or self._frame or self.is_blocked)

    @property
    def blocked_bytes(self) -> int:
        """The bytes that the transport holds now."""
        return self._transport.get_write_buffer_size() if self._transport is not None and not self.is_closed else 0

    def add(self, answer: bytes) -> None:
        """Appends an answer; `flush` must follow soon."""
        if not self.is_closed:
            self.answers.add(answer)

    def set_frame(self, kind: int, body: bytes) -> None:
        """Sends a frame before the next answers, in place of an earlier one that waits; `flush` must follow soon."""
        if not self.is_closed:
            self._frame = frame(kind, body)

    def flush(self) -> None:
        """Passes everything to the transport, until it is blocked."""
        while not self.is_blocked and (self._frame or self.answers.byte_count):
            if self._frame:
                data, self._frame = self._frame, b""
            else:
                body = self.answers.next_message(self._body_bytes_max)
                data = HEAD.pack(len(body) + 1, ANSWERS) + body
                del body
            assert self._transport is not None
            self._transport.write(data)
        if self.is_blocked or self._holding.byte_count:
            self._count()

    def block(self) -> None:
        """Notes that the transport holds bytes, which the system did not take."""
        self.is_blocked = True

    def unblock(self) -> None:
        """Notes that the system has taken all bytes of the transport; `flush` must follow."""
        self.is_blocked = False

    def _count(self) -> None:
        """Counts what waits in the ledger."""
        self._blocked_bytes = self.blocked_bytes if self.is_blocked else 0
        self._holding.set(ANSWER_COST * (self.answers.byte_count + self._blocked_bytes) if self.is_blocked else 0)

    def close(self) -> None:
        """Drops everything that waits, and all later answers."""
        self.is_closed = True
        self.is_blocked = False
        self.answers.clear()
        self._frame = b""
        self._blocked_bytes = 0
        self._holding.set(0)
