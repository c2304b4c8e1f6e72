"""Lines that are in stored blocks, and are read from them as far as they are needed.

Where nothing is merged, a scan needs neither rows nor numbers: it passes the blocks on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from rowlock_regionserver.arrow.columns import Column, Integers
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, plain
from rowlock_regionserver.arrow.line_numbers import at_columns, concatenated_numbers, numbers_at
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.stored_lines import LineNumbers, StoredLines


class BlockLines(Lines):
    """Stored lines with some columns, some of which the blocks may lack. No row has several lines. Immutable."""

    def __init__(self, stored: StoredLines, qualifiers: tuple[bytes, ...]) -> None:
        """`qualifiers` ascend."""
        values = tuple([CompressedColumn(stored, qualifier) for qualifier in qualifiers])
        # As the class is frozen.
        for name, value in (("stored", stored), ("qualifiers", qualifiers), ("values", values)):
            object.__setattr__(self, name, value)

    @cached_property
    def rows(self) -> Column:
        """The rows, read from the blocks."""
        return plain(self.keys)

    @cached_property
    def timestamps(self) -> Integers:
        """The timestamps, read from the blocks."""
        return self._numbers([block.timestamps for block, _, _ in self._blocks.slices])

    @cached_property
    def write_numbers(self) -> Integers:
        """The write numbers, read from the blocks."""
        return self._numbers([block.write_numbers for block, _, _ in self._blocks.slices])

    def _numbers(self, of_blocks: Sequence[LineNumbers]) -> Integers:
        parts = [
            at_columns(numbers_at(numbers, slice(start, stop)), qualifiers, self.qualifiers)
            for (numbers, qualifiers), (_, start, stop) in zip(of_blocks, self._blocks.slices, strict=True)
        ]
        return concatenated_numbers(parts, self._blocks.counts)

    @property
    def has_versions(self) -> bool:
        """Whether some row has more than one line: never."""
        return False

    @property
    def _blocks(self) -> StoredLines:
        assert self.stored is not None
        return self.stored

    def __len__(self) -> int:
        return self._blocks.line_count

    def slice(self, start: int, stop: int) -> Lines:
        """Returns the lines [start, stop), unread."""
        if start == 0 and stop == len(self):
            return self
        return BlockLines(self._blocks.slice(start, stop - start), self.qualifiers)

    def select(self, qualifiers: Collection[bytes]) -> Lines:
        """Returns the same lines with these columns only."""
        kept = tuple([qualifier for qualifier in self.qualifiers if qualifier in qualifiers])
        return self if len(kept) == len(self.qualifiers) else BlockLines(self._blocks, kept)

    def row(self, line: int) -> bytes:
        """Returns the row of a line; -1 is the last one. Reads it only if it is neither a block's first nor last."""
        first, last = self._blocks.slices[0], self._blocks.slices[-1]
        if line == 0 and first.start == 0:
            return first.block.first_row
        if line == -1 and last.stop == last.block.line_count:
            return last.block.last_row
        return super().row(line)

    @property
    def bytes_held(self) -> int:
        """About the memory that the lines take when they are decompressed."""
        return self._blocks.raw_bytes


def joined_blocks(parts: Sequence[Lines]) -> BlockLines | None:
    """Returns the lines of parts that are all in blocks, unread; None if some are not."""
    blocks = [part for part in parts if isinstance(part, BlockLines)]
    if len(blocks) < len(parts) or any(part.qualifiers != blocks[0].qualifiers for part in blocks):
        return None
    stored = [part.stored for part in blocks if part.stored is not None]
    return BlockLines(StoredLines.joined(stored), blocks[0].qualifiers)
