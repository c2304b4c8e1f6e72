"""Wide blocks as a scan passes them on: chunks that stay compressed until their values are needed.

The blocks of one window share a reader. A block is read when somebody first needs a chunk of it: with its neighbours if
the scan wants most columns, else only the chunks of the columns that it wants.

If the scan wants most columns, and their values are stored as they are and have one length, the blocks are read in
place: the directories and keys of all of them when the window begins, then the values, straight to their places in the
answer. The values may stay unread until then (`leaves_unread`): each batch of the answer reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Mask, unpacked_bits
from rowlock_regionserver.arrow.compressed_columns import value_array
from rowlock_regionserver.arrow.stored_lines import BlockSlice, CompressedChunk, LineNumbers, parts_of
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.block_file import ReadAhead
from rowlock_regionserver.storefile.block_keys import BlockKeys
from rowlock_regionserver.storefile.shares import Shares, shares_of
from rowlock_regionserver.storefile.wide_blocks import MOST_SHARE_MIN, ChunkRead, WideBlocks
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import ROWS_CHUNK, Form
from rowlock_regionserver.storefile.wide_lines import timestamps_of, write_numbers_of

# In a window of fewer blocks most are answered in part, and so read whole.
_IN_PLACE_BLOCKS_MIN = 3


class StoredBlocks:
    """Reads the blocks of one window. Used by one thread."""

    def __init__(
        self,
        blocks: WideBlocks,
        numbers: range,
        wanted: LinesWanted,
        shares: Shares,
        other: StoredBlocks | None = None,
    ) -> None:
        """`other` is a reader of these blocks, and of more, which found their keys."""
        index = blocks.index
        byte_count = sum([index.payload_bytes[number] for number in numbers])
        self.blocks = blocks
        self.numbers = numbers
        self.wanted = wanted
        self.shares = shares
        self._ahead = ReadAhead(blocks.file, index, numbers, byte_count, byte_count)
        self._takes_most = shares.stored > MOST_SHARE_MIN
        reads_in_place = self._takes_most and shares.are_plain and len(numbers) >= _IN_PLACE_BLOCKS_MIN
        # If values are read in place: the keys of the blocks that are not cached, and the directories of the others.
        self.keys: Mapping[int, BlockKeys] = {}
        self.directories: Mapping[int, Directory] = {}
        if reads_in_place and other is not None:
            self.keys = {number: other.keys[number] for number in numbers if number in other.keys}
            self.directories = {number: each for number, each in other.directories.items() if number in numbers}
        elif reads_in_place:
            self.keys, self.directories = blocks.keys_or_directories(numbers)
        self._bytes_read = 0
        self._chosen: _ChosenChunks | None = None  # those that were read last

    @cached_property
    def leaves_unread(self) -> bool:
        """Whether the values of the blocks that are not cached are best read when they are answered.

        Then the blocks are small, judged by one of each kind, and have the same columns, all that are wanted, with
        values of the same lengths.
        """
        if not self.keys:
            return False
        every = [*[keys.directory for keys in self.keys.values()], *self.directories.values()]
        alike = {(id(directory.form), directory.compressions): directory for directory in every}
        form, *others = [directory.form for directory in alike.values()]
        return all((each.qualifiers, each.chunks) == (form.qualifiers, form.chunks) for each in others) and all(
            shares_of(directory, self.wanted).may_stay_unread for directory in alike.values()
        )

    @property
    def bytes_held(self) -> int:
        """The memory of what was read, except for values that were read in place."""
        return self._key_bytes + self._bytes_read

    @cached_property
    def _key_bytes(self) -> int:
        return sum([keys.bytes_held for keys in self.keys.values()])

    def read(self, number: int) -> _HeldChunks:
        """Returns the chunks of a block, which count until they are released."""
        held = self._chunks_of(number)
        self._bytes_read += held.bytes_held
        return held

    def release(self, held: _HeldChunks) -> None:
        """Counts the chunks no longer."""
        self._bytes_read -= held.bytes_held

    def _chunks_of(self, number: int) -> _HeldChunks:
        blocks = self.blocks
        cached = blocks.cached(number)
        if cached is not None:
            return _HeldChunks(*cached.chunks())
        if not self._takes_most:
            return _HeldChunks(blocks.some_chunks(number, self.wanted)[0], {})
        # The neighbours of a block of which only a part is answered are read in place.
        return _HeldChunks(blocks.whole(number, None if self.keys else self._ahead), {})

    def values_into(
        self, slices: Sequence[BlockSlice], names: Sequence[bytes | None], targets: Sequence[memoryview]
    ) -> None:
        """Writes values of several columns, each of one length, to the targets; see BlockReader."""
        counts = [stop - start for _, start, stop in slices]
        if names == [None]:
            _rows_into(slices, *parts_of(targets, counts))
            return
        parts_of_slices = zip(*parts_of(targets, counts), strict=True)
        reads: list[ChunkRead] = []
        chosen = None if self._chosen is None or self._chosen.names != names else self._chosen
        for (block, start, stop), parts in zip(slices, parts_of_slices, strict=True):
            assert isinstance(block, StoredWideBlock), type(block)
            directory = block.directory
            if chosen is None or not chosen.are_of(directory):
                self._read_in_place(chosen, reads)
                chosen = self._chosen = _ChosenChunks(directory, names)
            in_order = parts if chosen.order is None else [parts[place] for place in chosen.order]
            # A part of a chunk is not read in place: its checksum is that of all lines.
            if chosen.are_plain and block.is_unread and stop - start == block.line_count:
                reads.append(ChunkRead(block.number, directory, in_order))
            else:
                block.chunks_into(chosen.numbers, start, stop, in_order)
        self._read_in_place(chosen, reads)

    def _read_in_place(self, chosen: _ChosenChunks | None, reads: list[ChunkRead]) -> None:
        """Makes the reads, which are of the chosen chunks, and removes them from the list."""
        if chosen is not None and reads:
            self.blocks.read_chunks(chosen.numbers, reads)
            reads.clear()


def _rows_into(slices: Sequence[BlockSlice], parts: Sequence[memoryview]) -> None:
    """Writes the rows of the slices, which have one length, to the parts."""
    for (block, start, stop), part in zip(slices, parts, strict=True):
        assert isinstance(block, StoredWideBlock), type(block)
        width = part.nbytes // (stop - start)
        part[:] = memoryview(block.raw_rows)[start * width : stop * width]


class _HeldChunks(NamedTuple):
    """The chunks of a block as they are stored, and those that are decompressed already."""

    chunks: WideChunks
    kept: Mapping[int, bytes]

    @property
    def bytes_held(self) -> int:
        return self.chunks.bytes_held + sum(map(len, self.kept.values()))


class _ChosenChunks:
    """The chunks of some columns, in the blocks whose directories are alike."""

    def __init__(self, directory: Directory, names: Sequence[bytes | None]) -> None:
        self._form = directory.form
        self._compressions = directory.compressions
        self.names = names
        numbers = list(map(self._form.values_of.__getitem__, names))
        assert len(set(numbers)) == len(numbers), f"a column twice: {names}"
        self.numbers = sorted(numbers)
        # The places of the columns in the order of the numbers; None: they are in that order.
        self.order = None if numbers == self.numbers else sorted(range(len(numbers)), key=numbers.__getitem__)
        # Whether they are values that are stored as they are.
        self.are_plain = all(map(directory.is_plain, numbers))

    def are_of(self, directory: Directory) -> bool:
        """Returns whether they are the chunks in a block with this directory, too."""
        return directory.form is self._form and directory.compressions == self._compressions


class StoredWideBlock:
    """The rows of a block, and the columns that are wanted; see StoredBlock."""

    def __init__(self, reader: StoredBlocks, number: int) -> None:
        index = reader.blocks.index
        self.reader = reader
        self.number = number
        self.line_count = index.line_counts[number]
        self._index = index
        self._keys = keys = reader.keys.get(number)
        self._directory = reader.directories.get(number) if keys is None else keys.directory
        self._chunks: _HeldChunks | None = None

    @property
    def _read(self) -> _HeldChunks:
        """The chunks, which it keeps once it has read them."""
        if self._chunks is None:
            self._chunks = self.reader.read(self.number)
        return self._chunks

    @property
    def stored_bytes(self) -> int:
        """About the bytes of the rows and of the columns that are read."""
        return int(self._index.payload_bytes[self.number] * self.reader.shares.stored)

    @property
    def raw_bytes(self) -> int:
        """The same before compression."""
        return int(self._index.raw_bytes[self.number] * self.reader.shares.raw)

    @property
    def first_row(self) -> bytes:
        return self._index.first_rows[self.number]

    @property
    def last_row(self) -> bytes:
        return self._index.last_rows[self.number]

    @property
    def directory(self) -> Directory:
        """The directory, for which the block may have to be read."""
        if self._directory is None:
            self._directory = self._read.chunks.directory
        return self._directory

    @property
    def _form(self) -> Form:
        return self.directory.form

    @property
    def is_unread(self) -> bool:
        """Whether the values are to be read in place."""
        return self._keys is not None and self._chunks is None

    @property
    def layout(self) -> tuple[int, int]:
        """The form and what is wanted of it, as the blocks of a table mostly share them."""
        return id(self._form), id(self.reader.wanted)

    @property
    def qualifiers(self) -> tuple[bytes, ...]:
        """The columns of the block, ascending."""
        return self._form.qualifiers

    @property
    def timestamps(self) -> LineNumbers:
        """The timestamps of the columns that were read."""
        found = None if self._keys is None else self._keys.timestamps
        if found is None:
            found = timestamps_of(self.directory, self._raw, self.reader.wanted)
            self._release()
        return found

    @property
    def write_numbers(self) -> LineNumbers:
        """The write numbers of the columns that were read."""
        found = write_numbers_of(self.directory, self._raw, self.reader.wanted)
        self._release()
        return found

    def has(self, name: bytes) -> bool:
        """Whether the column was read, and some line has a cell of it."""
        columns = self.reader.wanted.columns
        return name in self._form.place_of and (columns is None or name in columns)

    @property
    def raw_rows(self) -> pa.Buffer:
        """The chunk of all rows, decompressed."""
        return self._raw(ROWS_CHUNK) if self._keys is None else self._keys.raw(ROWS_CHUNK)

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

    def chunks_into(self, numbers: Sequence[int], start: int, stop: int, targets: Sequence[memoryview]) -> None:
        """Writes the lines [start, stop) of some chunks, each with values of one length, to the targets.

        The targets have exactly their bytes.
        """
        for target, raw in zip(targets, self._raws(numbers), strict=True):
            width = target.nbytes // (stop - start)
            target[:] = memoryview(raw)[start * width : stop * width]
        if stop == self.line_count:
            self._release()  # The next batch begins with the next block.

    def _release(self) -> None:
        """Drops the chunks if each batch reads its own rows; else the window keeps them."""
        if self._chunks is not None and self.reader.leaves_unread:
            self.reader.release(self._chunks)
            self._chunks = None

    def _raws(self, numbers: Sequence[int]) -> list[pa.Buffer]:
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
        return self.reader.blocks.keys(self.number)
