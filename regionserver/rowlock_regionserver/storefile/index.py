"""The block index: the blocks of one run of a store file that may hold a row, and the headers that they must have.

Rows may span blocks, so neighbours may share a first or last row. All look-ups are bisections of two lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
from typing import Self

from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.format import BLOCK_MAGIC, HEADER_BYTES, Header

# LMDB rounds values up to pages and puts a header before each: less than this.
_GAP_BYTES_MAX = 8192
# Memory of an entry beside its rows' bytes: six list slots, four integers of 32 bytes, two bytes objects of 33.
_ENTRY_BYTES = 6 * 8 + 4 * 32 + 2 * 33


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """One entry a block in each list, in file order, which is store order. Only the writer adds to the lists."""

    offsets: list[int]  # of the sealed value in the file
    payload_bytes: list[int]
    cell_counts: list[int]
    checksums: list[int]  # CRC32C of the payload
    first_rows: list[bytes]
    last_rows: list[bytes]  # inclusive

    @classmethod
    def empty(cls) -> Self:
        """Returns a new index without blocks."""
        return cls(*[[] for _ in fields(cls)])

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def bytes_held(self) -> int:
        """The memory of the lists, their integers and their rows."""
        row_bytes = sum(map(len, self.first_rows)) + sum(map(len, self.last_rows))
        return row_bytes + _ENTRY_BYTES * len(self)

    def blocks_of_row(self, row: bytes) -> range:
        """Returns the numbers of the blocks that may hold the row."""
        return range(bisect_left(self.last_rows, row), bisect_right(self.first_rows, row))

    def blocks_of_range(self, start: bytes, stop: bytes) -> range:
        """Returns the numbers of the blocks that may hold rows of [start, stop); an empty stop means no bound."""
        return range(
            bisect_left(self.last_rows, start), bisect_left(self.first_rows, stop) if stop else len(self.offsets)
        )

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source. A block's first or last row, or a bound of the range inside a block."""
        numbers = self.blocks_of_range(start, stop)
        if not numbers:
            return None
        if reverse:
            after = self.last_rows[numbers.stop - 1] + b"\x00"
            return min(after, stop) if stop else after
        return max(start, self.first_rows[numbers.start])

    def row_weights(self) -> list[tuple[bytes, int]]:
        """Returns (row, bytes on disk of the blocks that begin with it), rows ascending."""
        weights: list[tuple[bytes, int]] = []
        for row, byte_count in zip(self.first_rows, self.payload_bytes, strict=True):
            if weights and weights[-1][0] == row:
                byte_count += weights.pop()[1]
            weights.append((row, byte_count))
        return weights

    def run_from(self, number: int, stop: int, bytes_max: int) -> range:
        """Returns the numbers of the block and of contiguous blocks after it, before `stop`, of about `bytes_max`."""
        start = self.offsets[number]
        last = number
        while last + 1 < stop:
            end = self._end(last + 1)
            if not 0 <= self.offsets[last + 1] - self._end(last) <= _GAP_BYTES_MAX or end - start > bytes_max:
                break
            last += 1
        return range(number, last + 1)

    def _end(self, number: int) -> int:
        return self.offsets[number] + HEADER_BYTES + self.payload_bytes[number]

    def extent(self, number: int) -> Extent:
        """Returns the block's place and the header that it must have."""
        header = Header(
            BLOCK_MAGIC, number, self.payload_bytes[number], self.cell_counts[number], self.checksums[number]
        )
        return Extent(self.offsets[number], header)

    def extents(self) -> list[Extent]:
        """Returns the extents of all blocks."""
        return [self.extent(number) for number in range(len(self))]

    def problem(self) -> str | None:
        """Returns what is wrong with the order of blocks and rows; None when nothing is."""
        before = b""
        for number, (first, last) in enumerate(zip(self.first_rows, self.last_rows, strict=True)):
            if not before <= first <= last:
                return f"rows out of order at block {number}: {before!r}, {first!r}, {last!r}"
            before = last
        return None
