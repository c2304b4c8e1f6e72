"""Reads the change feed of one region."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rowlock_regionserver.errors import ChangesExpiredError, InvalidRequestError
from rowlock_regionserver.region.change_spans import Described, Offset, check_complete, spans_of
from rowlock_regionserver.region.change_windows import ChangeWindow, Position, read_window
from rowlock_regionserver.region.region_parts import RegionParts

# A window has at most this part of a scan's: it is sorted, and copied for the answer.
_PART_OF_SCAN_WINDOW = 2


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """A window, and the number up to which the region is read in this turn."""

    window: ChangeWindow
    until: int

    @property
    def is_done(self) -> bool:
        """Whether nothing is left up to `until`."""
        return self.window.position is None and self.window.through >= self.until


def described(parts: RegionParts) -> Described:
    """Returns what the change feed says of the region. Raises InvalidRequestError if its table has none."""
    table = parts.stores.served.table.name
    changes = parts.changes.state
    if changes is None:
        raise InvalidRequestError(
            f"the change feed of table {table!r} is off; switch it on: alter the table's property "
            "'changes_retained_hours' to a number of hours, and changes are retained from then on",
            table=table,
        )
    mvcc = parts.mvcc
    read_point = mvcc.read_point  # before `last`, which may be more by now
    return Described(table, parts.region_id, parts.start, parts.stop, mvcc.last, read_point, changes)


def described_when_published(parts: RegionParts) -> Described:
    """Returns `described`, when everything from before the feed is published. Blocks. Raises DiskFullError too."""
    parts.mvcc.wait_until_published(described(parts).changes.horizon, parts.log.waits_for_space)
    return described(parts)


def read_changes(
    parts: RegionParts,
    offset: Offset,
    until: int | None,
    position: Position | None,
    bytes_max: int,
    between: Callable[[], None],
) -> ReadChanges:
    """Returns the next changes after the offset, up to `until` (None: to the read point), of about `bytes_max`. Blocks.

    `bytes_max`: 0: as many as the server allows. `position`: where a number goes on of which an earlier call returned a
    part. Calls `between` often; it may raise. Raises ChangesExpiredError, InvalidRequestError if the table has no feed
    or the offset is beyond its numbers, and CorruptionError.
    """
    region = described(parts)
    spans = spans_of(region, offset)
    # The read point first: what it has published is in the view.
    read_point = parts.mvcc.read_point
    until = read_point if until is None else min(until, read_point)
    if position is not None and not min(span.since for span in spans) < position.write_number <= until:
        raise InvalidRequestError(
            f"a position in write number {position.write_number} is not one that a call with this offset has returned",
            table=region.table,
        )
    limit = parts.shared.config.scan_window_bytes // _PART_OF_SCAN_WINDOW
    with parts.stores.pinned():
        window = read_window(parts.stores.view, spans, until, position, min(bytes_max or limit, limit), between=between)
    # What was dropped before the view, or from the active segment since, has a number up to the current horizon.
    changes = parts.changes.state
    if changes is None:
        raise ChangesExpiredError(f"the change feed of table {region.table!r} was switched off", table=region.table)
    for span in spans:
        check_complete(replace(region, changes=changes), span)
    return ReadChanges(window, until)
