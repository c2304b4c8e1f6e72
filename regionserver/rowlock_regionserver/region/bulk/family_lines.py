"""The lines of one family of a bulk batch, before the batch has its write number and its stamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, integer_array, integers, offsets
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import CELL_BYTES_BESIDE

_ROW = pa.field("row", pa.binary(), nullable=False)
_TIMESTAMP = pa.field("timestamp", pa.int64())


@dataclass(frozen=True, slots=True)
class FamilyLines:
    """Puts of one family, one line a row, rows strictly ascending; each line has a cell."""

    rows: Column  # binary without nulls
    timestamps: Column | None  # int64, one a line; null: the stamp. None: all are null
    qualifiers: tuple[bytes, ...]  # ascending
    columns: tuple[Column, ...]  # binary or fixed-size binary; null where the line has no cell

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cell_count(self) -> int:
        """The number of cells."""
        return sum([len(column) - column.null_count for column in self.columns])

    @property
    def byte_count(self) -> int:
        """The bytes of rows, timestamps and values."""
        stamps = self.timestamps.nbytes if self.timestamps is not None else 0
        return self.rows.nbytes + stamps + sum([column.nbytes for column in self.columns])

    @property
    def bytes_as_cells(self) -> int:
        """About the bytes that the lines would take as cells."""
        row_bytes = int(np.diff(offsets(self.rows)).sum()) // len(self)
        total = 0
        for qualifier, column in zip(self.qualifiers, self.columns, strict=True):
            count = len(column) - column.null_count
            total += column.nbytes + count * (row_bytes + len(qualifier) + CELL_BYTES_BESIDE)
        return total

    def numbered(self, write_number: int, stamp: int) -> Lines:
        """Returns the lines with their write number, and with the stamp where a timestamp is missing."""
        timestamps = np.full((1, 1), stamp, np.int64)
        if self.timestamps is not None:
            filled = self.timestamps.fill_null(integer_array([stamp], pa.int64())[0])
            of_lines = integers(filled)
            if len(of_lines) and (of_lines == of_lines[0]).all():
                timestamps = of_lines[:1].reshape(1, 1)
            else:
                timestamps = of_lines.reshape(1, -1)
        return Lines(self.rows, timestamps, np.full((1, 1), write_number, np.int64), self.qualifiers, self.columns)

    def record_batch(self) -> pa.RecordBatch:
        """Returns the lines as a record batch, see `of`."""
        fields: list[pa.Field[Any]] = [_ROW]
        arrays = [self.rows]
        if self.timestamps is not None:
            fields.append(_TIMESTAMP)
            arrays.append(self.timestamps)
        fields += [
            pa.field(qualifier.hex(), column.type)
            for qualifier, column in zip(self.qualifiers, self.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*arrays, *self.columns], schema=pa.schema(fields))

    @staticmethod
    def of(batch: pa.RecordBatch) -> FamilyLines:
        """Returns the lines of a record batch: `row`, perhaps `timestamp`, and columns named by qualifiers in hex."""
        names = batch.schema.names
        has_timestamps = names[1:2] == [_TIMESTAMP.name]
        first = 2 if has_timestamps else 1
        return FamilyLines(
            batch.column(0),
            batch.column(1) if has_timestamps else None,
            tuple([bytes.fromhex(name) for name in names[first:]]),
            tuple(batch.columns[first:]),
        )
