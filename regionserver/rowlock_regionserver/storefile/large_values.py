"""Drops the large values of a block, for a bulk read of a block that is larger than the requested bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import VALUE, boolean_array, integer_array, offsets
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.found_cells import AWAY_BYTES_MIN


def without_large_values(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
    """Returns the batch with an empty value in place of each large one, and (cell, bytes) of those, ascending.

    The batch is a copy, so that the block's memory can be freed; the batch itself when no value is large.
    """
    values = batch.column(VALUE)
    lengths = np.diff(offsets(values))
    is_large = lengths > AWAY_BYTES_MIN
    if not is_large.any():
        return batch, []
    cells = np.flatnonzero(is_large)
    data = values.filter(boolean_array(~is_large)).buffers()[2]
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.where(is_large, 0, lengths), out=bounds[1:])
    small = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(bounds.data), data or pa.py_buffer(b"")], null_count=0
    )
    everything = integer_array(np.arange(batch.num_rows), pa.int64())
    keys = [batch.column(place).take(everything) for place in range(VALUE)]
    places = list(zip(cells.tolist(), lengths[cells].tolist(), strict=True))
    return pa.RecordBatch.from_arrays([*keys, small], schema=CELL_SCHEMA), places
