"""The server's side of a bulk batch in wide form, in plain Python: its rows as cells."""

from __future__ import annotations

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

# Row, family, qualifier, timestamp, value.
PlainCell = tuple[bytes, bytes, bytes, int | None, bytes | None]


def plain_cells(rows: region_pb2.BulkRows) -> list[PlainCell]:
    """Returns the cells of a message, row by row. Checks what a server refuses."""
    with pa.ipc.open_stream(rows.arrow) as reader:
        schema, batch = reader.schema, reader.read_next_batch()
        assert not list(reader), "one record batch"
    batch.validate(full=True)
    names = [(column.family, column.qualifier) for column in rows.columns]
    assert len(set(names)) == len(names)
    assert schema.names == ["row", "timestamp", *(str(place) for place in range(len(names)))]
    assert schema.field(0).equals(pa.field("row", pa.binary(), nullable=False))
    assert schema.field(1).equals(pa.field("timestamp", pa.int64()))
    for field in list(schema)[2:]:
        assert field.type == pa.binary() or isinstance(field.type, pa.FixedSizeBinaryType)
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
    assert sum(map(len, buffers)) <= rows.uncompressed_bytes + 64 * 3 * len(schema)
    cells = []
    for line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        row, timestamp, *values = line
        for (family, qualifier), value in zip(names, values, strict=True):
            if value is not None or rows.nulls_delete:
                cells.append((row, family, qualifier, timestamp, value))
    return cells


def plain_cells_of(cells: pa.RecordBatch) -> list[PlainCell]:
    """Returns a batch of cells in the same form."""
    return list(zip(*(column.to_pylist() for column in cells.columns), strict=True))
