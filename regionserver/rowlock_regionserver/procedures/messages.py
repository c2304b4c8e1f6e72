"""Messages between the server and the process of a procedure, over a stream socket.

    length u32 of what follows, kind u8, then for each field: length u32, bytes

A length of 2**32 - 1 is an absent field. Integers are big-endian; numbers in fields are decimal digits.

    from the server   CALL     call number, procedure, table, row, argument
                      CELLS    family, qualifier, value of each cell: the answer to READ
                      REFUSED  why: the answer to a READ that fails
    from the process  READY    it has imported its procedures
                      READ     call number, then family and qualifier (absent: the whole family) of each; none: the row
                      DONE     call number, row, answer, then kind, family, qualifier, value of each change
                      FAILED   call number, why

One CALL is followed by any number of READs, and then by DONE or FAILED. The server trusts the operator's code with the
data of one row, but not to be right: a message that makes no sense ends the process and fails the call.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Callable, Sequence

_HEAD = struct.Struct(">IB")
_LENGTH = struct.Struct(">I")
_ABSENT = (1 << 32) - 1

Field = bytes | None


class MessageKind(enum.IntEnum):
    """What a message says."""

    CALL = 1
    CELLS = 2
    REFUSED = 3
    READY = 4
    READ = 5
    DONE = 6
    FAILED = 7


_KINDS = frozenset(map(int, MessageKind))


class ChangeKind(bytes, enum.Enum):
    """What one change in a DONE message does."""

    PUT = b"p"
    DELETE_COLUMN = b"d"
    DELETE_FAMILY = b"f"
    DELETE_ROW = b"r"


class BadMessageError(Exception):
    """The other side sent something that is not a message, or not one that may come now."""


class TooLongError(Exception):
    """A message has more bytes than the receiver takes."""

    def __init__(self, byte_count: int) -> None:
        super().__init__(f"a message of {byte_count} bytes")
        self.byte_count = byte_count


def _no_deadline() -> float | None:
    return None


class Channel:
    """One end of the socket. Not thread-safe."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(
        self, kind: MessageKind, fields: Sequence[Field], remaining: Callable[[], float | None] = _no_deadline
    ) -> None:
        """Sends a message. `remaining`: the seconds left, None for no limit. Raises TimeoutError, ConnectionError."""
        parts = [b""]
        for field in fields:
            if field is None:
                parts.append(_LENGTH.pack(_ABSENT))
            else:
                parts += (_LENGTH.pack(len(field)), field)
        parts[0] = _HEAD.pack(1 + sum(map(len, parts)), kind)
        self._limit_time(remaining)
        self._socket.sendall(b"".join(parts))

    def receive(
        self, bytes_max: int | None = None, remaining: Callable[[], float | None] = _no_deadline
    ) -> tuple[MessageKind, list[Field]]:
        """Returns the next message. `remaining`: as in `send`.

        Raises EOFError when the other side is gone, TooLongError, BadMessageError, TimeoutError, ConnectionError.
        """
        length, number = _HEAD.unpack(self._receive_exactly(_HEAD.size, remaining))
        if bytes_max is not None and length > bytes_max:
            raise TooLongError(length)
        if not length or number not in _KINDS:
            raise BadMessageError(f"a message of kind {number} and {length} bytes")
        return MessageKind(number), _fields(self._receive_exactly(length - 1, remaining))

    def close(self) -> None:
        self._socket.close()

    def _receive_exactly(self, count: int, remaining: Callable[[], float | None]) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._limit_time(remaining)
            some = self._socket.recv(min(count - len(received), 1 << 20))
            if not some:
                raise EOFError
            received += some
        return bytes(received)

    def _limit_time(self, remaining: Callable[[], float | None]) -> None:
        seconds = remaining()
        if seconds is not None and seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds)


def _fields(body: bytes) -> list[Field]:
    fields: list[Field] = []
    position = 0
    while position < len(body):
        if position + _LENGTH.size > len(body):
            raise BadMessageError("a field without its length")
        (length,) = _LENGTH.unpack_from(body, position)
        position += _LENGTH.size
        if length == _ABSENT:
            fields.append(None)
            continue
        if position + length > len(body):
            raise BadMessageError(f"a field of {length} bytes in a message that ends before")
        fields.append(body[position : position + length])
        position += length
    return fields
