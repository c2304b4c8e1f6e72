"""A staged batch: a bulk file that no log record names yet, and what the commit of its bulk write must know of it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import boolean_array, integer_array
from rowlock_regionserver.arrow.masks import numpy_mask
from rowlock_regionserver.region.bulk.row_batch import BulkBatch, RowBatch
from rowlock_regionserver.wal.mutation import BulkRecord


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """One bulk file. `record`: as it will be logged, but for stamp and commit."""

    region_id: int
    record: BulkRecord
    last_row: bytes
    family_numbers: tuple[int, ...]

    def record_for(self, commit_number: int, stamp: int) -> BulkRecord:
        """Returns the log record of its commit."""
        return replace(self.record, commit_number=commit_number, stamp=stamp)

    def to_json(self) -> object:
        record = self.record
        return [
            self.region_id,
            [record.file_number, record.file_bytes, record.file_checksum],
            record.cell_count,
            record.row_count,
            base64.b64encode(record.first_row).decode(),
            base64.b64encode(self.last_row).decode(),
            self.family_numbers,
        ]

    @staticmethod
    def from_json(fields: Any) -> StagedBatch:  # Any: JSON
        """The inverse of `to_json`. Raises TypeError or ValueError for another version."""
        region_id, file, cell_count, row_count, first_row, last_row, families = fields
        record = BulkRecord(0, cell_count, row_count, base64.b64decode(first_row), None, *file)
        return StagedBatch(region_id, record, base64.b64decode(last_row), tuple(families))


def halves(batch: BulkBatch) -> list[BulkBatch]:
    """Splits a batch into what has timestamps and what is stamped at the commit, in this order.

    The stamp is not known yet, and each half is in the same order for any stamp.
    """
    timestamps = batch.timestamps if isinstance(batch, RowBatch) else batch.column("timestamp").combine_chunks()
    if timestamps.null_count in (0, len(timestamps)):
        return [batch]
    is_stamped = numpy_mask(pc.is_null(timestamps))
    if isinstance(batch, RowBatch):
        return [batch.take(integer_array(np.flatnonzero(mask), pa.int64())) for mask in (~is_stamped, is_stamped)]
    return [batch.filter(boolean_array(mask)) for mask in (~is_stamped, is_stamped)]
