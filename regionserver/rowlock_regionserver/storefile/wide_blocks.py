"""Reads the wide blocks of one store file by their numbers: whole, or only the columns that are wanted.

A block that a point read needs is read whole, and cached as it is on the disk; its columns are decompressed when they
are needed. A bulk read of all columns reads neighbouring blocks together. One of few columns reads a block's directory
and keys, and then only the chunks of these columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.sources import EVERY_LINE, LinesWanted
from rowlock_regionserver.storefile import wide_directory
from rowlock_regionserver.storefile.block_file import BlockFile, ReadAhead
from rowlock_regionserver.storefile.extents import read_exactly, read_start
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.wide_block import WideBlock
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_index import WideIndex
from rowlock_regionserver.storefile.wide_lines import chunks_of, decoded_lines

# In the cache the numbers of wide blocks begin here, those of cell blocks at 0.
_FIRST_KEY = 1 << 31
# A bulk read that needs more of a block's bytes than this reads its blocks whole, with their neighbours.
_WHOLE_SHARE_MIN = 0.5
# Bytes between two wanted chunks that cost less to read than one more read.
_GAP_BYTES_MAX = 8192


class WideBlocks:
    """The wide blocks of one store file. Thread-safe.

    Reads block on the disk unless their docstring says otherwise, and raise CorruptionError for damage.
    """

    def __init__(self, file: BlockFile, index: WideIndex) -> None:
        self.file = file
        self.index = index

    def cells(self, number: int, row: bytes, qualifiers: Iterable[bytes] | None, cells_max: int) -> list[FoundCell]:
        """Returns the row's cells in the block; see WideBlock.cells."""
        block = self._block(number)
        before = block.bytes_held
        cells = block.cells(row, qualifiers, cells_max)
        if block.bytes_held != before:
            self.file.put(_FIRST_KEY + number, block)
        return cells

    def is_cached(self, number: int) -> bool:
        """Returns whether the block is cached now."""
        return self.file.is_cached(_FIRST_KEY + number)

    def try_load(self, number: int) -> bool:
        """Loads a block if that needs no disk; see BlockFile."""
        return self.file.try_load(
            _FIRST_KEY + number, self.index.extent(number), lambda payload: WideBlock(self.chunks(number, payload))
        )

    def loader(self, numbers: range, bytes_ahead: int, wanted: LinesWanted | None) -> WideLoader:
        """Returns a loader of these blocks for a bulk read, which reads `bytes_ahead` together if it wants all columns.

        It caches nothing by itself.
        """
        return WideLoader(self, ReadAhead(self.file, self.index, numbers, bytes_ahead, bytes_ahead), wanted)

    def cached(self, number: int) -> WideBlock | None:
        """Returns the block if it is cached."""
        block = self.file.cached(_FIRST_KEY + number)
        assert block is None or isinstance(block, WideBlock)
        return block

    def put(self, number: int, chunks: WideChunks) -> None:
        """Caches a block, which was read."""
        self.file.put(_FIRST_KEY + number, WideBlock(chunks))

    def chunks(self, number: int, payload: pa.Buffer) -> WideChunks:
        """Returns the chunks of a block's payload."""
        directory = self._directory(number, payload)
        return WideChunks.of_payload(directory, payload, self.file.path, self.index.offsets[number])

    def _block(self, number: int) -> WideBlock:
        block = self.cached(number)
        if block is None:
            [payload] = self.file.read([self.index.extent(number)])
            block = WideBlock(self.chunks(number, payload))
            self.file.put(_FIRST_KEY + number, block)
        return block

    def _directory(self, number: int, payload: pa.Buffer) -> Directory:
        """Returns the directory, from a verified payload or its start."""
        raw = payload.slice(0, self.index.directory_bytes[number]).to_pybytes()
        place = self.file.path, self.index.offsets[number]
        return wide_directory.decode(raw, self.index.payload_bytes[number], self.index.line_counts[number], *place)

    def some_columns(self, number: int, wanted: LinesWanted) -> tuple[Lines, int]:
        """Returns the lines, and the bytes that it read, which are little more than those of what is wanted."""
        file, extent = self.file, self.index.extent(number)
        with file.handle as descriptor:
            start = read_start(file.files, descriptor, file.path, extent, self.index.key_bytes[number])
            directory = self._directory(number, start)
            starts = directory.starts
            stored = {key: start.slice(starts[key], starts[key + 1] - starts[key]) for key in directory.form.key_chunks}
            byte_count = start.size
            for run in _runs(chunks_of(directory, wanted), starts):
                first = starts[run[0]]
                offset = extent.offset + HEADER_BYTES + first
                piece = read_exactly(file.files, descriptor, file.path, starts[run[-1] + 1] - first, offset)
                byte_count += piece.size
                for chunk in run:
                    stored[chunk] = piece.slice(starts[chunk] - first, starts[chunk + 1] - starts[chunk])
        file.count(1, byte_count)
        some = WideChunks(directory, stored, file.path, extent.offset)
        return decoded_lines(directory, some.raw, wanted), byte_count


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
            lines, byte_count = blocks.some_columns(number, self._wanted)
            self._reads_whole = byte_count > _WHOLE_SHARE_MIN * blocks.index.payload_bytes[number]
            return lines
        payload = self._ahead.payload(number, is_cached=False)
        if payload is None:
            [payload] = blocks.file.read([blocks.index.extent(number)])
        chunks = blocks.chunks(number, payload)
        self._last = number, chunks
        return decoded_lines(chunks.directory, chunks.raw, self._wanted)

    def keep_last(self) -> None:
        """Caches the last block: the next read begins in it."""
        if self._last is not None:
            self._blocks.put(*self._last)


def _runs(chunks: Sequence[int], starts: Sequence[int]) -> Iterator[list[int]]:
    """Yields the chunks, which ascend, in groups that are close to each other."""
    run: list[int] = []
    for chunk in chunks:
        if run and starts[chunk] - starts[run[-1] + 1] > _GAP_BYTES_MAX:
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run
