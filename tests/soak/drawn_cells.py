"""Random cells: what writers put and delete, as Arrow data and in the model."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tests.soak.model import UNKNOWN, VERSIONS

QUALIFIERS = (b"a", b"b", b"c")
_TIMESTAMPS = 60  # of family g: few, so that writes meet


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """A change of one cell. value: None deletes. timestamp: None is the server's."""

    row: bytes
    column: bytes
    value: bytes | None
    timestamp: int | None


class CellsModel(Protocol):
    """A model of one slice or of several."""

    def put(self, row: bytes, column: bytes, value: bytes, timestamp: int = UNKNOWN) -> None: ...

    def delete(self, row: bytes, target: bytes | None, timestamp: int | None = None) -> None: ...

    def delete_rows(self, start: bytes, stop: bytes) -> None: ...


class CellDraw:
    """Draws values, columns and timestamps. Used by one thread."""

    def __init__(self, generator: random.Random, time_to_live_ms: int) -> None:
        self._random = generator
        self._time_to_live_ms = time_to_live_ms
        self.bytes_drawn = 0  # of values

    def value(self) -> bytes:
        is_large = self._random.random() < 0.002
        value = self._random.randbytes(20_000 if is_large else self._random.choice([0, 10, 60, 200, 300]))
        self.bytes_drawn += len(value)
        return value

    def column(self, family: bytes) -> bytes:
        return family + b":" + self._random.choice(QUALIFIERS)

    def timestamp(self, family: bytes) -> int:
        """Of a family of several versions: g has few timestamps, e some that have expired."""
        if family == b"g":
            return self._random.randrange(1, _TIMESTAMPS)
        return time.time_ns() // 1_000_000 - self._random.randrange(self._time_to_live_ms * 5 // 4)

    def cell(self, row: bytes, column: bytes, delete_share: float = 0.0) -> DrawnCell:
        """Draws a value, or with this chance a delete, and the timestamp that the family needs."""
        value = None if self._random.random() < delete_share else self.value()
        return DrawnCell(row, column, value, None if VERSIONS[column[:1]] == 1 else self.timestamp(column[:1]))


def arrow_of(cells: Sequence[DrawnCell]) -> pa.Table:
    """Returns the cells as put_arrow and bulk writes take them."""
    return pa.table(
        {
            "row": pa.array([cell.row for cell in cells], pa.binary()),
            "family": pa.array([cell.column[:1] for cell in cells], pa.binary()),
            "qualifier": pa.array([cell.column[2:] for cell in cells], pa.binary()),
            "timestamp": pa.array([cell.timestamp for cell in cells], pa.int64()),
            "value": pa.array([cell.value for cell in cells], pa.binary()),
        }
    )


def apply(cells: Iterable[DrawnCell], model: CellsModel) -> None:
    """Changes the model as the table is changed by these cells, of which no two meet."""
    for cell in cells:
        if cell.value is None:
            model.delete(cell.row, cell.column, cell.timestamp)
        else:
            model.put(cell.row, cell.column, cell.value, UNKNOWN if cell.timestamp is None else cell.timestamp)
