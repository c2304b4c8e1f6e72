"""Encoded messages of scans: bytes, or parts that need not be joined before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

Part: TypeAlias = bytes | bytearray | pa.Buffer


@dataclass(frozen=True, slots=True)
class MessageParts:
    """The parts of a message, none empty, which follow one another. Immutable.

    They may be slices of larger memory, which they keep alive. `bytes_held` counts all of it.
    """

    parts: Sequence[Part]
    byte_count: int
    bytes_held: int

    def __len__(self) -> int:
        return self.byte_count


EncodedMessage: TypeAlias = bytes | MessageParts


def joined(message: EncodedMessage) -> bytes:
    """Returns the message as bytes."""
    return message if isinstance(message, bytes) else b"".join(message.parts)


def bytes_held(message: EncodedMessage) -> int:
    """Returns the memory that the message keeps alive."""
    return len(message) if isinstance(message, bytes) else message.bytes_held


def bytes_beyond(message: EncodedMessage) -> int:
    """Returns the memory that the message keeps alive beside its own bytes."""
    return bytes_held(message) - len(message)
