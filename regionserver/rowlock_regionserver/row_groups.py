"""Row groups: consecutive rows of a source's lines, with a digest that says which rows they are.

A row is there if any family has a cell of it, so a scan needs the rows of all families, also of those whose columns it
does not return. Mostly these are the same rows. Groups with equal digests have the same rows, so only one of them has
to be read (scan/redundant_rows.py).

The digest is SHA-256 of two SHA-256 digests: that of the rows' lengths, 4 bytes each, little-endian, and that of the
rows, one after the other. So it depends on the rows alone, however they are divided into blocks. A shorter checksum
would not be a proof: a client that chooses its rows could make two groups look alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rowlock_regionserver.cells import TIMESTAMP_MAX

DIGEST_BYTES = 32
# Memory of a group beside its first row: three list slots, two bytes objects, and an entry of a dictionary. Its set of
# columns is mostly that of other groups too.
_GROUP_BYTES = 3 * 8 + 2 * 33 + DIGEST_BYTES + 128


@dataclass(frozen=True)
class RowGroups:
    """Groups of the distinct rows of all lines of a source, ascending. Immutable."""

    first_rows: list[bytes]  # of each group
    digests: list[bytes]
    # The columns of which each row of the group has a cell.
    complete_columns: list[frozenset[bytes]]
    last_row: bytes  # of the last group
    block_count: int = 0  # the blocks in which the rows are
    timestamp_max: int = TIMESTAMP_MAX  # of all cells of the lines
    # The groups of newer lines, if each cell of the source has a newer one of its row and column in these.
    newer: RowGroups | None = None

    def __len__(self) -> int:
        return len(self.first_rows)

    @property
    def bytes_held(self) -> int:
        """The memory of the lists and the set."""
        return sum(map(len, self.first_rows)) + _GROUP_BYTES * len(self)

    def of_older_lines(self) -> RowGroups:
        """Returns the same groups for a source of older lines; see `newer`."""
        return replace(self, newer=self)

    @cached_property
    def group_by_digest(self) -> Mapping[bytes, int]:
        """The place of each group, by its digest."""
        return {digest: group for group, digest in enumerate(self.digests)}

    def of_range(self, start: bytes, stop: bytes) -> range:
        """Returns the places of the groups that may have rows of [start, stop); an empty stop means no bound."""
        if not self.first_rows or start > self.last_row:
            return range(0)
        first = max(0, bisect_right(self.first_rows, start) - 1)
        return range(first, bisect_left(self.first_rows, stop) if stop else len(self))

    def bounds(self, group: int) -> tuple[bytes, bytes]:
        """Returns [start, stop): the source has no row there that is not of the group, and all rows of the group."""
        is_last = group + 1 == len(self)
        return self.first_rows[group], self.last_row + b"\x00" if is_last else self.first_rows[group + 1]


NO_ROW_GROUPS = RowGroups([], [], [], b"")
