"""The blocks of one open store file: read by their places, verified, and kept in the block cache.

A read goes by the index to a block's place, and the block's header and checksum are checked each time it comes from
the disk. LMDB takes no part, so a damaged byte anywhere is a CorruptionError or was never needed.

Blocks are never closed by hand: their descriptor, and what the cache holds of them, goes with the last reference. That
is the store file's, or that of a value which is away.
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
from rowlock_regionserver.sources import AwayValue
from rowlock_regionserver.storefile.block import Block, decoded
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.extents import read_payload_at_once, read_payloads
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.large_values import without_large_values
from rowlock_regionserver.storefile.open_files import Handle
from rowlock_regionserver.storefile.row_windows import BlockPart, Load

# What one read takes at most of neighbouring blocks.
_RUN_BYTES_MAX = 1 << 20
# What is read at once, by the event loop perhaps, is small: blocks of ordinary size.
_AT_ONCE_BYTES_MAX = 1 << 18
# A bulk read holds smaller blocks whole: what their values take is no more than what it may hold anyway.
_SLIM_BYTES_MIN = 1 << 18


@dataclass(frozen=True, slots=True)
class StoreFileStatistics:
    """What was read from the disk since the file was opened."""

    block_read_count: int
    block_read_bytes: int


class Blocks:
    """Safe to read from many threads. Reads block on the disk unless said otherwise, and raise CorruptionError."""

    def __init__(
        self, handle: Handle, index: BlockIndex, cache: BlockCache, files: Files, index_bytes: int = 0
    ) -> None:
        """`index_bytes`: what index and Bloom filter hold, which the cache counts."""
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
        # At the process's end the system closes it.
        finalizer.atexit = False

    def block(self, number: int) -> Block:
        """A block for look-ups; it is kept in the cache."""
        block = self._cache.get(self._reader, number)
        if block is None:
            block = Block(self._read([number])[0])
            self._cache.put(self._reader, number, block)
        return block

    def value(self, number: int, cell: int) -> bytes:
        """The value of a block's cell."""
        return self.block(number).value(cell)

    def is_cached(self, number: int) -> bool:
        """The cache holds the block now."""
        return self._cache.holds(self._reader, number)

    def bring(self, number: int) -> bool:
        """Brings a block of ordinary size into the cache if that takes no waiting; whether it is there."""
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
            return False  # The read that may wait comes to the same damage, and tells of it.
        finally:
            self.handle.give_back()
        self._count(1, payload.size)
        self._cache.put(self._reader, number, Block(batch))
        return self.is_cached(number)

    def ahead(self, numbers: range, bytes_max: int, bytes_in_all: int) -> Load:
        """Gives these blocks to a bulk read that goes forwards: neighbours are read together, `bytes_max` at once.

        A read for each block costs as much again as its bytes, and several times that while other threads run. The
        reader will take about `bytes_in_all`, so no more is read together than that.
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
        """A block for a bulk read of about `bytes_max`, without its large values if it alone is more than that.

        Blocks of bulk reads don't push those of point reads out of the cache. Only one that is more than the read asked
        for is kept: the next read will begin in it, or ask for its values.
        """
        block = self._cache.get(self._reader, number)
        if block is None:
            batch = self._read([number])[0]
            if batch.get_total_buffer_size() <= bytes_max:
                return BlockPart(batch)
            block = Block(batch)
            self._cache.put(self._reader, number, block)
        if block.batch.get_total_buffer_size() <= max(bytes_max, _SLIM_BYTES_MIN):
            return BlockPart(block.batch)
        batch, places = without_large_values(block.batch)
        away = tuple([(cell, AwayValue(size, partial(self.value, number, cell))) for cell, size in places])
        return BlockPart(batch, away)

    def statistics(self) -> StoreFileStatistics:
        with self._lock:
            return StoreFileStatistics(self._read_count, self._read_bytes)

    def _read(self, numbers: Sequence[int]) -> list[pa.RecordBatch]:
        """The cells of blocks that lie close together."""
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
    handle.unused()
    cache.reader_is_gone(reader)
