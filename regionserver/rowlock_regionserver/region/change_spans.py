"""What an offset of a change feed says of one region: pure functions.

An offset has the number up to which the changes of a region were read, by region. A region's rows may have been those
of others, whose write numbers it goes on from. So of several entries for a row, those of the region and of its
ancestors, the highest counts. An ancestor that was read to its end was read up to where its successor goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.errors import ChangesExpiredError, InvalidRequestError
from rowlock_regionserver.region.retained_changes import RetainedChanges
from rowlock_regionserver.row_ranges import intersection

Offset = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Described:
    """A region for this module. `last`: its newest write number. `read_point`: the newest one that is published."""

    table: str
    region_id: int
    start: bytes
    stop: bytes
    last: int
    read_point: int
    changes: RetainedChanges


@dataclass(frozen=True, slots=True)
class Span:
    """Rows [start, stop) of which all changes up to `since` were read. Later changes than `horizon` are complete."""

    start: bytes
    stop: bytes
    since: int
    horizon: int
    entry: int  # the region whose entry of the offset counts


def spans_of(region: Described, offset: Offset) -> list[Span]:
    """Returns what was read of the region, in row order; the spans cover its rows.

    Raises InvalidRequestError for a number beyond the region's newest one, and ChangesExpiredError if an entry is older
    than what is complete, or if rows have no entry.
    """
    check_entries(region, offset)
    spans = [_span(region, start, stop, offset) for start, stop in _ranges(region)]
    for span in spans:
        check_complete(region, span)
    return spans


def check_complete(region: Described, span: Span) -> None:
    """Raises ChangesExpiredError if changes after the span's number may be incomplete by now."""
    horizon = max(span.horizon, region.changes.horizon)
    if span.since < horizon:
        raise ChangesExpiredError(
            f"the changes of region {region.region_id} of table {region.table!r} are retained from write number "
            f"{horizon} on, and the offset has read region {span.entry} up to {span.since}: changes in between are "
            "gone; take db.changes_offset, read the table whole, and go on from that offset",
            table=region.table,
        )


def check_entries(region: Described, offset: Offset) -> None:
    """Raises InvalidRequestError for an entry of the region or an ancestor that is beyond its newest number."""
    lasts = {region.region_id: region.last, **{each.region_id: each.last for each in region.changes.ancestors}}
    for region_id, number in offset.items():
        last = lasts.get(region_id)
        if last is not None and number > last:
            raise InvalidRequestError(
                f"the offset has read region {region_id} of table {region.table!r} up to write number {number}, and "
                f"the newest one is {last}: it is not an offset of this table",
                table=region.table,
            )


def oldest(region: Described) -> dict[int, int]:
    """Returns the entries from which on every change of the region is complete."""
    changes = region.changes
    entries = {region.region_id: changes.horizon}
    for ancestor in changes.ancestors:
        if ancestor.horizon > changes.horizon:  # Of a region that was merged: its numbers are others.
            entries[ancestor.region_id] = max(ancestor.horizon, entries.get(ancestor.region_id, 0))
    return entries


def needed(offset: Offset, regions: Iterable[Described]) -> dict[int, int]:
    """Returns the offset without the entries that say nothing about these regions, all of the table."""
    kept: dict[int, int] = {}
    for region in regions:
        own = offset.get(region.region_id, -1)
        if own >= 0:
            kept[region.region_id] = own
        for ancestor in region.changes.ancestors:
            number = offset.get(ancestor.region_id, -1)
            if number > own:
                kept[ancestor.region_id] = number
    return kept


def _ranges(region: Described) -> list[tuple[bytes, bytes]]:
    """Returns the region's rows, cut where an ancestor's begin or end."""
    own = (region.start, region.stop)
    borders = {region.start}
    for ancestor in region.changes.ancestors:
        rows = intersection((ancestor.start, ancestor.stop), own)
        if rows is not None:
            borders.update([row for row in rows if row and row != region.stop])
    starts = sorted(borders)
    return list(zip(starts, [*starts[1:], region.stop], strict=True))


def _span(region: Described, start: bytes, stop: bytes, offset: Offset) -> Span:
    """Returns the span of rows that lie between two borders, so wholly in an ancestor or outside of it."""
    found = [(offset[region.region_id], region.region_id)] if region.region_id in offset else []
    horizon = region.changes.horizon
    covering = [
        ancestor
        for ancestor in region.changes.ancestors
        if intersection((ancestor.start, ancestor.stop), (start, stop)) is not None
    ]
    for ancestor in covering:
        horizon = max(horizon, ancestor.horizon)
        if ancestor.region_id in offset:
            found.append((offset[ancestor.region_id], ancestor.region_id))
    if not found:
        raise ChangesExpiredError(
            f"the offset says nothing about the rows from {row_text(start)} on of table {region.table!r}, which are in "
            f"region {region.region_id}: it is incomplete, or the table was truncated, or its regions were split or "
            "merged before what is retained; take db.changes_offset, read the table whole, and go on from that offset",
            table=region.table,
        )
    since, entry = max(found)
    for ancestor in reversed(covering):  # the oldest first
        if since >= ancestor.last:
            since = max(since, ancestor.continued_after)
    return Span(start, stop, since, horizon, entry)
