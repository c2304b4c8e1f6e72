"""The parts of a snapshot: where its rows are now. Each is a region, a range of rows and a read point.

A snapshot is made of one part for each region. When regions are split or merged, its parts move to the new regions,
which have the same rows and write numbers, and keep its read points registered from then on. A region that was merged
may have several parts of one snapshot, each at a read point of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.row_ranges import RowRange, clipped, is_empty


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Rows of a snapshot. Their region has the read point registered as long as the snapshot has this part."""

    region: Region
    rows: RowRange
    read_point: ReadPoint

    @staticmethod
    def of(region: Region) -> SnapshotPart:
        """Registers the region's current read point. The caller releases it."""
        return SnapshotPart(region, (region.start, region.stop), region.open_read_point())

    def release(self) -> None:
        """Ends the registration."""
        self.region.close_read_point(self.read_point)


def moved(parts: Sequence[SnapshotPart], old: Sequence[Region], new: Sequence[Region]) -> list[SnapshotPart]:
    """Returns the parts after `new` regions have taken over the rows of `old` ones; both are in row order.

    Registers the read points in the new regions, and ends their registration in the old ones.
    """
    result = []
    for part in parts:
        if part.region not in old:
            result.append(part)
            continue
        for region in new:
            rows = clipped(part.rows, (region.start, region.stop))
            if not is_empty(rows):
                region.adopt_read_point(part.read_point)
                result.append(SnapshotPart(region, rows, part.read_point))
        part.release()
    return result


def hold_writes(
    gates: contextlib.ExitStack, regions_of: Callable[[], Sequence[Region]], deadline: float
) -> Sequence[Region]:
    """Takes the gates of the regions, which may be split or merged meanwhile. Returns the regions, in row order.

    Blocks. Raises DeadlineError, and NotServingRegionError if the table is gone.
    """
    while True:
        regions = regions_of()
        try:
            # By id: the lock order of the gates.
            for region in sorted(regions, key=lambda region: region.region_id):
                gates.enter_context(region.without_writes(deadline))
        except NotServingRegionError:
            gates.close()
            if regions_of() == regions:
                raise
        else:
            return regions
