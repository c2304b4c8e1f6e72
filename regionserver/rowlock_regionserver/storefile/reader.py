"""Reads a store file: one row's cells for points, tables of whole rows for scans.

Opening checks the length, then the metadata, whose place and checksum the manifest knows. A read goes by the index to
a block's place, and the block's header and checksum are checked each time it comes from the disk. LMDB takes no part,
so a damaged byte anywhere is a CorruptionError or was never needed.

A store file is never closed by hand: its descriptor goes with the last reference. Cells and tables that it gave do not
need it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.cells import CELL_SCHEMA, Cell
from rowlock_regionserver.errors import CorruptionError, RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import Chunk
from rowlock_regionserver.storefile import bloom, metadata
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.block import Block, decoded
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.extents import Extent, read_payload, read_payload_at_once, read_payloads
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.row_windows import Load, read_backwards, read_forwards

# What one read takes at most of neighbouring blocks.
_RUN_BYTES_MAX = 1 << 20
# What is read at once, by the event loop perhaps, is small: blocks of ordinary size, and rows of few of them.
_AT_ONCE_BYTES_MAX = 1 << 18
_AT_ONCE_BLOCKS_MAX = 2


@dataclass(frozen=True, slots=True)
class StoreFileStatistics:
    """What was read from the disk since the file was opened."""

    block_read_count: int
    block_read_bytes: int


class StoreFile:
    """An open store file, a Source. Safe to read from many threads."""

    @classmethod
    def open(cls, path: Path, info: StoreFileInfo, cache: BlockCache, files: Files) -> StoreFile:
        """Opens and checks the file that `info` describes; blocks on the disk.

        CorruptionError when length or metadata are not what was written, FileNotFoundError when it is not there.
        """
        descriptor = files.open(path, os.O_RDONLY)
        try:
            return cls(path, info, cache, files, descriptor, read_metadata(path, info, files, descriptor))
        except BaseException:
            files.close(descriptor)
            raise

    def __init__(
        self,
        path: Path,
        info: StoreFileInfo,
        cache: BlockCache,
        files: Files,
        descriptor: int,
        contents: metadata.Metadata,
    ) -> None:
        self.path = path
        self.info = info
        self._files = files
        self._descriptor = descriptor
        self._index = contents.index
        self._bloom_words = contents.bloom_words.data
        self._cache = cache
        self._reader = cache.new_reader(contents.bytes_held)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._block_read_count = 0
        self._block_read_bytes = 0
        finalizer = weakref.finalize(self, _release, files, descriptor, cache, self._reader)
        # At the process's end the system closes it.
        finalizer.atexit = False

    @property
    def write_number_min(self) -> int:
        return self.info.write_number_min

    @property
    def write_number_max(self) -> int:
        return self.info.write_number_max

    def may_have_row(self, row: bytes) -> bool:
        """False: the row is certainly not in the file."""
        info = self.info
        return info.first_row <= row <= info.last_row and bloom.may_hold(self._bloom_words, row)

    def row_cells(self, row: bytes) -> Sequence[Cell]:
        """All cells of the row, in store order. Reads the disk for blocks that the cache does not hold."""
        if not self.may_have_row(row):
            return ()
        blocks = self._index.blocks_of_row(row)
        if len(blocks) == 1:
            return self._block(blocks.start).row_cells(row)
        return [cell for number in blocks for cell in self._block(number).row_cells(row)]

    def column_cells(self, row: bytes, qualifier: bytes) -> Sequence[Cell]:
        """The column's cells and the family tombstones of the row, in store order. Reads all blocks of the row."""
        if not self.may_have_row(row):
            return ()
        blocks = self._index.blocks_of_row(row)
        if len(blocks) == 1:
            return self._block(blocks.start).column_cells(row, qualifier)
        return [cell for number in blocks for cell in self._block(number).column_cells(row, qualifier)]

    def is_row_in_memory(self, row: bytes) -> bool:
        """row_cells(row) will not wait for a disk, unless the cache loses a block in between.

        One or two blocks that the system has in its memory are brought into the cache: each takes some 100 µs, and
        handing the read over to a thread takes longer.
        """
        if not self.may_have_row(row):
            return True
        missing = [number for number in self._index.blocks_of_row(row) if not self._cache.holds(self._reader, number)]
        return len(missing) <= _AT_ONCE_BLOCKS_MAX and all(self._bring(number) for number in missing)

    def read_rows(self, start: bytes, stop: bytes, bytes_max: int, *, reverse: bool = False) -> Chunk:
        """Whole rows of [start, stop); see Source. Uncompressed blocks are not copied."""
        if reverse:
            window = read_backwards(self._index, lambda number: self._batch(number, bytes_max), start, stop, bytes_max)
        else:
            window = read_forwards(self._index, self._ahead(start, stop, bytes_max), start, stop, bytes_max)
        info = self.info
        return Chunk(
            table=pa.Table.from_batches(window.batches, CELL_SCHEMA),
            frontier=window.frontier,
            has_tombstones=info.tombstone_count > 0,
            has_versions=info.has_versions,
            write_number_max=info.write_number_max,
            timestamp_min=info.timestamp_min,
        )

    def row_weights(self) -> list[tuple[bytes, int]]:
        """(row, bytes on disk of the blocks that begin with it), rows ascending: where a scan may be cut."""
        weights: list[tuple[bytes, int]] = []
        for row, byte_count in zip(self._index.first_rows, self._index.payload_bytes, strict=True):
            if weights and weights[-1][0] == row:
                byte_count += weights.pop()[1]
            weights.append((row, byte_count))
        return weights

    def statistics(self) -> StoreFileStatistics:
        with self._lock:
            return StoreFileStatistics(self._block_read_count, self._block_read_bytes)

    def _block(self, number: int) -> Block:
        block = self._cache.get(self._reader, number)
        if block is None:
            block = Block(self._read([number])[0])
            self._cache.put(self._reader, number, block)
        return block

    def _bring(self, number: int) -> bool:
        """Brings a block of ordinary size into the cache if that takes no waiting; whether it is there."""
        extent = self._index.extent(number)
        if extent.header.payload_bytes > _AT_ONCE_BYTES_MAX:
            return False
        try:
            payload = read_payload_at_once(self._files, self._descriptor, self.path, extent)
            if payload is None:
                return False
            batch = decoded(payload, extent.header.cell_count, self.path, extent.offset)
        except RegionServerError:
            return False  # The read that may wait comes to the same damage, and tells of it.
        self._count(1, payload.size)
        self._cache.put(self._reader, number, Block(batch))
        return self._cache.holds(self._reader, number)

    def _batch(self, number: int, bytes_max: int) -> pa.RecordBatch:
        """A block's cells for a bulk read, which does not push point reads' blocks out of the cache.

        Only a block that is more than the read asked for is kept: the next read will begin in it.
        """
        block = self._cache.get(self._reader, number)
        if block is not None:
            return block.batch
        batch = self._read([number])[0]
        if batch.get_total_buffer_size() > bytes_max:
            self._cache.put(self._reader, number, Block(batch))
        return batch

    def _ahead(self, start: bytes, stop: bytes, bytes_max: int) -> Load:
        """The same for a bulk read of [start, stop) that goes forwards: neighbours on the disk are read together.

        A read for each block costs as much again as its bytes, and several times that while other threads run.
        """
        numbers = self._index.blocks_of_range(start, stop)
        batches: dict[int, pa.RecordBatch] = {}
        bytes_left = bytes_max

        def load(number: int) -> pa.RecordBatch:
            nonlocal bytes_left
            if number not in batches:
                run = self._index.run_from(number, numbers.stop, min(_RUN_BYTES_MAX, bytes_left))
                if len(run) == 1 or self._cache.holds(self._reader, number):
                    return self._batch(number, bytes_max)
                batches.update(zip(run, self._read(run), strict=True))
                bytes_left -= sum(self._index.payload_bytes[each] for each in run)
            return batches.pop(number)

        return load

    def _read(self, numbers: Sequence[int]) -> list[pa.RecordBatch]:
        """The cells of blocks that lie close together."""
        extents = [self._index.extent(number) for number in numbers]
        payloads = read_payloads(self._files, self._descriptor, self.path, extents)
        self._count(len(payloads), sum(payload.size for payload in payloads))
        return [
            decoded(payload, extent.header.cell_count, self.path, extent.offset)
            for payload, extent in zip(payloads, extents, strict=True)
        ]

    def _count(self, block_count: int, byte_count: int) -> None:
        with self._lock:
            self._block_read_count += block_count
            self._block_read_bytes += byte_count


def read_metadata(path: Path, info: StoreFileInfo, files: Files, descriptor: int) -> metadata.Metadata:
    """The metadata of the open file that `info` describes, verified against it; CorruptionError when it differs."""
    file_bytes = files.size(path)
    if file_bytes != info.file_bytes:
        raise CorruptionError(path, min(file_bytes, info.file_bytes), f"{info.file_bytes} bytes", f"{file_bytes}")
    payload = read_payload(files, descriptor, path, metadata_extent(info))
    contents = metadata.decode(payload.to_pybytes(), path, info.metadata_offset)
    if contents.summary != info.summary():
        raise CorruptionError(path, info.metadata_offset, f"{info.summary()}", f"{contents.summary}")
    return contents


def metadata_extent(info: StoreFileInfo) -> Extent:
    """Where the metadata lies and what its header must be."""
    header = layout.Header(
        layout.METADATA_MAGIC,
        info.number,
        info.metadata_bytes - layout.HEADER_BYTES,
        info.cell_count,
        info.metadata_checksum,
    )
    return Extent(info.metadata_offset, header)


def _release(files: Files, descriptor: int, cache: BlockCache, reader: int) -> None:
    files.close(descriptor)
    cache.reader_is_gone(reader)
