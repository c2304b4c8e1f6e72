"""The rows of rows.py as Arrow tables, to load many of them quickly."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa
import rowlock

from bench.ycsb.rows import COLUMNS, FIELD_BYTES, row_key

_ROWS_EACH = 50_000


def mapping() -> rowlock.Mapping:
    """Returns the mapping of the tables' columns to cells."""
    names = [column.decode() for column in COLUMNS]
    return rowlock.Mapping(", ".join(["key STRING :key", *(f"{name[2:]} BINARY {name}" for name in names)]))


def row_tables(row_count: int, seed: int = 1) -> Iterator[pa.Table]:
    """Yields rows 0 to `row_count` with random values, at most 50,000 a table."""
    random = Random(seed)
    for first in range(0, row_count, _ROWS_EACH):
        stop = min(first + _ROWS_EACH, row_count)
        keys = pa.array([row_key(number).decode() for number in range(first, stop)])
        values = [_values(stop - first, random) for _ in COLUMNS]
        yield pa.table([keys, *values], names=["key", *(column[2:].decode() for column in COLUMNS)])


def _values(count: int, random: Random) -> pa.Array[pa.Scalar[pa.DataType]]:
    offsets = np.arange(count + 1, dtype=np.int32) * FIELD_BYTES
    data = random.randbytes(count * FIELD_BYTES)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets.data), pa.py_buffer(data)])
