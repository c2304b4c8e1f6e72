"""Generates rows for the bulk workloads, as a wide Arrow table and as the equivalent cells.

Values are random bytes, so that nothing compresses. Keys are in random order, so that a sort has work to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.targets.messages import FAMILY, row_key

COLUMN_COUNT = 10
VALUE_BYTES = 100

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"

# The columns of a bulk batch: region.proto, BulkBatch.
_FIELDS: list[pa.Field[pa.DataType]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("family", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=True),
    pa.field("value", pa.binary(), nullable=True),
]
PUT_SCHEMA = pa.schema(_FIELDS)


def column_names() -> list[str]:
    """Returns the qualifiers: q0, q1, ..."""
    return [f"q{number}" for number in range(COLUMN_COUNT)]


def wide_rows(row_count: int, seed: int = 1) -> pa.Table:
    """Returns a table with the columns `key` (text) and q0, q1, ... (bytes), one line a row."""
    random = np.random.default_rng(seed)
    return _wide_rows(random.permutation(row_count), random)


def wide_rows_in_order(first: int, row_count: int, seed: int = 1) -> pa.Table:
    """Returns a table with the columns of wide_rows, and rows `first` to `first + row_count` in key order."""
    return _wide_rows(np.arange(first, first + row_count), np.random.default_rng(seed))


def cells_of(rows: pa.Table) -> pa.Table:
    """Returns the cells of wide rows, row by row, without timestamps, as a table of PUT_SCHEMA."""
    count = len(rows)
    order = np.arange(count * COLUMN_COUNT).reshape(COLUMN_COUNT, count).T.reshape(-1)
    values = pa.concat_arrays([rows[name].combine_chunks() for name in column_names()])
    keys = pa.concat_arrays([rows["key"].cast(pa.binary()).combine_chunks()] * COLUMN_COUNT)
    qualifiers = _repeated([name.encode() for name in column_names()], count)
    families = _repeated([FAMILY], count * COLUMN_COUNT)
    stamps = pa.nulls(count * COLUMN_COUNT, pa.int64())
    columns: list[ArrowArray] = [
        keys.take(order),
        families,
        qualifiers.take(order),
        stamps,
        values.take(order),
    ]
    return pa.table(columns, schema=PUT_SCHEMA)


def slices(table: pa.Table, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Yields the table in batches of about equal size, at most about `bytes_max`."""
    pieces = max(1, -(-table.nbytes // bytes_max))
    yield from table.combine_chunks().to_batches(max_chunksize=max(1, -(-len(table) // pieces)))


def to_stream(batch: pa.RecordBatch) -> bytes:
    """Returns the batch as an Arrow IPC stream of its own: the schema, then the batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def random_values(count: int, random: np.random.Generator, value_bytes: int = VALUE_BYTES) -> ArrowArray:
    """Returns values of random bytes, all of the same size."""
    return _from_bytes(random.bytes(count * value_bytes), np.full(count, value_bytes))


def _wide_rows(numbers: npt.NDArray[np.int64], random: np.random.Generator) -> pa.Table:
    keys = _binary([row_key(number) for number in numbers.tolist()]).cast(pa.string())
    values = [random_values(len(numbers), random) for _ in range(COLUMN_COUNT)]
    return pa.table([keys, *values], names=["key", *column_names()])


def _binary(values: list[bytes]) -> ArrowArray:
    return _from_bytes(b"".join(values), np.fromiter(map(len, values), dtype=np.int64, count=len(values)))


def _repeated(values: list[bytes], count: int) -> ArrowArray:
    """Repeats each value `count` times."""
    data = b"".join(value * count for value in values)
    return _from_bytes(data, np.repeat([len(value) for value in values], count))


def _from_bytes(data: bytes, lengths: npt.NDArray[np.int64]) -> ArrowArray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
