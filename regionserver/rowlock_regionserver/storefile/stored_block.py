"""Wide blocks as a scan passes them on: chunks that stay compressed until their values are needed.

The blocks of one window share a reader. A block is read when somebody first needs a chunk of it: with its neighbours if
the scan wants most columns, else only the chunks of the columns that it wants.

If the scan wants most columns, and their values are stored as they are and have one length, the block is read in place:
first its directory and keys, then its values, straight to their places in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Mask, unpacked_bits
from rowlock_regionserver.arrow.compressed_columns import value_array
from rowlock_regionserver.arrow.stored_lines import CompressedChunk, LineNumbers
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.block_file import ReadAhead
from rowlock_regionserver.storefile.block_keys import BlockKeys
from rowlock_regionserver.storefile.wide_blocks import MOST_SHARE_MIN, WideBlocks
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import Form
from rowlock_regionserver.storefile.wide_lines import places_of, timestamps_of, write_numbers_of

# The number of the chunk with the rows.
_ROWS = 0
# In a window of fewer blocks most are answered in part, and so read whole.
_IN_PLACE_BLOCKS_MIN = 3
# Where plain values are less of what is answered, it may be sent as it is stored (scan/compressed_rows.py).
_PLAIN_SHARE_MIN = 0.75


class Shares(NamedTuple):
    """How much of a block is rows and wanted columns: of its bytes on the disk, and of those before compression.

    `are_plain`: each of these columns has a value of one length for each line, stored as it is, and no chunk beside it;
    and these values are most of the bytes.
    """

    stored: float
    raw: float
    are_plain: bool


def shares_of(directory: Directory, wanted: LinesWanted) -> Shares:
    """Returns the shares of a block; those of the other blocks of its file are alike."""
    form, starts, raw_bytes = directory.form, directory.starts, directory.raw_bytes
    columns = [form.columns[place] for place in places_of(directory, wanted)]
    numbers = [column.values for column in columns]
    value_bytes = sum([raw_bytes[number] for number in numbers])
    if not wanted.without_rows:
        numbers.append(_ROWS)
    wanted_bytes = sum([raw_bytes[number] for number in numbers])
    return Shares(
        sum([starts[number + 1] - starts[number] for number in numbers]) / starts[-1],
        wanted_bytes / sum(raw_bytes),
        value_bytes > _PLAIN_SHARE_MIN * wanted_bytes
        and all(directory.is_plain(column.values) and len(column.numbers()) == 1 for column in columns),
    )


class StoredBlocks:
    """Reads the blocks of one window. Used by one thread."""

    def __init__(self, blocks: WideBlocks, numbers: range, wanted: LinesWanted, shares: Shares) -> None:
        index = blocks.index
        byte_count = sum([index.payload_bytes[number] for number in numbers])
        self.blocks = blocks
        self.wanted = wanted
        self.shares = shares
        self._ahead = ReadAhead(blocks.file, index, numbers, byte_count, byte_count)
        self._takes_most = shares.stored > MOST_SHARE_MIN
        self._reads_in_place = self._takes_most and shares.are_plain and len(numbers) >= _IN_PLACE_BLOCKS_MIN

    def read_keys(self, number: int) -> BlockKeys | None:
        """Returns the keys of a block whose values are to be read in place, else None."""
        if self._reads_in_place and self.blocks.cached(number) is None:
            return self.blocks.keys(number)
        return None

    def read(self, number: int, *, alone: bool = False) -> tuple[WideChunks, Mapping[int, bytes]]:
        """Returns the chunks of a block, and those that are decompressed already. alone: reads no neighbours."""
        blocks = self.blocks
        cached = blocks.cached(number)
        if cached is not None:
            return cached.chunks()
        if not self._takes_most:
            return blocks.some_chunks(number, self.wanted)[0], {}
        return blocks.whole(number, None if alone else self._ahead), {}


class StoredWideBlock:
    """The rows of a block, and the columns that are wanted; see StoredBlock."""

    def __init__(self, reader: StoredBlocks, number: int) -> None:
        index = reader.blocks.index
        self._reader = reader
        self._number = number
        self.line_count = index.line_counts[number]
        self.first_row = index.first_rows[number]
        self.last_row = index.last_rows[number]
        self.stored_bytes = int(index.payload_bytes[number] * reader.shares.stored)
        self.raw_bytes = int(index.raw_bytes[number] * reader.shares.raw)

    @cached_property
    def _read(self) -> tuple[WideChunks, Mapping[int, bytes]]:
        return self._reader.read(self._number)

    @cached_property
    def _keys(self) -> BlockKeys | None:
        """The keys, if the values are to be read in place."""
        return self._reader.read_keys(self._number)

    @cached_property
    def _directory(self) -> Directory:
        return (self._keys or self._read[0]).directory

    @cached_property
    def _form(self) -> Form:
        return self._directory.form

    @property
    def layout(self) -> tuple[int, int]:
        """The form and what is wanted of it, as the blocks of a table mostly share them."""
        return id(self._form), id(self._reader.wanted)

    @property
    def qualifiers(self) -> tuple[bytes, ...]:
        """The columns of the block, ascending."""
        return self._form.qualifiers

    @cached_property
    def timestamps(self) -> LineNumbers:
        """The timestamps of the columns that were read."""
        return timestamps_of(self._directory, self._raw, self._reader.wanted)

    @cached_property
    def write_numbers(self) -> LineNumbers:
        """The write numbers of the columns that were read."""
        return write_numbers_of(self._directory, self._raw, self._reader.wanted)

    def has(self, name: bytes) -> bool:
        """Whether the column was read, and some line has a cell of it."""
        columns = self._reader.wanted.columns
        return name in self._form.place_of and (columns is None or name in columns)

    def chunk(self, name: bytes | None) -> CompressedChunk:
        """The rows or values of all lines."""
        chunks, kept = self._read
        number = self._form.values_of[name]
        raw = kept.get(number)
        if raw is None:
            return (chunks if chunks.has(number) else self._keys_apart).stored(number)
        return CompressedChunk(
            pa.py_buffer(raw), Compression.NONE, len(raw), chunks.directory.form.chunks[number].width
        )

    def values(self, name: bytes | None) -> Column:
        """The same, decompressed, as fixed-size binary or binary; bytes under a null are undefined."""
        return value_array(self._raw(self._form.values_of[name]), self.line_count, self.width(name))

    def values_into(self, names: Sequence[bytes | None], start: int, stop: int, targets: Sequence[memoryview]) -> None:
        """Writes the values of the lines [start, stop) of several columns, each of one length, to the targets.

        The targets have exactly their bytes.
        """
        numbers = list(map(self._form.values_of.__getitem__, names))
        if self._are_read_in_place(numbers):
            if stop - start == self.line_count:
                self._reader.blocks.read_chunks(self._number, self._directory, numbers, targets)
                return
            # A part of a chunk can't be verified: its checksum is that of all lines. The neighbours are read in place.
            self._read = self._reader.read(self._number, alone=True)
        for target, raw in zip(targets, self._raws(numbers), strict=True):
            width = target.nbytes // (stop - start)
            target[:] = memoryview(raw)[start * width : stop * width]

    def _are_read_in_place(self, numbers: Sequence[int]) -> bool:
        if self._keys is None or _ROWS in numbers or "_read" in vars(self):
            return False
        return all(map(self._directory.is_plain, numbers))

    def _raws(self, numbers: Sequence[int]) -> list[pa.Buffer]:
        if self._keys is None or _ROWS not in numbers:
            chunks, kept = self._read
            if not kept and all(map(chunks.has, numbers)):
                return chunks.raws(numbers)
        return list(map(self._raw, numbers))

    def width(self, name: bytes | None) -> int:
        """The length of each of these values; 0: they may have different ones, or the block has no such column."""
        form = self._form
        return form.chunks[form.values_of[name]].width if name is None or self.has(name) else 0

    def is_complete(self, name: bytes) -> bool:
        """Whether the column was read, and each line has a cell of it."""
        form = self._form
        return self.has(name) and form.columns[form.place_of[name]].validity is None

    def present(self, name: bytes) -> Mask | None:
        """Which lines have a cell of the column; None: all."""
        form = self._form
        validity = form.columns[form.place_of[name]].validity
        if validity is None:
            return None
        return unpacked_bits(self._raw(validity), self.line_count)

    def _raw(self, number: int) -> pa.Buffer:
        if self._keys is not None and self._keys.has(number):
            return self._keys.raw(number)
        chunks, kept = self._read
        raw = kept.get(number)
        if raw is not None:
            return pa.py_buffer(raw)
        return chunks.raw(number) if chunks.has(number) else self._keys_apart.raw(number)

    @cached_property
    def _keys_apart(self) -> BlockKeys:
        """The keys of a block of which only columns were read."""
        return self._reader.blocks.keys(self._number)
