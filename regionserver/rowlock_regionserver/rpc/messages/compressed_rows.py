"""Encodes compressed rows of a scan as ScanBatch.compressed; region.proto has the layout."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, offsets
from rowlock_regionserver.arrow.compressed_columns import Changes, CompressedColumn, LineColumn, is_present
from rowlock_regionserver.arrow.stored_lines import BlockSlice
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.engine.encoded_message import Part
from rowlock_regionserver.scan.compressed_rows import CompressedRows

_HEAD = struct.Struct("<4I")
_COLUMN = struct.Struct("<4I")
_PIECE = struct.Struct("<7I")
# The compression of a piece of lines that have no value.
_ABSENT = 15
_ALIGNMENT = 8
# By the bytes before it, modulo the alignment.
_PADDINGS = [bytes(-count % _ALIGNMENT) for count in range(_ALIGNMENT)]
_NO_BITMAP = np.empty(0, np.uint8)


def compressed_rows(rows: CompressedRows) -> list[Part]:
    """Returns the parts of the message, which follow one another. Copies no compressed byte."""
    encoder = _Encoder(rows.num_rows)
    if rows.has_keys:
        encoder.add(rows.keys)
    else:
        encoder.leave_out()
    for column in rows.columns:
        encoder.add(column)
    return encoder.message()


class _Encoder:
    """Collects the entries of columns and pieces, and their bytes."""

    def __init__(self, row_count: int) -> None:
        self._row_count = row_count
        self._column_count = 0
        self._columns = bytearray()
        self._pieces = bytearray()
        self._data: list[Part] = []

    def message(self) -> list[Part]:
        """Returns the parts of the message."""
        head = bytearray(_HEAD.pack(self._row_count, self._column_count, 0, 0) + self._columns + self._pieces)
        return [head, bytes(-len(head) % _ALIGNMENT), *self._data]

    def add(self, column: LineColumn | None) -> None:
        """Adds a column; None: one without any value."""
        if column is None:
            self._add_absent(self._row_count)
            self._end_column(1, np.packbits(np.zeros(self._row_count, np.bool_)), None)
            return
        changes, piece_count = None, 1
        if isinstance(column, CompressedColumn):
            changes, piece_count = column.changes, len(column.lines.slices)
            for each in column.lines.slices:
                self._add_slice(each, column.name)
        else:
            self._add_plain(column)
        bitmap = np.packbits(is_present(column), bitorder="little") if column.null_count else _NO_BITMAP
        self._end_column(piece_count, bitmap, changes)

    def leave_out(self) -> None:
        """Adds a column without pieces: the keys, where they are left out."""
        self._columns += _COLUMN.pack(0, 0, 0, 0)
        self._column_count += 1

    def _end_column(self, piece_count: int, bitmap: npt.NDArray[np.uint8], changes: Changes | None) -> None:
        self._add_data(bitmap.tobytes())
        change_count = 0
        if changes is not None:
            change_count = len(changes.places)
            self._add_data(changes.places.astype("<u4").tobytes())
            self._add_plain(changes.values)
        self._columns += _COLUMN.pack(piece_count, len(bitmap), change_count, 0)
        self._column_count += 1

    def _add_absent(self, count: int) -> None:
        self._pieces += _PIECE.pack(count, 0, count, 0, _ABSENT, 0, 0)

    def _add_slice(self, piece: BlockSlice, name: bytes | None) -> None:
        block, start, stop = piece
        if name is not None and not block.has(name):
            self._add_absent(stop - start)
            return
        stored, compression, raw_bytes, width = block.chunk(name)
        size = stored.size
        self._pieces += _PIECE.pack(block.line_count, start, stop - start, width, compression, size, raw_bytes)
        self._data.append(stored)
        if size % _ALIGNMENT:
            self._data.append(_PADDINGS[size % _ALIGNMENT])

    def _add_plain(self, column: Column) -> None:
        width, raw = _raw(column)
        size = sum(map(len, raw))
        self._pieces += _PIECE.pack(len(column), 0, len(column), width, Compression.NONE, size, size)
        self._add_data(*raw)

    def _add_data(self, *parts: Part) -> None:
        self._data += parts
        self._data.append(_PADDINGS[sum(map(len, parts)) % _ALIGNMENT])


def _raw(column: Column) -> tuple[int, list[Part]]:
    """Returns the width of a column's values, or 0, and their bytes; those of nulls are undefined."""
    buffers = column.buffers()
    if column.type != pa.binary():
        width = int(column.type.byte_width)
        assert buffers[1] is not None, f"{len(column)} values without a buffer"
        return width, [buffers[1].slice(column.offset * width, len(column) * width)]
    bounds = offsets(column)
    first, last = int(bounds[0]), int(bounds[-1])
    data = b"" if buffers[2] is None else buffers[2].slice(first, last - first)
    return 0, [(bounds - first).astype("<i4").tobytes(), data]
