"""The block cache: verified, decompressed blocks that point reads used last, bounded by their bytes.

One cache serves all store files of a server. A block is kept under the number of its reader and its own number; what
a dead reader leaves is dropped at the next change of the cache.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

from rowlock_regionserver.storefile.block import Block

_READER_BITS = 32


@dataclass(frozen=True, slots=True)
class BlockCacheStatistics:
    """What the cache holds now, and what was asked of it since it was made."""

    bytes_held: int
    block_count: int
    hit_count: int
    miss_count: int
    evicted_count: int


class BlockCache:
    """Least recently used goes first. Safe to use from many threads; nothing blocks on a disk."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._reader_numbers = itertools.count(1)
        # Readers that are gone. Filled without the lock: a finalizer may run anywhere, also in a thread that holds it.
        self._gone: deque[int] = deque()
        self._lock = threading.Lock()
        # Guarded by self._lock; the counts are read without it too:
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._index_bytes: dict[int, int] = {}  # by reader
        self.bytes_held = 0
        self.index_bytes_held = 0  # of readers, which are open beside the cache and no part of its bound
        self._hit_count = 0
        self._miss_count = 0
        self._evicted_count = 0

    def new_reader(self, index_bytes: int = 0) -> int:
        """A number under which one open store file keeps its blocks, never used again.

        `index_bytes`: what its index and its Bloom filter hold until it is gone, which is counted here too.
        """
        reader = next(self._reader_numbers) << _READER_BITS
        with self._lock:
            self._drop_gone()
            self._index_bytes[reader] = index_bytes
            self.index_bytes_held += index_bytes
        return reader

    def reader_is_gone(self, reader: int) -> None:
        """Its blocks may be dropped. Takes no lock, so a finalizer may call it."""
        self._gone.append(reader)

    def get(self, reader: int, number: int) -> Block | None:
        """The block, which becomes the one used last; None when it is not held."""
        key = reader | number
        with self._lock:
            block = self._blocks.get(key)
            if block is None:
                self._miss_count += 1
                return None
            self._blocks.move_to_end(key)
            self._hit_count += 1
            return block

    def holds(self, reader: int, number: int) -> bool:
        """Whether the block is held, without counting as a use."""
        with self._lock:
            return reader | number in self._blocks

    def put(self, reader: int, number: int, block: Block) -> None:
        """Keeps the block, unless it alone is over the bound."""
        if block.bytes_held > self.bytes_max:
            return
        key = reader | number
        with self._lock:
            self._drop_gone()
            before = self._blocks.pop(key, None)
            if before is not None:
                self.bytes_held -= before.bytes_held
            self._blocks[key] = block
            self.bytes_held += block.bytes_held
            while self.bytes_held > self.bytes_max:
                _, oldest = self._blocks.popitem(last=False)
                self.bytes_held -= oldest.bytes_held
                self._evicted_count += 1

    def statistics(self) -> BlockCacheStatistics:
        with self._lock:
            self._drop_gone()
            return BlockCacheStatistics(
                self.bytes_held, len(self._blocks), self._hit_count, self._miss_count, self._evicted_count
            )

    def _drop_gone(self) -> None:
        # Runs with the lock held. O(blocks held), but only after a store file was dropped.
        if not self._gone:
            return
        gone = set()
        while self._gone:
            reader = self._gone.popleft()
            gone.add(reader >> _READER_BITS)
            self.index_bytes_held -= self._index_bytes.pop(reader, 0)
        for key in [key for key in self._blocks if key >> _READER_BITS in gone]:
            self.bytes_held -= self._blocks.pop(key).bytes_held

    def _check(self) -> None:
        with self._lock:
            held = sum(block.bytes_held for block in self._blocks.values())
            assert held == self.bytes_held <= self.bytes_max, f"{held}, {self.bytes_held}, {self.bytes_max}"
            index_bytes = sum(self._index_bytes.values())
            assert index_bytes == self.index_bytes_held, f"{index_bytes}, {self.index_bytes_held}"
