"""Collects the properties of sorted cells for the metadata, and checks their order, as the writer passes them on.

Everything is a vector operation over one record batch. Across two batches the last cell of one is compared with the
first of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow import columns
from rowlock_regionserver.arrow.columns import KIND, QUALIFIER, ROW, TIMESTAMP, WRITE_NUMBER
from rowlock_regionserver.arrow.masks import numpy_mask
from rowlock_regionserver.cells import NEWEST, TIMESTAMP_MAX, Kind
from rowlock_regionserver.storefile import bloom

_COUNTED = (
    "cell_count",
    "row_count",
    "write_number_min",
    "write_number_max",
    "timestamp_min",
    "timestamp_max",
    "delete_version_count",
    "delete_column_count",
    "delete_family_count",
    "has_versions",
)

# (row, qualifier, -timestamp, -write number)
_Place = tuple[bytes, bytes, int, int]


class OutOfOrderError(AssertionError):
    """Cells are not in store order: a mistake of the caller, which sorts them."""


@dataclass(slots=True)
class CellProperties:
    """The properties of the cells that were added so far. Not thread-safe."""

    hash_rows: bool
    cell_count: int = 0
    row_count: int = 0
    write_number_min: int = NEWEST
    write_number_max: int = 0
    timestamp_min: int = TIMESTAMP_MAX
    timestamp_max: int = 0
    delete_version_count: int = 0
    delete_column_count: int = 0
    delete_family_count: int = 0
    has_versions: bool = False
    _last: _Place | None = None
    _hashes: list[bloom.Words] | None = None

    def add(self, batch: pa.RecordBatch) -> columns.Integers:
        """Adds the next cells, at least one, and returns the places in them where a new row begins.

        Raises OutOfOrderError when the cells are not in store order.
        """
        first, last = _place(batch, 0), _place(batch, batch.num_rows - 1)
        if self._last is not None and self._last > first:
            raise OutOfOrderError(f"{self._last} before {first}")
        same_row, same_column = _same_as_before(batch)
        is_continued = self._last is not None and self._last[0] == first[0]
        starts = np.flatnonzero(~same_row) + 1
        row_starts = starts if is_continued else np.concatenate([np.zeros(1, np.int64), starts])
        is_column_continued = self._last is not None and self._last[:2] == first[:2]
        self.has_versions = self.has_versions or is_column_continued or bool(same_column.any())
        self._last = last
        self.cell_count += batch.num_rows
        self.row_count += len(row_starts)
        self._add_numbers(batch)
        if self.hash_rows and len(row_starts):
            if self._hashes is None:
                self._hashes = []
            rows = batch.column(ROW).take(columns.integer_array(row_starts, pa.int64()))
            self._hashes.append(bloom.row_hashes(row for row in rows.to_pylist() if row is not None))
        return row_starts

    def counted(self) -> dict[str, int]:
        """Returns the properties by their names in StoreFileInfo."""
        return {name: getattr(self, name) for name in _COUNTED}

    def bloom_words(self) -> bloom.Words:
        """Returns the Bloom filter of the rows; empty without `hash_rows`."""
        if not self.hash_rows:
            return np.empty(0, np.uint64)
        return bloom.build(np.concatenate(self._hashes or [np.empty(0, np.uint64)]))

    def _add_numbers(self, batch: pa.RecordBatch) -> None:
        timestamps = columns.integers(batch.column(TIMESTAMP))
        write_numbers = columns.integers(batch.column(WRITE_NUMBER))
        self.timestamp_min = min(self.timestamp_min, int(timestamps.min()))
        self.timestamp_max = max(self.timestamp_max, int(timestamps.max()))
        self.write_number_min = min(self.write_number_min, int(write_numbers.min()))
        self.write_number_max = max(self.write_number_max, int(write_numbers.max()))
        counts = np.bincount(columns.kinds(batch.column(KIND)), minlength=len(Kind))
        self.delete_version_count += int(counts[Kind.DELETE_VERSION])
        self.delete_column_count += int(counts[Kind.DELETE_COLUMN])
        self.delete_family_count += int(counts[Kind.DELETE_FAMILY])


def _place(batch: pa.RecordBatch, cell: int) -> _Place:
    row, qualifier, timestamp, write_number = (batch.column(place)[cell].as_py() for place in range(4))
    return row, qualifier, -timestamp, -write_number


def _same_as_before(batch: pa.RecordBatch) -> tuple[columns.Mask, columns.Mask]:
    """Returns for every cell but the first whether its row, and its row and qualifier, equal those of the previous.

    Raises OutOfOrderError when the cells are not in store order.
    """
    row_order, same_row = _compared(batch.column(ROW))
    qualifier_order, same_qualifier = _compared(batch.column(QUALIFIER))
    timestamps = columns.integers(batch.column(TIMESTAMP))
    write_numbers = columns.integers(batch.column(WRITE_NUMBER))
    newer_first = (timestamps[1:] < timestamps[:-1]) | (
        (timestamps[1:] == timestamps[:-1]) & (write_numbers[1:] <= write_numbers[:-1])
    )
    in_order = row_order | (same_row & (qualifier_order | (same_qualifier & newer_first)))
    if not in_order.all():
        place = int(np.flatnonzero(~in_order)[0])
        raise OutOfOrderError(f"{_place(batch, place)} before {_place(batch, place + 1)}")
    return same_row, same_row & same_qualifier


def _compared(column: columns.Column) -> tuple[columns.Mask, columns.Mask]:
    """Returns for every element but the first whether it is greater than the previous one, and whether it is equal."""
    greater = pc.greater(column.slice(1), column.slice(0, len(column) - 1))
    return numpy_mask(greater), columns.equals_previous(column)[1:]
