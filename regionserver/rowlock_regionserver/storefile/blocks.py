"""Reads the blocks of one open store file by their offsets, verifies them, and keeps them in the block cache.

The index gives a block's offset. Its header and checksum are checked each time it is read from the disk. LMDB is not
used for reading, so a damaged byte anywhere raises a CorruptionError or is not needed.

Blocks have no close(): their descriptor and their entries in the cache are released with the last reference, which the
store file holds, or a value that is away.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import AwayValue
from rowlock_regionserver.storefile.block import Block, decoded
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.extents import read_payload_at_once, read_payloads
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.large_values import without_large_values
from rowlock_regionserver.storefile.open_files import Handle
from rowlock_regionserver.storefile.row_windows import BlockPart, Load

# One read of neighbouring blocks takes at most this.
_RUN_BYTES_MAX = 1 << 20
# Only blocks of ordinary size are read without waiting, possibly on the event loop.
_AT_ONCE_BYTES_MAX = 1 << 18
# A bulk read holds smaller blocks whole: their values take no more memory than a bulk read may use anyway.
_WITHOUT_LARGE_VALUES_BYTES_MIN = 1 << 18


@dataclass(frozen=True, slots=True)
class StoreFileStatistics:
    """Blocks and bytes that were read from the disk since the file was opened."""

    block_read_count: int
    block_read_bytes: int


class Blocks:
    """The blocks of one store file. Thread-safe.

    Reads block on the disk unless their docstring says otherwise, and raise CorruptionError for damage.
    """

    def __init__(
        self, handle: Handle, index: BlockIndex, cache: BlockCache, files: Files, index_bytes: int = 0
    ) -> None:
        """`index_bytes` is the memory of index and Bloom filter, which the cache counts."""
        self.handle = handle
        self.index = index
        self._path: Path = handle.path
        self._files = files
        self._cache = cache
        self._reader = cache.new_reader(index_bytes)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._read_count = 0
        self._read_bytes = 0
        finalizer = weakref.finalize(self, _release, handle, cache, self._reader)
        # At the end of the process the operating system closes the descriptor.
        finalizer.atexit = False

    def block(self, number: int) -> Block:
        """Returns a block for look-ups and caches it."""
        block = self._cache.get(self._reader, number)
        if block is None:
            block = Block(self._read([number])[0])
            self._cache.put(self._reader, number, block)
        return block

    def value(self, number: int, cell: int) -> bytes:
        """Returns the value of a cell of a block."""
        return self.block(number).value(cell)

    def is_cached(self, number: int) -> bool:
        """Returns whether the block is cached now."""
        return self._cache.holds(self._reader, number)

    def try_load(self, number: int) -> bool:
        """Loads a block of ordinary size into the cache if the system has it in memory; returns whether it is cached.

        Never blocks on a disk.
        """
        extent = self.index.extent(number)
        if extent.header.payload_bytes > _AT_ONCE_BYTES_MAX:
            return False
        descriptor = self.handle.borrow_if_open()
        if descriptor is None:
            return False
        try:
            payload = read_payload_at_once(self._files, descriptor, self._path, extent)
            if payload is None:
                return False
            batch = decoded(payload, extent.header.cell_count, self._path, extent.offset)
        except RegionServerError:
            return False  # The blocking read meets the same damage and raises the error.
        finally:
            self.handle.give_back()
        self._count(1, payload.size)
        self._cache.put(self._reader, number, Block(batch))
        return self.is_cached(number)

    def read_ahead(self, numbers: range, bytes_max: int, bytes_in_all: int) -> Load:
        """Returns a loader of these blocks for a forward bulk read, which reads `bytes_max` of neighbours at a time.

        One read for each block would double the cost of reading its bytes, and multiply it while other threads run. The
        bulk read takes about `bytes_in_all` in total, and no more than that is read ahead.
        """
        batches: dict[int, pa.RecordBatch] = {}
        bytes_left = bytes_in_all

        def load(number: int) -> BlockPart:
            nonlocal bytes_left
            if number not in batches:
                run = self.index.run_from(number, numbers.stop, min(_RUN_BYTES_MAX, bytes_max, bytes_left))
                if len(run) == 1 or self.is_cached(number):
                    bytes_left -= self.index.payload_bytes[number]
                    return self.part(number, bytes_max)
                batches.update(zip(run, self._read(run), strict=True))
                bytes_left -= sum(self.index.payload_bytes[each] for each in run)
            return BlockPart(batches.pop(number))

        return load

    def part(self, number: int, bytes_max: int) -> BlockPart:
        """Returns a block for a bulk read of about `bytes_max`, without its large values if it alone exceeds that.

        Blocks of bulk reads don't evict those of point reads from the cache. Only a block that exceeds `bytes_max` is
        cached: the next read will begin in it, or load its values.
        """
        block = self._cache.get(self._reader, number)
        if block is None:
            batch = self._read([number])[0]
            if batch.get_total_buffer_size() <= bytes_max:
                return BlockPart(batch)
            block = Block(batch)
            self._cache.put(self._reader, number, block)
        if block.batch.get_total_buffer_size() <= max(bytes_max, _WITHOUT_LARGE_VALUES_BYTES_MIN):
            return BlockPart(block.batch)
        batch, places = without_large_values(block.batch)
        away = tuple([(cell, AwayValue(size, partial(self.value, number, cell))) for cell, size in places])
        return BlockPart(batch, away)

    def statistics(self) -> StoreFileStatistics:
        with self._lock:
            return StoreFileStatistics(self._read_count, self._read_bytes)

    def _read(self, numbers: Sequence[int]) -> list[pa.RecordBatch]:
        """Returns the cells of blocks that are close to each other in the file, by one read."""
        extents = [self.index.extent(number) for number in numbers]
        with self.handle as descriptor:
            payloads = read_payloads(self._files, descriptor, self._path, extents)
        self._count(len(payloads), sum([payload.size for payload in payloads]))
        return [
            decoded(payload, extent.header.cell_count, self._path, extent.offset)
            for payload, extent in zip(payloads, extents, strict=True)
        ]

    def _count(self, block_count: int, byte_count: int) -> None:
        with self._lock:
            self._read_count += block_count
            self._read_bytes += byte_count


def _release(handle: Handle, cache: BlockCache, reader: int) -> None:
    handle.release()
    cache.release_reader(reader)
