"""Decodes rows that a scan passes on as they are stored: compressed, column by column.

The layout is that of ScanBatch.compressed in region.proto. Each value is decompressed once, to its place in the column.
Nothing in a message is trusted: a message that contradicts itself raises ServerError.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from rowlock._codec.arrow_buffers import Array, binary_array, int64_array
from rowlock.errors import ServerError

_HEAD = struct.Struct("<4I")
_COLUMN = struct.Struct("<4I")
_PIECE = struct.Struct("<7I")
_ALIGNMENT = 8

_NONE, _LZ4, _ZSTD, _ABSENT = 0, 1, 2, 15
_CODEC, _TRANSPOSED = 0x0F, 0x10
_LZ4_FRAME = pa.Codec("lz4")
# A larger chunk or column, or a batch of more rows, would be damage.
_BYTES_MAX = 1 << 30
_ROWS_MAX = 1 << 24
# At or above this many bytes numpy transposes back faster than it places byte after byte of all values.
_LONG_VALUE_BYTES = 8

_Bytes = npt.NDArray[np.uint8]


class _Piece(NamedTuple):
    """Some lines of a chunk, as the message describes them."""

    lines: int
    start: int
    taken: int
    width: int
    compression: int
    stored_bytes: int
    raw_bytes: int


class _Column(NamedTuple):
    """What a message has of one column."""

    pieces: Sequence[tuple[_Piece, pa.Buffer]]
    bitmap: pa.Buffer | None
    places: npt.NDArray[np.int64]  # of the changes
    changes: tuple[_Piece, pa.Buffer] | None


class _Zstandard(threading.local):
    """The working memory of one thread, which takes longer to make than a chunk to decompress."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_ZSTANDARD = _Zstandard()


def decoded_rows(message: pa.Buffer, are_timestamps: Sequence[bool]) -> tuple[Array, list[Array]]:
    """Returns the keys, binary, and the columns: binary or fixed-size binary; int64 where they are timestamps.

    If the message leaves the keys out, all of them are null.

    Raises ServerError for a message that is damaged, or has another number of columns.
    """
    try:
        row_count, columns = _parsed(message)
        _require(len(columns) == 1 + len(are_timestamps), "%d columns, not %d", len(columns), 1 + len(are_timestamps))
        keys = _keys(columns[0], row_count)
        decoded = [
            _timestamps(column, row_count) if is_timestamp else _decoded(column, row_count)
            for column, is_timestamp in zip(columns[1:], are_timestamps, strict=True)
        ]
    except MemoryError:  # Arrow's, too, which is no damage.
        raise
    except (ValueError, struct.error, pa.ArrowException, OSError, OverflowError, zstandard.ZstdError) as error:
        raise ServerError(f"a batch of compressed rows is damaged: {error}") from error
    return keys, decoded


def _require(condition: bool, problem: str, *numbers: int) -> None:
    """Raises ValueError with the problem, a format of the numbers, if the condition does not hold."""
    if not condition:
        raise ValueError(problem % numbers)


# ---- the message


def _parsed(message: pa.Buffer) -> tuple[int, list[_Column]]:
    """Returns the number of rows, and the columns."""
    view = memoryview(message)
    row_count, column_count, _, _ = _HEAD.unpack_from(view)
    _require(row_count <= _ROWS_MAX, "%d rows", row_count)
    pieces_start = _HEAD.size + column_count * _COLUMN.size
    _require(pieces_start <= len(view), "%d columns in %d bytes", column_count, len(view))
    heads = list(_COLUMN.iter_unpack(view[_HEAD.size : pieces_start]))
    piece_count = sum([pieces + (changes > 0) for pieces, _, changes, _ in heads])
    pieces_stop = pieces_start + piece_count * _PIECE.size
    _require(pieces_stop <= len(view), "%d pieces in %d bytes", piece_count, len(view))
    pieces = _checked(view[pieces_start:pieces_stop])
    data = _Data(message, pieces_stop)
    columns: list[_Column] = []
    for count, bitmap_bytes, change_count, _ in heads:
        of_column = list(islice(pieces, count))
        found = sum([piece.taken for piece in of_column])
        is_right = found == row_count or not (columns or count)  # keys may be left out
        _require(is_right, "a column of %d values in %d rows", found, row_count)
        stored = [(piece, data.take(piece.stored_bytes)) for piece in of_column]
        is_right = bitmap_bytes in (0, (row_count + 7) // 8)
        _require(is_right, "a bitmap of %d bytes for %d rows", bitmap_bytes, row_count)
        bitmap = data.take(bitmap_bytes) if bitmap_bytes else None
        places, changes = np.empty(0, np.int64), None
        if change_count:
            piece = next(pieces)
            _require(piece.taken == piece.lines == change_count, "%d changes of %d lines", change_count, piece.lines)
            places = np.frombuffer(memoryview(data.take(4 * change_count)), "<u4").astype(np.int64)
            is_ascending = bool((places[1:] > places[:-1]).all()) and int(places[-1]) < row_count
            _require(is_ascending, "changes at places that do not ascend, in %d rows", row_count)
            changes = piece, data.take(piece.stored_bytes)
        columns.append(_Column(stored, bitmap, places, changes))
    return row_count, columns


class _Data:
    """Takes the bytes that follow the entries, one part after the other."""

    def __init__(self, message: pa.Buffer, start: int) -> None:
        self._message = message
        self._size = message.size
        self._place = start + -start % _ALIGNMENT

    def take(self, byte_count: int) -> pa.Buffer:
        """Returns the next part."""
        start = self._place
        _require(start + byte_count <= self._size, "%d bytes at %d of %d", byte_count, start, self._size)
        self._place = start + byte_count + -byte_count % _ALIGNMENT
        return self._message.slice(start, byte_count)


def _checked(entries: memoryview) -> Iterator[_Piece]:
    """Returns the pieces. Raises ValueError if one contradicts itself, or is too large."""
    of_all = np.frombuffer(entries, "<u4").reshape(-1, _PIECE.size // 4).astype(np.int64)
    lines, start, taken, width, compression, _, raw_bytes = of_all.T
    codec, is_transposed = compression & _CODEC, (compression & _TRANSPOSED) != 0
    is_absent = codec == _ABSENT
    is_known = (is_absent | (codec <= _ZSTD)) & (compression <= _CODEC | _TRANSPOSED)
    is_whole = np.where(width > 0, raw_bytes == lines * width, raw_bytes >= 4 * (lines + 1))
    is_right = (
        is_known
        & (start + taken <= lines)
        & (raw_bytes <= _BYTES_MAX)
        & np.where(is_absent, raw_bytes == 0, is_whole)
        & ((width > 0) | ~is_transposed)
    )
    if not is_right.all():
        raise ValueError(f"{_Piece(*of_all[np.flatnonzero(~is_right)[0]].tolist())}")
    return map(_Piece._make, of_all.tolist())


# ---- the columns


def _keys(column: _Column, row_count: int) -> Array:
    if not column.pieces:
        return pa.nulls(row_count, pa.binary())
    _require(column.bitmap is None and column.changes is None, "keys that are null or changed")
    keys = _decoded(column, row_count)
    return keys if keys.type == pa.binary() else keys.cast(pa.binary())


def _timestamps(column: _Column, row_count: int) -> Array:
    if all(piece.compression == _ABSENT for piece, _ in column.pieces):
        return pa.nulls(row_count, pa.int64())
    decoded = _decoded(column, row_count)
    _require(decoded.type == pa.binary(8), "timestamps of other than 8 bytes")
    return pa.Array.from_buffers(pa.int64(), row_count, decoded.buffers())


def _decoded(column: _Column, row_count: int) -> Array:
    """Returns the column: fixed-size binary if all its values have one length, else binary."""
    chunks = column.pieces if column.changes is None else [*column.pieces, column.changes]
    widths = {piece.width for piece, _ in chunks if piece.compression != _ABSENT}
    if len(widths) == 1 and (width := widths.pop()):
        values = _fixed(column, row_count, width)
        return pa.Array.from_buffers(pa.binary(width), row_count, [column.bitmap, values])
    array = _variable(column.pieces)
    if column.changes is not None:
        indices = np.arange(row_count)
        indices[column.places] = row_count + np.arange(len(column.places))
        array = pa.concat_arrays([array, _variable([column.changes])]).take(int64_array(indices))
    if column.bitmap is None:
        return array
    return pa.Array.from_buffers(pa.binary(), row_count, [column.bitmap, *array.buffers()[1:]])


def _fixed(column: _Column, row_count: int, width: int) -> pa.Buffer:
    """Returns the values side by side."""
    _require(row_count * width <= _BYTES_MAX, "%d values of %d bytes", row_count, width)
    values = pa.allocate_buffer(row_count * width)
    target: _Bytes = np.frombuffer(memoryview(values), np.uint8)
    place = 0
    for piece, stored in column.pieces:
        _place(piece, stored, target[place * width : (place + piece.taken) * width], width)
        place += piece.taken
    if column.changes is not None:
        piece, stored = column.changes
        changes = np.empty((piece.taken, width), np.uint8)
        _place(piece, stored, changes.reshape(-1), width)
        target.reshape(-1, width)[column.places] = changes
    return values


def _place(piece: _Piece, stored: pa.Buffer, target: _Bytes, width: int) -> None:
    """Writes the values of a piece."""
    if piece.compression == _ABSENT:
        target[:] = 0
        return
    raw = _raw(piece, stored)
    lines, start, stop = piece.lines, piece.start, piece.start + piece.taken
    if not piece.compression & _TRANSPOSED:
        target[:] = raw[start * width : stop * width]
    elif width >= _LONG_VALUE_BYTES:
        target.reshape(-1, width)[:] = raw.reshape(width, lines).T[start:stop]
    else:
        for byte in range(width):
            target[byte::width] = raw[byte * lines + start : byte * lines + stop]


def _variable(pieces: Sequence[tuple[_Piece, pa.Buffer]]) -> Array:
    """Returns the values of pieces that may have different lengths, as binary without nulls."""
    ends = np.zeros(1 + sum([piece.taken for piece, _ in pieces]), np.int64)
    parts: list[memoryview] = []
    line = 0
    for piece, stored in pieces:
        of_piece = ends[line + 1 : line + 1 + piece.taken]
        start, stop, before = piece.start, piece.start + piece.taken, ends[line]
        if piece.compression == _ABSENT:
            of_piece[:] = before
        elif piece.width:
            values = np.empty(piece.taken * piece.width, np.uint8)
            _place(piece, stored, values, piece.width)
            of_piece[:] = np.arange(1, piece.taken + 1) * piece.width + before
            parts.append(values.data)
        else:
            raw = _raw(piece, stored)
            data = 4 * (piece.lines + 1)
            bounds = raw[:data].view("<i4")
            is_valid = bounds[0] == 0 and bounds[-1] == len(raw) - data and bool((bounds[1:] >= bounds[:-1]).all())
            _require(is_valid, "offsets that are not those of %d bytes", len(raw) - data)
            np.add(bounds[start + 1 : stop + 1], before - bounds[start], out=of_piece)
            parts.append(raw[data + int(bounds[start]) : data + int(bounds[stop])].data)
        line += piece.taken
    return binary_array(ends, pa.py_buffer(b"".join(parts)))


def _raw(piece: _Piece, stored: pa.Buffer) -> _Bytes:
    """Returns the bytes of a piece's chunk, decompressed."""
    codec = piece.compression & _CODEC
    raw: pa.Buffer | bytes = stored
    if codec == _ZSTD:
        frame = memoryview(stored)
        # Otherwise a damaged frame could ask for any memory.
        _require(zstandard.frame_content_size(frame) == piece.raw_bytes, "a chunk not of %d bytes", piece.raw_bytes)
        raw = _ZSTANDARD.decompressor.decompress(frame)
    elif codec == _LZ4:
        raw = _LZ4_FRAME.decompress(stored, piece.raw_bytes)
    found: _Bytes = np.frombuffer(memoryview(raw), np.uint8)
    _require(len(found) == piece.raw_bytes, "a chunk of %d bytes, not %d", len(found), piece.raw_bytes)
    return found
