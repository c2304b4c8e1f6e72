"""Serializes a bulk batch by hand, because protobuf would copy its Arrow bytes, some 8 MiB, three times."""

from __future__ import annotations

import io
from typing import TypeAlias

import pyarrow as pa
from rowlock_proto.v1 import region_pb2
from rowlock_proto.varints import varint

# Fields of length and bytes: BulkBatch.arrow, BulkBatch.rows, BulkRows.arrow, BulkRows.padding.
_CELLS_TAG, _ROWS_TAG, _ARROW_TAG, _PADDING_TAG = b"\x12", b"\x4a", b"\x0a", b"\x2a"
# Arrow bytes that begin at a multiple of this are used where they are.
_ALIGNMENT = 8

# A part of a serialized message.
MessagePiece: TypeAlias = pa.Buffer | bytes


class _Pieces(io.IOBase):
    """A file to which Arrow writes a stream, without copying the buffers of columns."""

    def __init__(self) -> None:
        self.pieces: list[MessagePiece] = []

    def writable(self) -> bool:
        return True

    def write(self, data: MessagePiece) -> None:
        self.pieces.append(data)


def bulk_message(message: region_pb2.BulkBatch, batch: pa.RecordBatch) -> list[MessagePiece]:
    """Returns the parts of the serialized message: all before the Arrow bytes, and the pieces of those, uncompressed.

    If the message has `rows`, the Arrow bytes are those of the rows. Sets their `uncompressed_bytes`.
    """
    sink = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
    arrow_bytes = sum(map(len, sink.pieces))
    if message.HasField("rows"):
        message.rows.uncompressed_bytes = batch.nbytes
        rows = message.rows.SerializeToString()
        message.ClearField("rows")
        head = _with_rows(message.SerializeToString(), rows, arrow_bytes)
    else:
        message.uncompressed_bytes = batch.nbytes
        head = message.SerializeToString() + _CELLS_TAG + varint(arrow_bytes)
    return [head, *sink.pieces]


def _with_rows(head: bytes, rows: bytes, arrow_bytes: int) -> bytes:
    """Returns what comes before the Arrow bytes of `rows`, padded so that they begin at a multiple of _ALIGNMENT."""
    for padding in range(_ALIGNMENT + 1):  # One more, as the number of bytes may take a byte more itself.
        before = rows + _PADDING_TAG + varint(padding) + bytes(padding) + _ARROW_TAG + varint(arrow_bytes)
        start = head + _ROWS_TAG + varint(len(before) + arrow_bytes) + before
        if len(start) % _ALIGNMENT == 0:
            break
    return start
