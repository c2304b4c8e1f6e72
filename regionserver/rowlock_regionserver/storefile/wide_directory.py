"""The directory of a wide block: which chunks it has, where each begins, and how it is checked and compressed.

    line count, column count, chunk count: 4 bytes each; 4 zeros
    timestamp, write number: 8 bytes each; those of all cells, if no chunk has them
    for each chunk, 20 bytes: kind, compression, column (2 bytes), stored bytes, raw bytes, CRC32C of the stored bytes,
        width (4 bytes each)
    for each column, 4 bytes: end of its qualifier, in the bytes that follow
    the qualifiers, one after the other
    zeros up to the directory's end

The chunks follow one another without gaps, by kind and column as in `Kind`: so the keys of all lines are one stretch,
and each column another. All numbers are little-endian. The directory's checksum is verified before it is parsed, and
everything in it is checked against everything else all the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from rowlock_regionserver.cells import Compression
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile.format import HEADER_BYTES

_HEAD = struct.Struct("<IIIIqq")
_CHUNK = struct.Struct("<BBHIIII")
_END = struct.Struct("<I")

# Bounds of a block, which no writer exceeds: more would be damage.
LINES_MAX = 1 << 24
RAW_BYTES_MAX = 1 << 30


class Kind(IntEnum):
    """What a chunk holds. First the keys of the lines, then column by column, each in this order."""

    ROWS = 0
    TIMESTAMPS = 1  # one a line
    WRITE_NUMBERS = 2  # one a line
    VALIDITY = 3  # a bit a line, the least significant first: 1 where the line has a cell
    COLUMN_TIMESTAMPS = 4  # one a line, of one column
    COLUMN_WRITE_NUMBERS = 5
    VALUES = 6


class ChunkEntry(NamedTuple):
    """One chunk. `width` is the length of each row or value; 0: they have different lengths."""

    kind: int
    compression: int
    column: int
    stored_bytes: int
    raw_bytes: int
    checksum: int
    width: int


@dataclass(frozen=True, slots=True)
class ColumnChunks:
    """The chunks of one column, by their numbers in the directory; None where it has none."""

    values: int
    validity: int | None  # None: every line has a cell
    timestamps: int | None
    write_numbers: int | None

    def numbers(self) -> range:
        """Returns the numbers of all of them, which are neighbours."""
        first = min(
            number for number in (self.validity, self.timestamps, self.write_numbers, self.values) if number is not None
        )
        return range(first, self.values + 1)


@dataclass(frozen=True, slots=True)
class Directory:
    """The decoded directory. Immutable."""

    line_count: int
    timestamp: int
    write_number: int
    chunks: tuple[ChunkEntry, ...]
    starts: tuple[int, ...]  # of each chunk in the payload, and the payload's end
    qualifiers: tuple[bytes, ...]
    timestamps: int | None  # the chunk of the lines' timestamps
    write_numbers: int | None
    columns: tuple[ColumnChunks, ...]

    @property
    def key_chunks(self) -> range:
        """The chunks with the keys of all lines: rows, timestamps and write numbers."""
        return range(1 + (self.timestamps is not None) + (self.write_numbers is not None))


def encode(
    line_count: int,
    timestamp: int,
    write_number: int,
    chunks: Sequence[ChunkEntry],
    qualifiers: Sequence[bytes],
    payload_bytes_min: int,
) -> bytes:
    """Returns the directory, so long that with the chunks it takes `payload_bytes_min`, and a multiple of 8."""
    directory = b"".join(
        [
            _HEAD.pack(line_count, len(qualifiers), len(chunks), 0, timestamp, write_number),
            *[_CHUNK.pack(*chunk) for chunk in chunks],
            *[_END.pack(end) for end in accumulate(map(len, qualifiers))],
            *qualifiers,
        ]
    )
    length = max(len(directory), payload_bytes_min - sum([chunk.stored_bytes for chunk in chunks]))
    return directory.ljust(-(-length // 8) * 8, b"\0")


def decode(directory: bytes, payload_bytes: int, line_count: int | None, path: Path, offset: int) -> Directory:
    """Returns the directory of a block at `offset` of the file, from its verified bytes.

    `line_count` is that of the index, None if that is not known. Raises CorruptionError when the directory contradicts
    itself. As its checksum is right, that would be a mistake of the writer.
    """
    try:
        decoded = _decode(directory, payload_bytes)
        _require(line_count in (None, decoded.line_count), f"{decoded.line_count} lines, not {line_count}")
        return decoded
    except (ValueError, struct.error) as error:
        raise CorruptionError(path, offset + HEADER_BYTES, "the directory of a wide block", f"{error}") from error


def _decode(directory: bytes, payload_bytes: int) -> Directory:
    line_count, column_count, chunk_count, _, timestamp, write_number = _HEAD.unpack_from(directory)
    _require(0 < line_count <= LINES_MAX, f"{line_count} lines")
    place = _HEAD.size
    stop = place + chunk_count * _CHUNK.size
    ends_stop = stop + column_count * _END.size
    _require(ends_stop <= len(directory), f"{chunk_count} chunks and {column_count} columns in {len(directory)} bytes")
    chunks = tuple(map(ChunkEntry._make, _CHUNK.iter_unpack(directory[place:stop])))
    ends = [0, *[end for (end,) in _END.iter_unpack(directory[stop:ends_stop])]]
    _require(ends_stop + ends[-1] <= len(directory), f"qualifiers of {ends[-1]} bytes")
    names = directory[ends_stop : ends_stop + ends[-1]]
    qualifiers = tuple([names[start:end] for start, end in pairwise(ends)])
    _require(all(before < after for before, after in pairwise(qualifiers)), "qualifiers out of order")
    starts = tuple(accumulate([chunk.stored_bytes for chunk in chunks], initial=len(directory)))
    _require(starts[-1] == payload_bytes, f"chunks that end at {starts[-1]} of {payload_bytes} bytes")
    _require(sum([chunk.raw_bytes for chunk in chunks]) <= RAW_BYTES_MAX, "too many raw bytes")
    for chunk in chunks:
        _check_size(chunk, line_count)
    expected = _Expected(chunks)
    _require(expected.take(Kind.ROWS) is not None, "no rows")
    timestamps, write_numbers = expected.take(Kind.TIMESTAMPS), expected.take(Kind.WRITE_NUMBERS)
    columns = tuple(expected.columns(column_count))
    _require(expected.number == chunk_count, f"a chunk {chunk_count and chunks[expected.number - 1]} out of place")
    for by_line, of_columns in (
        (timestamps, [column.timestamps for column in columns]),
        (write_numbers, [column.write_numbers for column in columns]),
    ):
        by_column = {chunk is not None for chunk in of_columns}
        _require(len(by_column) <= 1 and not (by_line is not None and True in by_column), "numbers in two forms")
    return Directory(
        line_count, timestamp, write_number, chunks, starts, qualifiers, timestamps, write_numbers, columns
    )


class _Expected:
    """Takes the chunks in their order."""

    def __init__(self, chunks: Sequence[ChunkEntry]) -> None:
        self._chunks = chunks
        self.number = 0

    def take(self, kind: Kind, column: int = 0) -> int | None:
        """Returns the number of the next chunk and passes it, if it is the one of this kind and column."""
        number = self.number
        if number < len(self._chunks) and self._chunks[number][0] == kind and self._chunks[number][2] == column:
            self.number += 1
            return number
        return None

    def columns(self, column_count: int) -> Iterator[ColumnChunks]:
        for column in range(column_count):
            validity = self.take(Kind.VALIDITY, column)
            timestamps = self.take(Kind.COLUMN_TIMESTAMPS, column)
            write_numbers = self.take(Kind.COLUMN_WRITE_NUMBERS, column)
            values = self.take(Kind.VALUES, column)
            if values is None:
                raise ValueError(f"column {column} without values")
            yield ColumnChunks(values, validity, timestamps, write_numbers)


def _check_size(chunk: ChunkEntry, line_count: int) -> None:
    kind, raw_bytes = chunk.kind, chunk.raw_bytes
    if kind in (Kind.ROWS, Kind.VALUES):
        least = 4 * (line_count + 1) if not chunk.width else chunk.width * line_count
        is_right = raw_bytes == least if chunk.width else raw_bytes >= least
    elif kind == Kind.VALIDITY:
        is_right = raw_bytes == -(-line_count // 8)
    else:
        is_right = raw_bytes == 8 * line_count
    _require(is_right, f"a chunk of {raw_bytes} bytes for {line_count} lines: {chunk}")
    _require(chunk.compression in _COMPRESSIONS, f"compression {chunk.compression}")
    is_plain = chunk.compression == Compression.NONE
    _require(not is_plain or chunk.stored_bytes == raw_bytes, f"an uncompressed chunk of {chunk.stored_bytes} bytes")


_COMPRESSIONS = frozenset(map(int, Compression))


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
