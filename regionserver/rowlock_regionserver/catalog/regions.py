"""The regions of a table: ranges of rows that cover all rows, without overlap, in row order.

Pure functions on entries: a new table is cut at its splits, a region is split in two, two neighbours are merged. Each
returns all regions of the table. The ids are those that the caller took; an id is never used again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, NotServingRegionError


@dataclass(frozen=True, slots=True)
class RegionEntry:
    """The entry of a region, which has the rows of [start, stop). Empty bounds are open."""

    region_id: int
    start: bytes
    stop: bytes

    def holds(self, row: bytes) -> bool:
        """Whether the row lies in the region."""
        return self.start <= row and (not self.stop or row < self.stop)

    def overlaps(self, start: bytes, stop: bytes) -> bool:
        """Whether the region has rows of [start, stop)."""
        return (not stop or self.start < stop) and (not self.stop or start < self.stop)


Regions = tuple[RegionEntry, ...]


def checked_splits(table: str, splits: Sequence[bytes], config: Config) -> list[bytes]:
    """Returns the splits of a new table in row order.

    Raises InvalidRequestError for an empty row or one that is named twice, LimitExceededError for too many or too long
    ones.
    """
    rows = sorted(splits)
    if len(rows) + 1 > config.regions_per_table_max:
        raise LimitExceededError(
            f"table {table!r} would have {len(rows) + 1} regions, more than regions_per_table_max = "
            f"{config.regions_per_table_max}; name fewer splits, and split regions later where rows are",
            limit="regions_per_table_max",
            limit_value=config.regions_per_table_max,
            found=len(rows) + 1,
            table=table,
        )
    for before, row in zip([None, *rows], rows, strict=False):
        if not row:
            raise InvalidRequestError(
                f"a split of table {table!r} is the empty row, with which the first region begins anyway; leave it out",
                table=table,
            )
        if row == before:
            raise InvalidRequestError(
                f"the split {row_text(row)} of table {table!r} is named twice; name each row once", table=table
            )
        if len(row) > config.row_bytes_max:
            raise LimitExceededError(
                f"a split of table {table!r} has {len(row)} bytes, more than row_bytes_max = {config.row_bytes_max}; "
                f"use a shorter row, such as a prefix. It begins with {row_text(row)}",
                limit="row_bytes_max",
                limit_value=config.row_bytes_max,
                found=len(row),
                table=table,
            )
    return rows


def new_regions(splits: Sequence[bytes], first_id: int) -> Regions:
    """Returns the regions of a new table. `splits`: the first rows of all but the first, in row order."""
    starts, stops = (b"", *splits), (*splits, b"")
    return tuple([RegionEntry(first_id + i, start, stops[i]) for i, start in enumerate(starts)])


def renumbered(regions: Regions, region_ids: Sequence[int]) -> Regions:
    """Returns regions of the same rows with these ids, in row order."""
    return tuple([replace(region, region_id=new) for region, new in zip(regions, region_ids, strict=True)])


def region_of_id(table: str, regions: Regions, region_id: int) -> RegionEntry:
    """Returns the region of this id. Raises NotServingRegionError if the table does not have it, or no longer."""
    for region in regions:
        if region.region_id == region_id:
            return region
    raise NotServingRegionError(
        f"table {table!r} has no region {region_id}: it was split, merged or truncated, or is of another table; look "
        "the region up again",
        table=table,
    )


def region_of_row(regions: Regions, row: bytes) -> RegionEntry:
    """Returns the region that holds the row. O(regions)."""
    return next(region for region in regions if region.holds(row))


def with_split(table: str, regions: Regions, region_id: int, row: bytes, daughters: tuple[int, int]) -> Regions:
    """Returns the regions with two new ones in the place of one: the rows before `row`, and those from it on.

    Raises NotServingRegionError if the table does not have the region, InvalidRequestError unless `row` lies in it
    after its first row.
    """
    parent = region_of_id(table, regions, region_id)
    check_split_row(table, parent, row)
    lower, upper = daughters
    return _replaced(regions, (parent,), (RegionEntry(lower, parent.start, row), RegionEntry(upper, row, parent.stop)))


def check_split_row(table: str, region: RegionEntry, row: bytes) -> None:
    """Raises InvalidRequestError unless the row lies in the region after its first row."""
    if row == region.start:
        raise InvalidRequestError(
            f"row {row_text(row)} is the first row of region {region.region_id} of table {table!r} already; "
            "nothing was split: name a row after it",
            table=table,
            row=row,
        )
    if not region.holds(row):
        raise InvalidRequestError(
            f"row {row_text(row)} is not in region {region.region_id} of table {table!r}, which has the rows "
            f"{range_text(region)}; nothing was split: name a row of it, or another region",
            table=table,
            row=row,
        )


def with_merged(table: str, regions: Regions, left_id: int, right_id: int, merged_id: int) -> Regions:
    """Returns the regions with one in the place of two neighbours, the left one first.

    Raises NotServingRegionError if the table does not have both, InvalidRequestError if they are one or no neighbours.
    """
    left, right = region_of_id(table, regions, left_id), region_of_id(table, regions, right_id)
    if left_id == right_id:
        raise InvalidRequestError(
            f"region {left_id} of table {table!r} can't be merged with itself; name its neighbour", table=table
        )
    if not left.stop or left.stop != right.start:
        raise InvalidRequestError(
            f"region {right_id} of table {table!r} does not begin where region {left_id} stops: they have the rows "
            f"{range_text(right)} and {range_text(left)}; nothing was merged: name two neighbours",
            table=table,
        )
    return _replaced(regions, (left, right), (RegionEntry(merged_id, left.start, right.stop),))


def range_text(region: RegionEntry) -> str:
    """Returns the rows of a region, for messages."""
    first = f"from {row_text(region.start)}" if region.start else "from the first"
    return f"{first} to before {row_text(region.stop)}" if region.stop else f"{first} to the last"


def check_regions(regions: Regions) -> None:
    """Asserts that the regions cover all rows, in row order and without overlap, and that their ids differ."""
    assert regions, "a table without regions"
    assert not regions[0].start, f"no region has the first rows: {regions}"
    assert not regions[-1].stop, f"no region has the last rows: {regions}"
    for left, right in itertools.pairwise(regions):
        assert left.stop == right.start != b"", f"between {left} and {right} is a gap or an overlap"
        assert left.start < left.stop, f"{left} has no rows"
    assert len({region.region_id for region in regions}) == len(regions), f"an id occurs twice: {regions}"


def _replaced(regions: Regions, old: Regions, new: Regions) -> Regions:
    """Returns the regions with `new` in the place of `old`, which are adjacent."""
    place = regions.index(old[0])
    replaced = (*regions[:place], *new, *regions[place + len(old) :])
    check_regions(replaced)
    return replaced
