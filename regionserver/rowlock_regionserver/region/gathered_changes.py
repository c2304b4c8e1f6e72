"""The cells that a pass over the sources has found for a window of changes, in bounded memory.

Sources are in row order, and a window is the changes with the smallest write numbers. So whenever too many cells were
gathered, those of the greatest numbers are dropped, and `limit` says up to which number the pass still looks. A number
is dropped as a whole. If the smallest number alone has more than `whole_bytes_max`, it is dropped too, as `oversized`:
it has to be read alone, in parts (change_windows.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import KIND as KIND_COLUMN
from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    ROW,
    TIMESTAMP,
    VALUE,
    WRITE_NUMBER,
    Integers,
    Mask,
    column,
    constant_binary_array,
    integers,
    keep,
    offsets,
    single_chunk,
    take,
)
from rowlock_regionserver.cells import CELL_BYTES_BESIDE

_FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("family", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("write_number", pa.int64(), nullable=False),
    pa.field("kind", pa.int8(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]
CHANGE_SCHEMA = pa.schema(_FIELDS)
_NUMBER = 4  # the place of write_number
_NO_CHANGES = pa.Table.from_batches([], schema=CHANGE_SCHEMA)


@dataclass(slots=True)
class _Piece:
    """Some changes, with the number and the bytes of each."""

    table: pa.Table  # CHANGE_SCHEMA
    numbers: Integers
    sizes: Integers


class GatheredChanges:
    """The changes found so far, with numbers up to `limit`. Used by one thread."""

    def __init__(self, limit: int, bytes_max: int, whole_bytes_max: int) -> None:
        assert bytes_max <= whole_bytes_max, (bytes_max, whole_bytes_max)
        self.limit = limit
        self.oversized = 0  # the smallest number, if it has too many cells
        self.byte_count = 0
        self._bytes_max = bytes_max
        self._whole_bytes_max = whole_bytes_max
        self._cut_above = 2 * bytes_max
        self._pieces: list[_Piece] = []

    def add(self, cells: pa.Table, family: bytes) -> None:
        """Adds cells of CELL_SCHEMA, of one family; their numbers are up to `limit`."""
        if not len(cells):
            return
        piece = _piece(cells, family)
        assert int(piece.numbers.max()) <= self.limit, (int(piece.numbers.max()), self.limit)
        self._pieces.append(piece)
        self.byte_count += int(piece.sizes.sum())
        if self.byte_count > self._cut_above:
            self._cut()
            # A single number may stay that has more than a window; each cut is paid for by as many bytes again.
            self._cut_above = 2 * max(self._bytes_max, self.byte_count)

    def changes(self) -> pa.Table:
        """Returns the window in order of write numbers, cells of one number in the order in which they came."""
        if self.byte_count > self._bytes_max:
            self._cut()
        if not self._pieces:
            return _NO_CHANGES
        table = pa.concat_tables([piece.table for piece in self._pieces])
        numbers = np.concatenate([piece.numbers for piece in self._pieces])
        return take(table, np.argsort(numbers, kind="stable"))

    def _cut(self) -> None:
        """Drops the greatest numbers, so that the rest is about a window."""
        numbers = np.concatenate([piece.numbers for piece in self._pieces])
        sizes = np.concatenate([piece.sizes for piece in self._pieces])
        order = np.argsort(numbers, kind="stable")
        numbers, ends = numbers[order], np.cumsum(sizes[order])
        is_last = np.append(numbers[1:] != numbers[:-1], True)  # cell of its number
        numbers, ends = numbers[is_last], ends[is_last]
        fitting = int(np.searchsorted(ends, self._bytes_max, "right"))
        if fitting:
            self._keep_up_to(int(numbers[fitting - 1]))
        elif int(ends[0]) <= self._whole_bytes_max:
            self._keep_up_to(int(numbers[0]))
        else:
            self.oversized = int(numbers[0])
            self._keep_up_to(self.oversized - 1)

    def _keep_up_to(self, limit: int) -> None:
        self.limit = limit
        kept = []
        for piece in self._pieces:
            mask: Mask = piece.numbers <= limit
            if mask.all():
                kept.append(piece)
            elif mask.any():
                kept.append(_Piece(keep(piece.table, mask), piece.numbers[mask], piece.sizes[mask]))
        self._pieces = kept
        self.byte_count = sum([int(piece.sizes.sum()) for piece in kept])


def changes_of(cells: pa.Table, family: bytes) -> pa.Table:
    """Returns cells of CELL_SCHEMA as changes of a family."""
    single = single_chunk(cells)
    columns = [column(single, place) for place in (ROW, QUALIFIER, TIMESTAMP, WRITE_NUMBER, KIND_COLUMN, VALUE)]
    columns.insert(1, constant_binary_array(family, len(single)))
    return pa.Table.from_arrays(columns, schema=CHANGE_SCHEMA)


def concatenated_changes(tables: list[pa.Table]) -> pa.Table:
    """Returns the changes of all tables, in order."""
    return pa.concat_tables([_NO_CHANGES, *tables])


def _piece(cells: pa.Table, family: bytes) -> _Piece:
    table = changes_of(cells, family)
    sizes: Integers = np.full(len(table), CELL_BYTES_BESIDE, np.int64)
    for place in (0, 1, 2, 6):
        sizes += np.diff(offsets(column(table, place)))
    return _Piece(table, integers(column(table, _NUMBER)), sizes)
