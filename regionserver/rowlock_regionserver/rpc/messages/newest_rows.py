"""Encodes rows with their newest values as ScanBatch.newest_rows."""

from __future__ import annotations

from rowlock_proto.v1 import region_pb2
from rowlock_proto.varints import varint

from rowlock_regionserver.engine.encoded_message import Part
from rowlock_regionserver.scan.newest_rows import NewestRows

# Field 4 (NewestRows.data) of wire type 2 (length and bytes).
_DATA_TAG = b"\x22"


def newest_rows(rows: NewestRows) -> list[Part]:
    """Returns the parts of the message, which follow one another."""
    data: list[bytes] = []
    for row, values in zip(rows.rows, rows.values, strict=True):
        data.append(row)
        data += values
    lengths = list(map(len, data))
    head = region_pb2.NewestRows(lengths=lengths)
    for columns in rows.column_sets:
        head.column_sets.add().columns.extend(columns)
    if len(rows.column_sets) > 1:
        head.sets_of_rows.extend(rows.sets_of_rows)
    return [head.SerializeToString(), _DATA_TAG, varint(sum(lengths)), b"".join(data)]
