"""The change feed of a table: which region is read next, and what the offset is then. docs/changes.md.

A call reads one region: the one that has a row. The caller begins with the first row, and continues with the region's
stop when the region is done. Calls keep no state here, so a region that was split or merged in between is no exception:
its rows are those of others now, and the offset says how far they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from rowlock_regionserver.catalog.regions import region_of_row
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.change_reads import ReadChanges
from rowlock_regionserver.region.change_spans import Described, Offset, check_entries, needed, oldest
from rowlock_regionserver.region.change_windows import Position
from rowlock_regionserver.region.region import Region


class Start(Enum):
    """Where a feed begins that has no offset yet."""

    OLDEST = "the oldest change that is retained"
    NEWEST = "now"


@dataclass(frozen=True, slots=True)
class ChangesCall:
    """A call. `until` and `position`: as the call before has returned them for `until_region`; 0 and empty: none.

    bytes_max: 0: as many as the server allows.
    """

    table: str
    start: Offset | Start
    row: bytes = b""
    until: int = 0
    position: bytes = b""
    until_region: int = 0
    bytes_max: int = 0


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """`read`: None if only the offset was asked for. `offset`: after what was read, unless it is a part."""

    offset: Offset
    region_id: int = 0
    stop: bytes = b""
    read: ReadChanges | None = field(default=None)


class ChangesHost(Protocol):
    """The region server as this module sees it. Thread-safe."""

    def table_entry(self, name: str) -> TableEntry: ...
    def region(self, region_id: int) -> Region: ...
    def owner_of(self, region_id: int) -> str | None: ...


def read_changes(host: ChangesHost, call: ChangesCall, between: Callable[[], None] = yield_now) -> ChangesAnswer:
    """Answers a call. Blocks on the disk. Calls `between` often, which may raise.

    Raises TableNotFoundError, ChangesExpiredError, CorruptionError, NotServingRegionError if a region was just split or
    merged, and InvalidRequestError if the table has no feed or the offset is not of this table.
    """
    entry = host.table_entry(call.table)
    regions = [host.region(each.region_id) for each in entry.regions]
    if call.start is Start.NEWEST:
        newest = [region.describe_published_changes() for region in regions]
        return ChangesAnswer({each.region_id: each.read_point for each in newest})
    of_regions = [region.describe_changes() for region in regions]
    offset = _begun(of_regions) if isinstance(call.start, Start) else dict(call.start)
    _check(host, call.table, offset, of_regions)
    region_id = region_of_row(entry.regions, call.row).region_id
    (region,) = [each for each in regions if each.region_id == region_id]
    is_same = region_id == call.until_region
    read = region.read_changes(
        offset,
        call.until if is_same and call.until else None,
        Position.decode(call.position) if is_same and call.position else None,
        call.bytes_max,
        between,
    )
    if read.window.position is None:
        offset[region_id] = max(read.window.through, offset.get(region_id, 0))
        offset = needed(offset, of_regions)
    return ChangesAnswer(offset, region_id, region.stop, read)


def _begun(of_regions: Sequence[Described]) -> dict[int, int]:
    offset: dict[int, int] = {}
    for region in of_regions:
        for region_id, number in oldest(region).items():
            offset[region_id] = max(number, offset.get(region_id, 0))
    return offset


def _check(host: ChangesHost, table: str, offset: Offset, of_regions: Sequence[Described]) -> None:
    """Raises InvalidRequestError for an offset that can't be of this table."""
    own = {each.region_id for each in of_regions}
    for region in of_regions:
        check_entries(region, offset)
        own.update([ancestor.region_id for ancestor in region.changes.ancestors])
    for region_id in offset.keys() - own:
        owner = host.owner_of(region_id)
        if owner != "":  # Else the region was split, merged or truncated long ago.
            whose = "no region ever had this number" if owner is None else f"it is one of table {owner!r}"
            raise InvalidRequestError(
                f"the offset names region {region_id}, which table {table!r} never had: {whose}", table=table
            )
