"""Reads the cell blocks of one store file by their numbers, verifies them, and keeps them in the block cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from rowlock_regionserver.found_cells import AwayValue
from rowlock_regionserver.sources import WouldWaitError
from rowlock_regionserver.storefile.adopted_numbers import AdoptedNumbers
from rowlock_regionserver.storefile.block import Block, decoded
from rowlock_regionserver.storefile.block_file import AtOnce, BlockFile, ReadAhead
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.large_values import without_large_values
from rowlock_regionserver.storefile.row_windows import BlockPart, Load

# A bulk read holds smaller blocks whole: their values take no more memory than a bulk read may use anyway.
_WITHOUT_LARGE_VALUES_BYTES_MIN = 1 << 18


class CellBlocks:
    """The cell blocks of one store file. Thread-safe.

    Reads block on the disk unless their docstring says otherwise, and raise CorruptionError for damage.
    """

    def __init__(self, file: BlockFile, index: BlockIndex, numbers: AdoptedNumbers) -> None:
        self.file = file
        self.index = index
        self._numbers = numbers

    def block(self, number: int) -> Block:
        """Returns a block for look-ups and caches it."""
        block = self.file.cached(number)
        if block is None:
            block = Block(self._read([number])[0])
            self.file.put(number, block)
        assert isinstance(block, Block)
        return block

    def value(self, number: int, cell: int) -> bytes:
        """Returns the value of a cell of a block."""
        return self.block(number).value(cell)

    def is_cached(self, number: int) -> bool:
        """Returns whether the block is cached now."""
        return self.file.is_cached(number)

    def try_load(self, number: int) -> bool:
        """Loads a block if that needs no disk; see BlockFile."""
        return self.file.try_load(
            number, self.index.extent(number), lambda payload: Block(self._decoded(number, payload))
        )

    def read_ahead(self, numbers: range, bytes_max: int, bytes_in_all: int) -> Load:
        """Returns a loader of these blocks for a forward bulk read; see ReadAhead."""
        ahead = ReadAhead(self.file, self.index, numbers, bytes_max, bytes_in_all)

        def load(number: int) -> BlockPart:
            payload = ahead.payload(number, is_cached=self.is_cached(number))
            return self.part(number, bytes_max) if payload is None else BlockPart(self._decoded(number, payload))

        return load

    def cached_reader(self, bytes_max: int, *, may_wait: bool) -> Load:
        """Returns a loader for a read of few blocks, which come from the cache and go into it.

        Unless it may wait, it raises WouldWaitError for a block that is neither cached nor in the system's memory, for
        more than two that are not cached, and for a large one.
        """
        blocks = self.cached_blocks(may_wait=may_wait)

        def load(number: int) -> BlockPart:
            block = blocks(number)
            if not may_wait and block.batch.get_total_buffer_size() > _WITHOUT_LARGE_VALUES_BYTES_MIN:
                raise WouldWaitError
            return self._part(number, block, bytes_max)

        return load

    def cached_blocks(self, *, may_wait: bool) -> Callable[[int], Block]:
        """Returns a loader of blocks for look-ups, which come from the cache and go into it; see `cached_reader`."""
        if may_wait:
            return self.block
        loaded = AtOnce(self.file)

        def load(number: int) -> Block:
            block = loaded.block(number, partial(self.try_load, number))
            assert isinstance(block, Block)
            return block

        return load

    def part(self, number: int, bytes_max: int) -> BlockPart:
        """Returns a block for a bulk read of about `bytes_max`, without its large values if it alone exceeds that.

        Blocks of bulk reads don't evict those of point reads from the cache. Only a block that exceeds `bytes_max` is
        cached: the next read will begin in it, or load its values.
        """
        block = self.file.cached(number)
        if block is None:
            batch = self._read([number])[0]
            if batch.get_total_buffer_size() <= bytes_max:
                return BlockPart(batch)
            block = Block(batch)
            self.file.put(number, block)
        assert isinstance(block, Block)
        return self._part(number, block, bytes_max)

    def _part(self, number: int, block: Block, bytes_max: int) -> BlockPart:
        """Returns a block without its large values, unless it has the ordinary size or less than `bytes_max`."""
        if block.batch.get_total_buffer_size() <= max(bytes_max, _WITHOUT_LARGE_VALUES_BYTES_MIN):
            return BlockPart(block.batch)
        batch, places = without_large_values(block.batch)
        away = tuple([(cell, AwayValue(size, partial(self.value, number, cell))) for cell, size in places])
        return BlockPart(batch, away)

    def _read(self, numbers: Sequence[int]) -> list[pa.RecordBatch]:
        payloads = self.file.read([self.index.extent(number) for number in numbers])
        return [self._decoded(number, payload) for number, payload in zip(numbers, payloads, strict=True)]

    def _decoded(self, number: int, payload: pa.Buffer) -> pa.RecordBatch:
        batch = decoded(payload, self.index.cell_counts[number], self.file.path, self.index.offsets[number])
        return self._numbers.of_batch(batch)
