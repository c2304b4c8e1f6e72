"""Collects the properties of sorted cells for the metadata, and checks their order, as the writer passes them on.

Everything is a vector operation over one record batch. Across two batches the last cell of one is compared with the
first of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow import columns
from rowlock_regionserver.arrow.columns import KIND, QUALIFIER, ROW, TIMESTAMP, WRITE_NUMBER
from rowlock_regionserver.arrow.line_values import is_present
from rowlock_regionserver.arrow.lines import Lines, number_bounds
from rowlock_regionserver.arrow.masks import numpy_mask
from rowlock_regionserver.cells import NEWEST, TIMESTAMP_MAX, Kind
from rowlock_regionserver.process import yield_now
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

# Rows that are hashed while other threads wait: a millisecond or two.
_HASHED_AT_ONCE = 8192

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
    _last: _Place | None = None  # if the last was a cell
    _last_line_row: bytes | None = None  # if the last was a line
    _hashes: list[bloom.Words] | None = None

    def add(self, batch: pa.RecordBatch) -> columns.Integers:
        """Adds the next cells, at least one, and returns the places in them where a new row begins.

        Raises OutOfOrderError when the cells are not in store order.
        """
        first, last = _place(batch, 0), _place(batch, batch.num_rows - 1)
        if self._last is not None and self._last > first:
            raise OutOfOrderError(f"{self._last} before {first}")
        if self._last_line_row is not None and self._last_line_row >= first[0]:
            raise OutOfOrderError(f"{self._last_line_row!r} before {first}")
        same_row, same_column = _same_as_before(batch)
        is_continued = self._last is not None and self._last[0] == first[0]
        starts = np.flatnonzero(~same_row) + 1
        row_starts = starts if is_continued else np.concatenate([np.zeros(1, np.int64), starts])
        is_column_continued = self._last is not None and self._last[:2] == first[:2]
        self.has_versions = self.has_versions or is_column_continued or bool(same_column.any())
        self._last, self._last_line_row = last, None
        self.cell_count += batch.num_rows
        self.row_count += len(row_starts)
        self._add_numbers(batch)
        if self.hash_rows and len(row_starts):
            self._add_hashes(batch.column(ROW).take(columns.integer_array(row_starts, pa.int64())))
        return row_starts

    def add_lines(self, lines: Lines) -> None:
        """Adds the next lines, at least one, each with a cell, and their numbers in the smallest form.

        Raises OutOfOrderError when they are not in order, or continue a row.
        """
        first, last = lines.rows[0].as_py(), lines.rows[-1].as_py()
        before = self._last_line_row if self._last is None else self._last[0]
        if before is not None and before >= first:
            raise OutOfOrderError(f"{before!r} before {first!r}")
        _check_order(lines)
        self._last, self._last_line_row = None, last
        self.cell_count += lines.cell_count
        self.row_count += int(lines.starts_row.sum())
        self.has_versions = self.has_versions or _has_versions(lines)
        self._add_bounds(number_bounds(lines.timestamps), number_bounds(lines.write_numbers))
        if self.hash_rows:
            self._add_hashes(lines.distinct_rows)

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
        self._add_bounds(number_bounds(timestamps), number_bounds(write_numbers))
        counts = np.bincount(columns.kinds(batch.column(KIND)), minlength=len(Kind))
        self.delete_version_count += int(counts[Kind.DELETE_VERSION])
        self.delete_column_count += int(counts[Kind.DELETE_COLUMN])
        self.delete_family_count += int(counts[Kind.DELETE_FAMILY])

    def _add_bounds(self, timestamps: tuple[int, int], write_numbers: tuple[int, int]) -> None:
        self.timestamp_min = min(self.timestamp_min, timestamps[0])
        self.timestamp_max = max(self.timestamp_max, timestamps[1])
        self.write_number_min = min(self.write_number_min, write_numbers[0])
        self.write_number_max = max(self.write_number_max, write_numbers[1])

    def _add_hashes(self, rows: columns.Column) -> None:
        if self._hashes is None:
            self._hashes = []
        for start in range(0, len(rows), _HASHED_AT_ONCE):
            if start:
                yield_now()
            some = cast(list[bytes], rows.slice(start, _HASHED_AT_ONCE).to_pylist())  # never null
            self._hashes.append(bloom.row_hashes(some))


def merged_counts(parts: Sequence[CellProperties], shared_row_count: int) -> dict[str, int]:
    """Returns the properties of all together, by their names in StoreFileInfo.

    `shared_row_count` is what the parts' counts of rows are too many, as some rows are in several parts.
    """
    counted = [part.counted() for part in parts]
    merged = {}
    for name in _COUNTED:
        combine = min if name.endswith("_min") else max if name.endswith("_max") or name == "has_versions" else sum
        merged[name] = combine([each[name] for each in counted])
    merged["row_count"] -= shared_row_count
    return merged


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


def _check_order(lines: Lines) -> None:
    """Raises OutOfOrderError when the lines are not in order."""
    greater, same_row = _compared(lines.rows)
    if same_row.any():
        timestamps, write_numbers = lines.numbers_of(lines.timestamps, 0), lines.numbers_of(lines.write_numbers, 0)
        newer_first = (timestamps[1:] < timestamps[:-1]) | (
            (timestamps[1:] == timestamps[:-1]) & (write_numbers[1:] < write_numbers[:-1])
        )
        greater |= same_row & newer_first
    if not greater.all():
        place = int(np.flatnonzero(~greater)[0])
        raise OutOfOrderError(f"line {lines.rows[place].as_py()!r} before {lines.rows[place + 1].as_py()!r}")


def _has_versions(lines: Lines) -> bool:
    """Returns whether some column of a row has several cells."""
    if not lines.has_versions:
        return False
    rows = np.cumsum(lines.starts_row)
    return any(not np.diff(rows[is_present(column)]).all() for column in lines.columns)
