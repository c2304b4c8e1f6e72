"""Lines as they are in stored blocks, which may be compressed: a protocol of blocks, and slices of several."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers, Mask


class CompressedChunk(NamedTuple):
    """The rows or values of a block's lines, as they are stored, verified.

    `width` is the length of each value; 0: there are offsets. `compression` is as in codecs.py.
    """

    stored: pa.Buffer
    compression: int
    raw_bytes: int
    width: int


class LineNumbers(NamedTuple):
    """Timestamps or write numbers of lines, which are those of these columns; the shape is as in Lines."""

    numbers: Integers
    qualifiers: tuple[bytes, ...]


class StoredBlock(Protocol):
    """A block of lines as it is stored, no row of which has several lines. Used by one thread.

    It may be read from its file when it is first needed. Methods, and the sizes, raise CorruptionError for damage.
    Columns have their qualifiers as names; None names the rows.
    """

    @property
    def line_count(self) -> int: ...

    @property
    def reader(self) -> BlockReader:
        """The reader of this block, which reads its neighbours, too."""

    @property
    def layout(self) -> Hashable:
        """Blocks with equal layouts have the same columns, of the same widths, and lack cells in the same columns."""

    @property
    def stored_bytes(self) -> int:
        """About the bytes of the rows and of the columns that are read."""

    @property
    def raw_bytes(self) -> int:
        """The same before compression."""

    @property
    def first_row(self) -> bytes: ...

    @property
    def last_row(self) -> bytes: ...

    @property
    def timestamps(self) -> LineNumbers:
        """The timestamps of the columns that were read."""

    @property
    def write_numbers(self) -> LineNumbers:
        """The write numbers of the columns that were read."""

    def has(self, name: bytes) -> bool:
        """Whether the column was read, and some line has a cell of it."""

    def chunk(self, name: bytes | None) -> CompressedChunk:
        """The rows or values of all lines."""

    def values(self, name: bytes | None) -> Column:
        """The same, decompressed, as fixed-size binary or binary; bytes under a null are undefined."""

    def width(self, name: bytes | None) -> int:
        """The length of each of these values; 0: they may have different ones, or the block has no such column."""

    def is_complete(self, name: bytes) -> bool:
        """Whether the column was read, and each line has a cell of it."""

    def present(self, name: bytes) -> Mask | None:
        """Which lines have a cell of the column; None: all."""


class BlockSlice(NamedTuple):
    """The lines [start, stop) of a block."""

    block: StoredBlock
    start: int
    stop: int


class BlockReader(Protocol):
    """Reads some blocks of a source together. Used by one thread."""

    @property
    def leaves_unread(self) -> bool:
        """Whether values are best read when they are answered, straight to their targets."""

    @property
    def bytes_held(self) -> int:
        """The memory of what it has read, except for values that it has read straight to targets."""

    def values_into(
        self, slices: Sequence[BlockSlice], names: Sequence[bytes | None], targets: Sequence[memoryview]
    ) -> None:
        """Writes values of several columns, each of one length, to the targets, slice after slice of its blocks.

        There is a slice at least. A target has exactly the bytes of its column. Raises CorruptionError for damage.
        """


@dataclass(frozen=True)
class StoredLines:
    """Slices of blocks, one after the other; none is empty. Immutable."""

    slices: tuple[BlockSlice, ...]
    _last_slice: list[tuple[int, int, StoredLines]] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def joined(cls, parts: Iterable[StoredLines]) -> StoredLines:
        """Returns the lines of all parts, one after the other."""
        return cls(tuple([each for part in parts for each in part.slices]))

    @cached_property
    def counts(self) -> Sequence[int]:
        """The number of lines of each slice."""
        return [stop - start for _, start, stop in self.slices]

    @cached_property
    def _bounds(self) -> Sequence[int]:
        """Where each slice begins, and at last where the last one ends."""
        return list(accumulate(self.counts, initial=0))

    @property
    def line_count(self) -> int:
        """The number of lines."""
        return self._bounds[-1]

    @cached_property
    def layouts(self) -> Sequence[StoredBlock]:
        """A block of each layout, so that what they have in common is found once."""
        return list({block.layout: block for block, _, _ in self.slices}.values())

    @cached_property
    def stored_bytes(self) -> int:
        """The bytes of the blocks, whole, as far as they were read."""
        return sum([block.stored_bytes for block, _, _ in self.slices])

    @cached_property
    def raw_bytes(self) -> int:
        """About the bytes of the lines before compression."""
        return int(self._bytes_of_slices.sum())

    @cached_property
    def _bytes_of_slices(self) -> Integers:
        shares = [block.raw_bytes * (stop - start) // block.line_count for block, start, stop in self.slices]
        return np.array(shares, np.int64)

    def slice(self, start: int, count: int) -> StoredLines:
        """Returns `count` lines from `start` on. The columns of a table ask for the same slice one after the other."""
        if start == 0 and count == self.line_count:
            return self
        for last_start, last_count, last in self._last_slice:
            if (last_start, last_count) == (start, count):
                return last
        assert 0 <= start <= start + count <= self.line_count, f"{count} lines from {start} on, of {self.line_count}"
        slices: list[BlockSlice] = []
        if count:
            bounds, end = self._bounds, start + count
            before, after = bisect_right(bounds, start) - 1, bisect_left(bounds, end)
            slices += self.slices[before:after]
            block, first, stop = slices[0]
            slices[0] = BlockSlice(block, first + start - bounds[before], stop)
            block, first, stop = slices[-1]
            slices[-1] = BlockSlice(block, first, stop - (bounds[after] - end))
        sliced = StoredLines(tuple(slices))
        self._last_slice[:] = [(start, count, sliced)]
        return sliced

    def values_into(self, names: Sequence[bytes | None], targets: Sequence[memoryview]) -> None:
        """Writes the values of several columns, each of one length, to the targets, which have exactly their bytes.

        There is a line at least.
        """
        of_readers = [(reader, list(slices)) for reader, slices in groupby(self.slices, attrgetter("block.reader"))]
        if len(of_readers) == 1:
            of_readers[0][0].values_into(self.slices, names, targets)
            return
        counts = [sum([stop - start for _, start, stop in slices]) for _, slices in of_readers]
        parts = zip(*parts_of(targets, counts), strict=True)
        for (reader, slices), of_reader in zip(of_readers, parts, strict=True):
            reader.values_into(slices, names, of_reader)

    def bytes_before(self, places: Integers) -> Integers:
        """Returns about how many bytes of lines come before each of the places."""
        byte_bounds = np.cumsum([0, *self._bytes_of_slices])
        before: Integers = np.interp(places, self._bounds, byte_bounds).astype(np.int64)
        return before


def parts_of(targets: Sequence[memoryview], counts: Sequence[int]) -> list[list[memoryview]]:
    """Divides the memory of values into parts for so many values each; returns the parts of each target.

    Values of one target have one length. The counts have a sum of at least 1.
    """
    places = list(accumulate(counts, initial=0))
    slices_of: dict[int, list[slice]] = {}  # by the length of values
    for width in {target.nbytes // places[-1] for target in targets}:
        bounds = [width * place for place in places]
        slices_of[width] = list(map(slice, bounds, bounds[1:]))
    return [list(map(target.__getitem__, slices_of[target.nbytes // places[-1]])) for target in targets]
