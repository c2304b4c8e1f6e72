"""The write numbers and timestamps of a file that was written before they were known, for a bulk write.

The file has small write numbers, which say in which order its cells were staged, and perhaps timestamp 0 in all cells.
The commit decides what they are: the file's entry in the manifest has a base, which is added to each write number, and
perhaps a stamp, which is the timestamp of all cells. Order does not change by that, so the file is sorted as it is.

Readers apply this where a block is decoded, so nothing above sees the numbers in the file. (RocksDB has the same for
ingested files, as a global sequence number.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import TIMESTAMP, WRITE_NUMBER, integer_array, integers
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_index import WideIndex


class AdoptedNumbers(NamedTuple):
    """`base` is added to the write numbers; `stamp` is the timestamp of all cells, 0: each has its own."""

    base: int
    stamp: int

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the cells of a cell block with their numbers."""
        if self == AS_WRITTEN:
            return batch
        columns = batch.columns
        columns[WRITE_NUMBER] = integer_array(integers(columns[WRITE_NUMBER]) + self.base, pa.int64())
        if self.stamp:
            columns[TIMESTAMP] = integer_array(np.full(batch.num_rows, self.stamp, np.int64), pa.int64())
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def of_directory(self, directory: Directory) -> Directory:
        """Returns the directory of a wide block with its numbers. A stamped file has no timestamps of single lines."""
        if self == AS_WRITTEN:
            return directory
        return replace(
            directory,
            timestamp=self.stamp or directory.timestamp,
            write_number=directory.write_number + self.base,
            write_number_base=self.base,
        )

    def of_index(self, index: WideIndex) -> WideIndex:
        """Returns the index of wide blocks with the bounds of their numbers."""
        if self == AS_WRITTEN:
            return index
        count = len(index)
        return replace(
            index,
            write_numbers_min=[number + self.base for number in index.write_numbers_min],
            write_numbers_max=[number + self.base for number in index.write_numbers_max],
            timestamps_min=[self.stamp] * count if self.stamp else index.timestamps_min,
            timestamps_max=[self.stamp] * count if self.stamp else index.timestamps_max,
        )

    def of_groups(self, groups: RowGroups) -> RowGroups:
        """Returns the row groups with the bound of their timestamps."""
        return replace(groups, timestamp_max=self.stamp) if self.stamp and len(groups) else groups


AS_WRITTEN = AdoptedNumbers(0, 0)
