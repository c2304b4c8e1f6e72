"""The index of a file's wide blocks: a BlockIndex that also says what is in each block.

The write numbers and timestamps of a block say whether it passes as it is: a reader sees all of a block whose greatest
write number is at or below its read point, and nothing of it has expired if its least timestamp has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.arrow.lines import Lines, number_bounds
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.format import OLDER_BLOCK_MAGIC, WIDE_BLOCK_MAGIC, WIDE_FORMAT_VERSION, Header
from rowlock_regionserver.storefile.index import BlockIndex

# About the bytes of a cell's keys: all of it but its value.
_CELL_KEY_BYTES = 48
# Memory of an entry beside those of BlockIndex: nine list slots, seven integers of 32 bytes, and the two sums of
# window_bounds.py.
_ENTRY_BYTES = 9 * 8 + 7 * 32 + 2 * 8


class BlockFacts(NamedTuple):
    """What the index says of a block's lines."""

    line_count: int
    cell_count: int
    write_number_min: int
    write_number_max: int
    timestamp_min: int
    timestamp_max: int
    have_versions: int  # 1 if a row has several lines


def facts_of(lines: Lines) -> BlockFacts:
    """Returns the facts of lines whose numbers are in their smallest form."""
    write_numbers, timestamps = number_bounds(lines.write_numbers), number_bounds(lines.timestamps)
    return BlockFacts(len(lines), lines.cell_count, *write_numbers, *timestamps, int(lines.has_versions))


@dataclass(frozen=True, slots=True)
class WideIndex(BlockIndex):
    """One entry a block in each list, as in BlockIndex. `checksums` are those of the directories."""

    magic: ClassVar[bytes] = WIDE_BLOCK_MAGIC

    directory_bytes: list[int]
    # Of the payload, from its start: the directory, and the chunks with rows, timestamps and write numbers.
    key_bytes: list[int]
    raw_bytes: list[int]  # of all chunks before compression
    line_counts: list[int]
    write_numbers_min: list[int]
    write_numbers_max: list[int]
    timestamps_min: list[int]
    timestamps_max: list[int]
    have_versions: list[int]  # 1 if a row of the block has several lines

    @property
    def bytes_held(self) -> int:
        return super(WideIndex, self).bytes_held + _ENTRY_BYTES * len(self)

    def facts(self, number: int) -> BlockFacts:
        """Returns what is known of the block's lines."""
        return BlockFacts(
            self.line_counts[number],
            self.cell_counts[number],
            self.write_numbers_min[number],
            self.write_numbers_max[number],
            self.timestamps_min[number],
            self.timestamps_max[number],
            self.have_versions[number],
        )

    def bytes_on_disk(self, number: int, byte_count: int, *, as_cells: bool) -> int:
        """Estimates the bytes on disk of `byte_count` bytes of lines, or of cells, from this block on."""
        decoded = self.raw_bytes[number] + (_CELL_KEY_BYTES * self.cell_counts[number] if as_cells else 0)
        return byte_count * self.payload_bytes[number] // max(1, decoded)

    def extent(self, number: int) -> Extent:
        """Returns the block's place and the header that it must have."""
        header = Header(
            self.magic,
            number,
            self.payload_bytes[number],
            self.cell_counts[number],
            self.checksums[number],
            WIDE_FORMAT_VERSION,
            self.directory_bytes[number],
        )
        return Extent(self.offsets[number], header)

    def problem(self) -> str | None:
        """Returns what is wrong with the entries; None when nothing is."""
        for number, (directory, keys, payload) in enumerate(
            zip(self.directory_bytes, self.key_bytes, self.payload_bytes, strict=True)
        ):
            if not 0 < directory <= keys <= payload:
                return f"{directory} bytes of directory, {keys} of keys and {payload} of payload at block {number}"
            if number and self.last_rows[number - 1] == self.first_rows[number]:
                return f"row {row_text(self.first_rows[number])} in the wide blocks {number - 1} and {number}"
        return super(WideIndex, self).problem()


@dataclass(frozen=True, slots=True)
class OlderIndex(WideIndex):
    """The index of the blocks with older lines: lines of rows that have a newer one in a wide block."""

    magic: ClassVar[bytes] = OLDER_BLOCK_MAGIC
