"""Reads the sealed blocks of one open store file, and keeps them in the block cache.

The indexes give a block's place and header. Header and checksum are checked each time it is read from the disk. LMDB is
not used for reading, so a damaged byte anywhere raises a CorruptionError or is not needed.

A BlockFile has no close(): its descriptor and its entries in the cache are released with the last reference, which the
runs of the store file hold, or a value that is away.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import WouldWaitError
from rowlock_regionserver.storefile.cache import AnyBlock, BlockCache
from rowlock_regionserver.storefile.extents import Extent, read_payload_at_once, read_payloads
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.open_files import Handle

# One read of neighbouring blocks takes at most this.
_RUN_BYTES_MAX = 1 << 20
# Only blocks of ordinary size are read without waiting, possibly on the event loop. A wide block has the directory and
# the offsets of its chunks beside 256 KiB of lines.
_AT_ONCE_BYTES_MAX = 3 << 17
# One read reads at most this many blocks without waiting.
AT_ONCE_BLOCKS_MAX = 2


@dataclass(frozen=True, slots=True)
class StoreFileStatistics:
    """Blocks and bytes that were read from the disk since the file was opened."""

    block_read_count: int
    block_read_bytes: int


class BlockFile:
    """One open store file. Thread-safe.

    Reads block on the disk unless their docstring says otherwise, and raise CorruptionError for damage.
    """

    def __init__(self, handle: Handle, cache: BlockCache, files: Files, index_bytes: int = 0) -> None:
        """`index_bytes` is the memory of index and Bloom filter, which the cache counts."""
        self.handle = handle
        self.path: Path = handle.path
        self.files = files
        self._cache = cache
        self._reader = cache.new_reader(index_bytes)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._read_count = 0
        self._read_bytes = 0
        finalizer = weakref.finalize(self, _release, handle, cache, self._reader)
        # At the end of the process the operating system closes the descriptor.
        finalizer.atexit = False

    # ---- the cache; `key` is a number that no other block of the file has

    def cached(self, key: int) -> AnyBlock | None:
        """Returns the block if it is cached, as used last."""
        return self._cache.get(self._reader, key)

    def cached_several(self, keys: Sequence[int]) -> list[AnyBlock | None]:
        """Returns the blocks, None for those that are not cached, and marks them as used last."""
        return self._cache.get_several(self._reader, keys)

    def is_cached(self, key: int) -> bool:
        """Returns whether the block is cached now."""
        return self._cache.holds(self._reader, key)

    def put(self, key: int, block: AnyBlock) -> None:
        """Caches the block with the bytes that it holds now."""
        self._cache.put(self._reader, key, block)

    @property
    def cache_bytes_max(self) -> int:
        """The bound of the cache."""
        return self._cache.bytes_max

    # ---- the disk

    def read(self, extents: Sequence[Extent]) -> list[pa.Buffer]:
        """Returns the payloads of blocks that are close to each other in the file, by one read."""
        with self.handle as descriptor:
            payloads = read_payloads(self.files, descriptor, self.path, extents)
        self.count(len(payloads), sum([payload.size for payload in payloads]))
        return payloads

    def try_load(self, key: int, extent: Extent, decoded: Callable[[pa.Buffer], AnyBlock]) -> bool:
        """Loads a block of ordinary size into the cache if the system has it in memory; returns whether it is cached.

        Never blocks on a disk.
        """
        if extent.header.payload_bytes > _AT_ONCE_BYTES_MAX:
            return False
        descriptor = self.handle.borrow_if_open()
        if descriptor is None:
            return False
        try:
            payload = read_payload_at_once(self.files, descriptor, self.path, extent)
            if payload is None:
                return False
            block = decoded(payload)
        except RegionServerError:
            return False  # The blocking read meets the same damage and raises the error.
        finally:
            self.handle.give_back()
        self.count(1, payload.size)
        self.put(key, block)
        return self.is_cached(key)

    def count(self, block_count: int, byte_count: int) -> None:
        """Adds to the statistics."""
        with self._lock:
            self._read_count += block_count
            self._read_bytes += byte_count

    def statistics(self) -> StoreFileStatistics:
        with self._lock:
            return StoreFileStatistics(self._read_count, self._read_bytes)


class AtOnce:
    """Returns blocks without waiting for a disk, for one read. Used by one thread."""

    def __init__(self, file: BlockFile) -> None:
        self._file = file
        self._loaded_count = 0

    def block(self, key: int, try_load: Callable[[], bool]) -> AnyBlock:
        """Returns the block from the cache, into which `try_load` loads it if it is not there.

        Raises WouldWaitError if that fails, and after it has loaded some: each takes some 100 µs.
        """
        block = self._file.cached(key)
        if block is None and self._loaded_count < AT_ONCE_BLOCKS_MAX:
            self._loaded_count += 1
            block = self._file.cached(key) if try_load() else None
        if block is None:
            raise WouldWaitError
        return block


class ReadAhead:
    """Reads the blocks of one run for a forward bulk read, `bytes_max` of neighbours at a time. Used by one thread.

    One read for each block would double the cost of reading its bytes, and multiply it while other threads run. The
    bulk read takes about `bytes_in_all` in total, and no more than that is read ahead.
    """

    def __init__(self, file: BlockFile, index: BlockIndex, numbers: range, bytes_max: int, bytes_in_all: int) -> None:
        self._file = file
        self._index = index
        self._stop = numbers.stop
        self._bytes_max = min(_RUN_BYTES_MAX, bytes_max)
        self._bytes_left = bytes_in_all
        self._payloads: dict[int, pa.Buffer] = {}

    def has_read(self, number: int) -> bool:
        """Returns whether the block was read with its neighbours."""
        return number in self._payloads

    def payload(self, number: int, *, is_cached: bool) -> pa.Buffer | None:
        """Returns the payload of the block, and reads neighbours with it.

        None: it is cached, or has no neighbour to read; the caller reads it alone.
        """
        index = self._index
        if number not in self._payloads:
            run = index.run_from(number, self._stop, min(self._bytes_max, self._bytes_left))
            self._bytes_left -= sum([index.payload_bytes[each] for each in (run[:1] if is_cached else run)])
            if len(run) == 1 or is_cached:
                return None
            payloads = self._file.read([index.extent(each) for each in run])
            self._payloads.update(zip(run, payloads, strict=True))
        return self._payloads.pop(number)


def _release(handle: Handle, cache: BlockCache, reader: int) -> None:
    handle.release()
    cache.release_reader(reader)
