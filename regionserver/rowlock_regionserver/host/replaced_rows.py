"""The rows that the commit of a bulk write hides in one region.

They are looked for before the gates are taken, because that reads the whole range. With the gates held only what has
changed since is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.arrow.columns import Column
from rowlock_regionserver.cells import CELL_BYTES_BESIDE
from rowlock_regionserver.region.changed_rows import Ranges, changed_rows, distinct_rows
from rowlock_regionserver.region.region import Region


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """The rows of the ranges that the region had at a write number, ascending. Some may have no visible cell."""

    ranges: Ranges
    write_number: int
    known: Column

    @staticmethod
    def of(region: Region, ranges: Ranges) -> ReplacedRows:
        """Returns those of this moment. Blocks on the disk."""
        read_point = region.open_read_point()
        try:
            known = distinct_rows(changed_rows(region.stores.view, 0, ranges))
        finally:
            region.close_read_point(read_point)
        return ReplacedRows(ranges, read_point.write_number, known)

    def now(self, region: Region) -> Column:
        """Returns them with those that came since. The caller holds the gate exclusively. Blocks on the disk."""
        later = distinct_rows(changed_rows(region.stores.view, self.write_number, self.ranges))
        return distinct_rows(iter([self.known, later])) if len(later) else self.known

    def tombstone_bytes(self, family_count: int) -> int:
        """Returns about what a tombstone of each family for each row takes in memory."""
        return (self.known.nbytes + CELL_BYTES_BESIDE * len(self.known)) * family_count
