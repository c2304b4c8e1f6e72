"""Reads the wide blocks of one run of a store file by their numbers: whole, or only the columns that are wanted.

A block that a point read needs is read whole, and cached as it is on the disk; its columns are decompressed when they
are needed. A bulk read of all columns reads neighbouring blocks together. One of few columns reads a block's directory
and keys, and then only the chunks of these columns. Where values are stored as they are, a bulk read may take a block's
keys first, and read the values into memory of its own then (`read_chunks`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, TypeVarTuple

import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.few_rows import FewRows, LineFacts
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell, FoundLine
from rowlock_regionserver.sources import EVERY_LINE, LinesWanted
from rowlock_regionserver.storefile import wide_directory
from rowlock_regionserver.storefile.adopted_numbers import AS_WRITTEN, AdoptedNumbers
from rowlock_regionserver.storefile.block_file import AtOnce, BlockFile, ReadAhead
from rowlock_regionserver.storefile.block_keys import BlockKeys
from rowlock_regionserver.storefile.chunk_reads import close_runs, scattered_reads
from rowlock_regionserver.storefile.extents import read_exactly, read_into, read_start
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.wide_block import WideBlock
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_index import OlderIndex, WideIndex
from rowlock_regionserver.storefile.wide_lines import chunks_of, decoded_lines

# In the cache the numbers of cell blocks begin at 0, and those of the keys of wide blocks, of the blocks themselves and
# of their directories here. All are less than 1 << 32.
_FIRST_KEYS, _FIRST_BLOCK, _FIRST_DIRECTORY = 1 << 30, 1 << 31, 3 << 30
# The numbers of older lines begin this much later.
_OLDER = 1 << 29
# About the memory of a directory.
_DIRECTORY_BYTES = 2500
# A bulk read that needs more of a block's bytes than this reads its blocks whole, with their neighbours, or in place.
MOST_SHARE_MIN = 0.5

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ChunkRead(NamedTuple):
    """A block, and the memory for some of its chunks, which has their lengths."""

    number: int
    directory: Directory
    targets: Sequence[memoryview]


class WideBlocks:
    """The wide blocks of one run of a store file. Thread-safe.

    Reads block on the disk unless their docstring says otherwise, and raise CorruptionError for damage.
    """

    def __init__(self, file: BlockFile, index: WideIndex, numbers: AdoptedNumbers = AS_WRITTEN) -> None:
        self.file = file
        self.index = index
        self._numbers = numbers
        later = _OLDER if isinstance(index, OlderIndex) else 0
        self._first_block, self._first_directory = _FIRST_BLOCK + later, _FIRST_DIRECTORY + later
        self._first_keys = _FIRST_KEYS + later
        # Those of a very large file would displace the blocks that point reads use.
        self._keeps_directories = _DIRECTORY_BYTES * len(index) <= file.cache_bytes_max // 16
        # Whether keys are cached; None: not known yet, because none were read.
        self._keeps_keys: bool | None = None

    def held(self, number: int) -> HeldBlock:
        """Returns a block, and caches it."""
        return HeldBlock(self, number, self.block(number))

    def held_in_memory(self, number: int) -> HeldBlock | None:
        """Returns a block that is cached, or that can be loaded without waiting for a disk; else None."""
        block = self.cached(number)
        if block is None and self.try_load(number):
            block = self.cached(number)
        return None if block is None else HeldBlock(self, number, block)

    def try_load(self, number: int) -> bool:
        """Loads a block if that needs no disk; see BlockFile."""
        return self.file.try_load(
            self._first_block + number,
            self.index.extent(number),
            lambda payload: WideBlock(self.chunks(number, payload)),
        )

    def loader(self, numbers: range, bytes_ahead: int, wanted: LinesWanted | None) -> WideLoader:
        """Returns a loader of these blocks for a bulk read, which reads `bytes_ahead` together if it wants all columns.

        It caches nothing by itself.
        """
        return WideLoader(self, ReadAhead(self.file, self.index, numbers, bytes_ahead, bytes_ahead), wanted)

    def cached_reader(self, wanted: LinesWanted | None, *, may_wait: bool) -> CachedLoader:
        """Returns a loader for a read of few blocks, which come from the cache and go into it; see CellBlocks."""
        return CachedLoader(self, wanted, may_wait=may_wait)

    def block_at_once(self, number: int, at_once: AtOnce) -> WideBlock:
        """Returns a block without waiting for a disk. Raises WouldWaitError."""
        block = at_once.block(self._first_block + number, partial(self.try_load, number))
        assert isinstance(block, WideBlock)
        return block

    def cached(self, number: int) -> WideBlock | None:
        """Returns the block if it is cached."""
        block = self.file.cached(self._first_block + number)
        assert block is None or isinstance(block, WideBlock)
        return block

    def look_up(self, number: int, block: WideBlock, find: Callable[[*Ts], T], *args: *Ts) -> T:
        """Returns what a method of the block finds, and caches the block again if it has decompressed something."""
        before = block.bytes_held
        try:
            return find(*args)
        finally:
            if block.bytes_held != before:
                self.file.put(self._first_block + number, block)

    def put(self, number: int, chunks: WideChunks) -> None:
        """Caches a block, which was read."""
        self.file.put(self._first_block + number, WideBlock(chunks))

    def chunks(self, number: int, payload: pa.Buffer) -> WideChunks:
        """Returns the chunks of a block's payload."""
        directory = self._directory(number, payload)
        return WideChunks.of_payload(directory, payload, self.file.path, self.index.offsets[number])

    def block(self, number: int) -> WideBlock:
        """Returns a block and caches it."""
        block = self.cached(number)
        if block is None:
            block = WideBlock(self.whole(number))
            self.file.put(self._first_block + number, block)
        return block

    def whole(self, number: int, ahead: ReadAhead | None = None) -> WideChunks:
        """Reads all chunks of a block; `ahead` reads its neighbours with it."""
        payload = None if ahead is None else ahead.payload(number, is_cached=False)
        if payload is None:
            [payload] = self.file.read([self.index.extent(number)])
        return self.chunks(number, payload)

    def _directory(self, number: int, payload: pa.Buffer) -> Directory:
        """Returns the directory, from a verified payload or its start."""
        raw = payload.slice(0, self.index.directory_bytes[number]).to_pybytes()
        place = self.file.path, self.index.offsets[number]
        return self._numbers.of_directory(
            wide_directory.decode(raw, self.index.payload_bytes[number], self.index.line_counts[number], *place)
        )

    def directory(self, number: int) -> Directory:
        """Returns a block's directory."""
        return self._directory_and_keys(number, self.index.directory_bytes[number])[0]

    def keys(self, number: int) -> BlockKeys:
        """Returns the keys of a block, by one read.

        Caches them, verified, if those of the file, as large as the first ones, take an eighth of the cache at most.
        """
        [keys] = self._keys([number])
        return keys

    def keys_or_directories(self, numbers: Sequence[int]) -> tuple[dict[int, BlockKeys], dict[int, Directory]]:
        """Returns the keys, as `keys` does, of the blocks that are not cached, and the directories of cached ones."""
        blocks = self.file.cached_several([self._first_block + number for number in numbers])
        of_numbers = dict(zip(numbers, blocks, strict=True))
        uncached = [number for number, block in of_numbers.items() if block is None]
        directories = {number: block.directory for number, block in of_numbers.items() if isinstance(block, WideBlock)}
        return dict(zip(uncached, self._keys(uncached), strict=True)), directories

    def _keys(self, numbers: Sequence[int]) -> list[BlockKeys]:
        if not self._keeps_keys:
            return list(map(self._read_keys, numbers))
        cached = self.file.cached_several([self._first_keys + number for number in numbers])
        return [
            keys if isinstance(keys, BlockKeys) else self._read_keys(number)
            for number, keys in zip(numbers, cached, strict=True)
        ]

    def _read_keys(self, number: int) -> BlockKeys:
        file = self.file
        directory, start = self._read_start(number, self.index.key_bytes[number])
        file.count(0, start.size)
        chunks = WideChunks(directory, _key_chunks(directory, start), file.path, self.index.offsets[number])
        keys = BlockKeys(chunks, start.size)
        if self._keeps_keys is None:
            self._keeps_keys = keys.bytes_held * len(self.index) <= file.cache_bytes_max // 8
        if self._keeps_keys:
            chunks.check_all()
            file.put(self._first_keys + number, keys)
        return keys

    def read_chunks(self, chunks: Sequence[int], reads: Sequence[ChunkRead]) -> None:
        """Reads these chunks, which ascend and are stored as they are, of some blocks, and verifies them.

        Raises CorruptionError and MemoryError.
        """
        file = self.file
        block_count = byte_count = 0
        try:
            with file.handle as descriptor:
                for number, directory, targets in reads:
                    offset = self.index.offsets[number]
                    for start, pieces in scattered_reads(chunks, targets, directory.starts):
                        place = offset + HEADER_BYTES + start
                        byte_count += read_into(file.files, descriptor, file.path, pieces, place)
                    block_count += 1
                    # At once, while the bytes are in the processor's cache.
                    stored = list(map(pa.py_buffer, targets))
                    if not directory.are_as_written(chunks, stored):
                        WideChunks(directory, dict(zip(chunks, stored, strict=True)), file.path, offset).check_all()
        finally:
            file.count(block_count, byte_count)

    def some_chunks(self, number: int, wanted: LinesWanted) -> tuple[WideChunks, int]:
        """Returns the chunks of a block that are wanted, and the bytes that it read, which are little more than theirs.

        The keys of the lines are among them unless `wanted` is without rows.
        """
        file, index = self.file, self.index
        start_bytes = (index.directory_bytes if wanted.without_rows else index.key_bytes)[number]
        directory, start = self._directory_and_keys(number, start_bytes)
        starts, form = directory.starts, directory.form
        keys = () if wanted.without_rows else form.key_chunks
        stored: dict[int, pa.Buffer] = {}
        byte_count = 0
        if start is not None:
            byte_count = start.size
            if keys:
                stored = _key_chunks(directory, start)
            keys = ()
        payload = index.offsets[number] + HEADER_BYTES
        with file.handle as descriptor:
            for run in close_runs([*keys, *chunks_of(directory, wanted)], starts):
                first, stop = starts[run[0]], starts[run[-1] + 1]
                piece = read_exactly(file.files, descriptor, file.path, stop - first, payload + first)
                byte_count += piece.size
                for chunk in run:
                    stored[chunk] = piece.slice(starts[chunk] - first, starts[chunk + 1] - starts[chunk])
        file.count(1, byte_count)
        return WideChunks(directory, stored, file.path, index.offsets[number]), byte_count

    def _directory_and_keys(self, number: int, byte_count: int) -> tuple[Directory, pa.Buffer | None]:
        """Returns a block's directory, and unless that was cached the start of the payload."""
        file, key = self.file, self._first_directory + number
        cached = file.cached(key) if self._keeps_directories else None
        if cached is not None:
            assert isinstance(cached, Directory), type(cached)
            return cached, None
        directory, start = self._read_start(number, byte_count)
        if self._keeps_directories:
            file.put(key, directory)
        return directory, start

    def _read_start(self, number: int, byte_count: int) -> tuple[Directory, pa.Buffer]:
        """Reads the first `byte_count` bytes of a block's payload; returns its directory and all of them."""
        file = self.file
        with file.handle as descriptor:
            start = read_start(file.files, descriptor, file.path, self.index.extent(number), byte_count)
        return self._directory(number, start), start


class HeldBlock:
    """A block that is in memory, as the source of the row for which it was found."""

    __slots__ = ("_block", "_blocks", "_number")

    def __init__(self, blocks: WideBlocks, number: int, block: WideBlock) -> None:
        self._blocks = blocks
        self._number = number
        self._block = block

    def line(self, row: bytes) -> FoundLine | None:
        """Returns the row if it is one line; see WideBlock.line."""
        return self._blocks.look_up(self._number, self._block, self._block.line, row)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> list[FoundCell]:
        """See RowSource."""
        return self._cells(row, None, cells_max)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> list[FoundCell]:
        """See RowSource. Decompresses only these columns."""
        return self._cells(row, qualifiers, cells_max)

    def _cells(self, row: bytes, qualifiers: Iterable[bytes] | None, cells_max: int) -> list[FoundCell]:
        return self._blocks.look_up(self._number, self._block, self._block.cells, row, qualifiers, cells_max)


class WideLoader:
    """Loads blocks for one bulk read. Used by one thread."""

    def __init__(self, blocks: WideBlocks, ahead: ReadAhead, wanted: LinesWanted | None) -> None:
        self._blocks = blocks
        self._ahead = ahead
        self._wanted = wanted or EVERY_LINE
        self._last: tuple[int, WideChunks] | None = None  # read, and not cached
        self._reads_whole = self._wanted.columns is None

    def has_read(self, number: int) -> bool:
        """Returns whether the block was read with its neighbours, so that it would be wasted to leave it."""
        return self._ahead.has_read(number)

    def load(self, number: int) -> Lines:
        """Returns the lines of the block, with the columns that are wanted."""
        blocks, self._last = self._blocks, None
        cached = blocks.cached(number)
        if cached is not None:
            return cached.lines(self._wanted)
        if not self._reads_whole:
            chunks, byte_count = blocks.some_chunks(number, self._wanted)
            self._reads_whole = byte_count > MOST_SHARE_MIN * blocks.index.payload_bytes[number]
            return decoded_lines(chunks.directory, chunks.raw, self._wanted)
        chunks = blocks.whole(number, self._ahead)
        self._last = number, chunks
        return decoded_lines(chunks.directory, chunks.raw, self._wanted)

    def keep_last(self) -> None:
        """Caches the last block: the next read begins in it."""
        if self._last is not None:
            self._blocks.put(*self._last)


class CachedLoader:
    """Loads blocks by way of the cache, for one read of few. Used by one thread."""

    def __init__(self, blocks: WideBlocks, wanted: LinesWanted | None, *, may_wait: bool) -> None:
        self._blocks = blocks
        self._wanted = wanted or EVERY_LINE
        self._at_once = None if may_wait else AtOnce(blocks.file)

    def has_read(self, number: int) -> bool:
        """Returns False: no neighbours are read."""
        return False

    def load(self, number: int) -> Lines:
        """Returns the lines of the block, with the columns that are wanted. May raise WouldWaitError."""
        block = self.block(number)
        return self._blocks.look_up(number, block, block.kept_lines, self._wanted)

    def block(self, number: int) -> WideBlock:
        """Returns a block for look-ups. May raise WouldWaitError."""
        return (
            self._blocks.block(number) if self._at_once is None else self._blocks.block_at_once(number, self._at_once)
        )

    def few_rows(
        self,
        number: int,
        start: bytes,
        stop: bytes,
        rows_max: int,
        frontier: bytes | None,
        columns: Collection[bytes] | None,
    ) -> FewRows:
        """Returns the first rows of [start, stop) in the block; see WideBlock.few_rows. May raise WouldWaitError."""
        blocks, block = self._blocks, self.block(number)
        facts = LineFacts(blocks.index.write_numbers_max[number], blocks.index.timestamps_min[number])
        return blocks.look_up(number, block, block.few_rows, start, stop, rows_max, frontier, facts, columns)

    def keep_last(self) -> None:
        """Does nothing: the blocks are cached."""


def _key_chunks(directory: Directory, start: pa.Buffer) -> dict[int, pa.Buffer]:
    """Returns the chunks of the keys, as they are stored."""
    starts = directory.starts
    return {key: start.slice(starts[key], starts[key + 1] - starts[key]) for key in directory.form.key_chunks}
