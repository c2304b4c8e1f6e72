"""The form of a wide block: which columns it has, and which chunks each column has.

    column count: 4 bytes
    for each chunk, 8 bytes: kind, a zero, column (2 bytes), width (4 bytes)
    for each column, 4 bytes: end of its qualifier, in the bytes that follow
    the qualifiers, one after the other

The chunks follow one another by kind and column as in `Kind`: so the keys of all lines are neighbours, and so are the
chunks of each column. The blocks of a table are mostly of few forms, so a parsed form is kept for later blocks.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

from rowlock_regionserver.storefile.codecs import known_compressions

_COUNT = struct.Struct("<I")
_CHUNK = struct.Struct("<BxHI")
# The number of the chunk with the rows.
ROWS_CHUNK = 0
# A larger form is parsed for each block. All that are kept take less than 30 MiB.
KEPT_BYTES_MAX = 4096
# Of a parsed form, for each column; its names are usually short.
_COLUMN_MEMORY_BYTES = 1300


class Kind(IntEnum):
    """What a chunk holds. First the keys of the lines, then column by column, each in this order."""

    ROWS = 0
    TIMESTAMPS = 1  # one a line
    WRITE_NUMBERS = 2  # one a line
    VALIDITY = 3  # a bit a line, the least significant first: 1 where the line has a cell
    COLUMN_TIMESTAMPS = 4  # one a line, of one column
    COLUMN_WRITE_NUMBERS = 5
    VALUES = 6


_NUMBERS = frozenset({Kind.TIMESTAMPS, Kind.WRITE_NUMBERS, Kind.COLUMN_TIMESTAMPS, Kind.COLUMN_WRITE_NUMBERS})


class ChunkForm(NamedTuple):
    """One chunk. `width` is the length of each row or value; 0: they have different lengths, or it has neither."""

    kind: int
    column: int
    width: int

    @property
    def value_bytes(self) -> int:
        """The length of each value or number; 0 if there is none."""
        return 8 if self.kind in _NUMBERS else self.width


class ChunkSize(NamedTuple):
    """What the bytes of a chunk must be.

    line_bytes: for each line; 0: there are offsets and at least their bytes, or else a bit for each line.
    compressions: how it may be compressed.
    """

    line_bytes: int
    has_offsets: bool
    compressions: frozenset[int]

    @classmethod
    def of(cls, chunk: ChunkForm) -> ChunkSize:
        """Raises ValueError for a width of a chunk that has neither rows nor values."""
        has_values = chunk.kind in (Kind.ROWS, Kind.VALUES)
        require(has_values or not chunk.width, f"a width of {chunk}")
        return cls(chunk.value_bytes, has_values, known_compressions(chunk.value_bytes))


class ColumnChunks(NamedTuple):
    """The chunks of one column, by their numbers in the block; None where it has none."""

    validity: int | None  # None: every line has a cell
    timestamps: int | None
    write_numbers: int | None
    values: int

    def numbers(self) -> range:
        """Returns the numbers of all of them, which are neighbours."""
        return range(self.values + 1 - sum([number is not None for number in self]), self.values + 1)


@dataclass(frozen=True, slots=True)
class Form:
    """A parsed form. Immutable."""

    chunks: tuple[ChunkForm, ...]
    sizes: tuple[ChunkSize, ...]
    qualifiers: tuple[bytes, ...]
    place_of: Mapping[bytes, int]  # by qualifier
    values_of: Mapping[bytes | None, int]  # the chunk of each column's values, by qualifier; None: the rows
    timestamps: int | None  # the chunk of the lines' timestamps
    write_numbers: int | None
    columns: tuple[ColumnChunks, ...]

    @property
    def bytes_held(self) -> int:
        """About the memory that a block's directory keeps alive with the form; 0 if other blocks share it."""
        qualifiers = self.qualifiers
        encoded = _COUNT.size * (1 + len(qualifiers)) + _CHUNK.size * len(self.chunks) + sum(map(len, qualifiers))
        return 0 if encoded <= KEPT_BYTES_MAX else _COLUMN_MEMORY_BYTES * len(qualifiers)

    @property
    def key_chunks(self) -> range:
        """The chunks with the keys of all lines: rows, timestamps and write numbers."""
        return range(1 + (self.timestamps is not None) + (self.write_numbers is not None))


def encode(chunks: Sequence[ChunkForm], qualifiers: Sequence[bytes]) -> bytes:
    """Returns the bytes of a form."""
    return b"".join(
        [
            _COUNT.pack(len(qualifiers)),
            *[_CHUNK.pack(*chunk) for chunk in chunks],
            *[_COUNT.pack(end) for end in accumulate(map(len, qualifiers))],
            *qualifiers,
        ]
    )


def decode(form: bytes, chunk_count: int) -> Form:
    """Returns the parsed form. Raises ValueError or struct.error when it contradicts itself."""
    return _kept(form, chunk_count) if len(form) <= KEPT_BYTES_MAX else _parsed(form, chunk_count)


@functools.lru_cache(maxsize=256)
def _kept(form: bytes, chunk_count: int) -> Form:
    return _parsed(form, chunk_count)


def _parsed(form: bytes, chunk_count: int) -> Form:
    (column_count,) = _COUNT.unpack_from(form)
    stop = _COUNT.size + chunk_count * _CHUNK.size
    ends_stop = stop + column_count * _COUNT.size
    require(ends_stop <= len(form), f"{chunk_count} chunks and {column_count} columns in {len(form)} bytes")
    chunks = tuple(map(ChunkForm._make, _CHUNK.iter_unpack(form[_COUNT.size : stop])))
    ends = [0, *[end for (end,) in _COUNT.iter_unpack(form[stop:ends_stop])]]
    require(ends_stop + ends[-1] == len(form), f"qualifiers of {ends[-1]} bytes")
    qualifiers = tuple([form[ends_stop + start : ends_stop + end] for start, end in pairwise(ends)])
    require(all(before < after for before, after in pairwise(qualifiers)), "qualifiers out of order")
    expected = _Expected(chunks)
    require(expected.take(Kind.ROWS) is not None, "no rows")
    timestamps, write_numbers = expected.take(Kind.TIMESTAMPS), expected.take(Kind.WRITE_NUMBERS)
    columns = tuple(expected.columns(column_count))
    require(expected.number == chunk_count, f"chunk {expected.number} out of place")
    for by_line, of_columns in (
        (timestamps, {column.timestamps is not None for column in columns}),
        (write_numbers, {column.write_numbers is not None for column in columns}),
    ):
        require(len(of_columns) <= 1 and not (by_line is not None and True in of_columns), "numbers in two forms")
    place_of = {qualifier: place for place, qualifier in enumerate(qualifiers)}
    values_of: dict[bytes | None, int] = {None: 0}
    values_of.update(zip(qualifiers, [column.values for column in columns], strict=True))
    sizes = tuple(map(ChunkSize.of, chunks))
    return Form(chunks, sizes, qualifiers, place_of, values_of, timestamps, write_numbers, columns)


class _Expected:
    """Takes the chunks in their order."""

    def __init__(self, chunks: Sequence[ChunkForm]) -> None:
        self._chunks = chunks
        self.number = 0

    def take(self, kind: Kind, column: int = 0) -> int | None:
        """Returns the number of the next chunk and passes it, if it is the one of this kind and column."""
        number = self.number
        if number < len(self._chunks) and self._chunks[number][:2] == (kind, column):
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
            yield ColumnChunks(validity, timestamps, write_numbers, values)


def require(condition: bool, problem: str) -> None:
    """Raises ValueError with the problem if the condition does not hold."""
    if not condition:
        raise ValueError(problem)
