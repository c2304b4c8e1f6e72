"""Cells as a read finds them: a value that is large, or not needed yet, may be away.

An AwayValue replaces it, which has its length and loads it on demand. So the code that decides by keys which cells are
visible never holds the values of other cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rowlock_regionserver.cells import Cell

# More cells, or bytes, than can exist.
NO_LIMIT = 1 << 62

# Values up to this are never away: reading one later costs more than holding it.
AWAY_BYTES_MIN = 64 * 1024


class AwayValue:
    """A value that was not read with its cell. Each call of `load` reads it; it may block on a disk."""

    __slots__ = ("byte_count", "load")

    def __init__(self, byte_count: int, load: Callable[[], bytes]) -> None:
        self.byte_count = byte_count
        self.load = load

    def __len__(self) -> int:
        return self.byte_count

    def __lt__(self, other: object) -> bool:
        """Cells are sorted as tuples. Two that differ only in the value, which may be away, are the same cell."""
        return False

    __gt__ = __lt__


# A cell as a point read finds it: (qualifier, -timestamp, -write_number, kind, value); see cells.Cell.
FoundCell = tuple[bytes, int, int, int, bytes | AwayValue]


# For rules that apply to cells with values and to cells with away values.
AnyCell = TypeVar("AnyCell", Cell, FoundCell)

# A cell of an answer whose value may be away: (family, qualifier, timestamp, value); see operations.AnswerCell.
FoundAnswer = tuple[bytes, bytes, int, bytes | AwayValue]


class FoundLine(NamedTuple):
    """All cells of a row that is one line: a put of each column, all of one timestamp and write number."""

    qualifiers: tuple[bytes, ...]  # ascending
    timestamp: int
    write_number: int
    values: list[bytes]


def loaded(value: bytes | AwayValue) -> bytes:
    """Returns the value; loads it if it is away."""
    return value if isinstance(value, bytes) else value.load()


class LongRowError(Exception):
    """A row has more cells than the reader wanted to take at once; it reads the row in parts instead."""
