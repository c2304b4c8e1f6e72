"""The block cache: blocks that point reads used last, and keys and directories that scans did, bounded by their bytes.

One cache serves all store files of a server. The key of a block is its reader's number and its own. The blocks of a
released reader are dropped at the next change of the cache.

The bound is the cache's own share of the memory, or more while other parts of the server leave memory unused
(ledger.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, count

from rowlock_regionserver.storefile.block import Block
from rowlock_regionserver.storefile.block_keys import BlockKeys
from rowlock_regionserver.storefile.wide_block import WideBlock
from rowlock_regionserver.storefile.wide_directory import Directory

_READER_BITS = 32
# Look-ups for which the lock is held once: point reads on the event loop take it, too.
_LOOKED_UP_TOGETHER = 256

# A directory is cached where only some columns of its block are read, and the keys where a scan reads values in place.
AnyBlock = Block | WideBlock | Directory | BlockKeys


@dataclass(frozen=True, slots=True)
class BlockCacheStatistics:
    """The contents of the cache now, and its hits, misses and evictions since it was created."""

    bytes_held: int
    block_count: int
    hit_count: int
    miss_count: int
    evicted_count: int


class BlockCache:
    """An LRU cache. Thread-safe; nothing blocks on a disk."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` is the cache's own share."""
        self.bytes_max = bytes_max
        self._bytes_max_now: Callable[[], int] = lambda: bytes_max
        self._reader_numbers = count(1)
        # Filled without the lock: a finalizer may run anywhere, also in a thread that holds it.
        self._released: deque[int] = deque()
        self._lock = threading.Lock()
        # Guarded by self._lock; the counts are read without it too:
        self._blocks: OrderedDict[int, tuple[AnyBlock, int]] = OrderedDict()  # with the bytes that are counted
        self._index_bytes: dict[int, int] = {}  # by reader
        self.bytes_held = 0
        self.index_bytes_held = 0  # indexes and Bloom filters of the readers; not part of the bound
        self._hit_count = 0
        self._miss_count = 0
        self._evicted_count = 0

    def borrow(self, bytes_max_now: Callable[[], int]) -> None:
        """Lets the cache hold `bytes_max_now()`, which may change at any time; when it falls, `shrink` must be called.

        It is called with the cache's lock held.
        """
        self._bytes_max_now = bytes_max_now

    def new_reader(self, index_bytes: int = 0) -> int:
        """Returns a number, never used again, under which one open store file keeps its blocks.

        `index_bytes` is the memory of its index and Bloom filter, which the cache counts until the reader is released.
        """
        reader = next(self._reader_numbers) << _READER_BITS
        with self._lock:
            self._drop_released()
            self._index_bytes[reader] = index_bytes
            self.index_bytes_held += index_bytes
        return reader

    def release_reader(self, reader: int) -> None:
        """Lets the cache drop the reader's blocks. Takes no lock, so a finalizer may call it."""
        self._released.append(reader)

    def get(self, reader: int, number: int) -> AnyBlock | None:
        """Returns the block and marks it as used last; None when it is not cached."""
        key = reader | number
        with self._lock:
            found = self._blocks.get(key)
            if found is None:
                self._miss_count += 1
                return None
            self._blocks.move_to_end(key)
            self._hit_count += 1
            return found[0]

    def get_several(self, reader: int, numbers: Sequence[int]) -> list[AnyBlock | None]:
        """Returns several blocks, each as `get` does."""
        found: list[AnyBlock | None] = []
        for first in range(0, len(numbers), _LOOKED_UP_TOGETHER):
            keys = [reader | number for number in numbers[first : first + _LOOKED_UP_TOGETHER]]
            with self._lock:
                blocks = list(map(self._blocks.get, keys))
                miss_count = blocks.count(None)
                hits = compress(keys, blocks) if miss_count else keys
                # A deque of no items takes them all without a step of Python for each.
                deque(map(self._blocks.move_to_end, hits), 0)
                self._miss_count += miss_count
                self._hit_count += len(blocks) - miss_count
            found += [block and block[0] for block in blocks]
        return found

    def holds(self, reader: int, number: int) -> bool:
        """Returns whether the block is cached, without counting as a use."""
        with self._lock:
            return reader | number in self._blocks

    def put(self, reader: int, number: int, block: AnyBlock) -> None:
        """Caches the block with the bytes that it holds now, unless it alone exceeds the bound.

        A block that has grown since is put again.
        """
        key, bytes_held = reader | number, block.bytes_held
        with self._lock:
            self._drop_released()
            self._drop(key)
            bytes_max = self._bytes_max_now()
            if bytes_held > bytes_max:
                return
            self._evict(bytes_max - bytes_held)
            self._blocks[key] = block, bytes_held
            self.bytes_held += bytes_held

    def shrink(self) -> None:
        """Evicts what exceeds the bound. O(evicted blocks)."""
        with self._lock:
            self._drop_released()
            self._evict(self._bytes_max_now())

    def _evict(self, bytes_max: int) -> None:
        # Needs the lock.
        while self.bytes_held > bytes_max:
            self._drop(next(iter(self._blocks)))
            self._evicted_count += 1

    def _drop(self, key: int) -> None:
        # Needs the lock.
        _, bytes_held = self._blocks.pop(key, (None, 0))
        self.bytes_held -= bytes_held

    def statistics(self) -> BlockCacheStatistics:
        with self._lock:
            self._drop_released()
            return BlockCacheStatistics(
                self.bytes_held, len(self._blocks), self._hit_count, self._miss_count, self._evicted_count
            )

    def _drop_released(self) -> None:
        # Needs the lock. O(cached blocks), but only after a store file was released.
        if not self._released:
            return
        released = set()
        while self._released:
            reader = self._released.popleft()
            released.add(reader >> _READER_BITS)
            self.index_bytes_held -= self._index_bytes.pop(reader, 0)
        for key in [key for key in self._blocks if key >> _READER_BITS in released]:
            self._drop(key)

    def _check(self) -> None:
        with self._lock:
            held = sum(bytes_held for _, bytes_held in self._blocks.values())
            assert held == self.bytes_held, f"{held}, {self.bytes_held}"
            index_bytes = sum(self._index_bytes.values())
            assert index_bytes == self.index_bytes_held, f"{index_bytes}, {self.index_bytes_held}"
