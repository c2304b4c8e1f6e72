"""The plan of a scan: its ranges in row order, its limit and direction, and the template of its requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowlock_proto.prefixes import prefix_stop
from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import (
    UINT32_MAX,
    UINT64_MAX,
    Name,
    check_number,
    encoded_bound,
    is_pair,
    listed,
)
from rowlock._codec.row_form import FormColumn, RequestedColumns
from rowlock._core.session_requests import OpenedSession, default_owner, ref_of
from rowlock._core.view import checked_timeout
from rowlock.errors import InvalidArgumentError
from rowlock.selection import Selection

# Half-open; empty bounds are open.
RowRange = tuple[bytes, bytes]

# Of scans to Arrow, and in row form. Larger than the server's default, because a batch costs its reader as much as many
# rows do.
ARROW_BATCH_BYTES = 4 << 20
# Of scans to dicts, which make objects of each row.
ROWS_BATCH_BYTES = 2 << 20
# Of scans for keys alone, which are short: the protocol's limit, so that only batch_bytes bounds a batch.
KEY_BATCH_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan over all regions of a table. The ranges are in row order and neither overlap nor touch."""

    table: str
    ranges: tuple[RowRange, ...]
    template: region_pb2.ScanRequest
    limit: int | None
    is_reverse: bool
    is_strict: bool
    row_form: tuple[FormColumn, ...] | None = None  # see row_form.py; None: cells
    # How long to retry while a server answers "busy"; 0: no longer than the timeout.
    busy_timeout_s: float = 0.0


def scan_plan(
    table: str,
    *,
    start: Name | None,
    stop: Name | None,
    prefix: Name | None,
    ranges: Iterable[tuple[Name | None, Name | None]] | None,
    selection: Selection,
    limit: int | None,
    reverse: bool,
    strict: bool,
    batch_bytes: int,
    snapshot_id: bytes = b"",
    busy_timeout: float | None = None,
    session: OpenedSession | None = None,
) -> ScanPlan:
    """Returns the plan of a scan. Raises InvalidArgumentError for contradictory or malformed arguments."""
    if limit is not None:
        check_number("limit", limit, 0, UINT64_MAX)
    check_number("batch_bytes", batch_bytes, 0, UINT32_MAX)
    template = region_pb2.ScanRequest(
        reverse=reverse,
        batch_bytes=batch_bytes,
        snapshot_id=snapshot_id,
        session=ref_of(session),
        owner=default_owner(),
        lines=True,
    )
    selection.write(template)
    return ScanPlan(
        table=table,
        ranges=_joined(_parsed_ranges(start, stop, prefix, ranges)),
        template=template,
        limit=limit,
        is_reverse=reverse,
        is_strict=strict,
        busy_timeout_s=0.0 if busy_timeout is None else checked_timeout(busy_timeout, "busy_timeout"),
    )


def _parsed_ranges(
    start: Name | None,
    stop: Name | None,
    prefix: Name | None,
    ranges: Iterable[tuple[Name | None, Name | None]] | None,
) -> list[RowRange]:
    if sum((start is not None or stop is not None, prefix is not None, ranges is not None)) > 1:
        raise InvalidArgumentError("a scan takes start and stop, or a prefix, or ranges: only one of the three")
    if ranges is not None:
        parsed = [_bounds(pair) for pair in listed("ranges", "pairs (start, stop)", ranges)]
        if not parsed:
            raise InvalidArgumentError("the list of ranges is empty; leave it out to scan everything")
    elif prefix is not None:
        first = encoded_bound("prefix", prefix)
        parsed = [(first, prefix_stop(first))]
    else:
        parsed = [(encoded_bound("start", start), encoded_bound("stop", stop))]
    for first, last in parsed:
        if last and first > last:
            raise InvalidArgumentError(
                f"the scan's stop {row_text(last)} comes before its start {row_text(first)}; to scan in descending "
                "order, pass the smaller key as start, and reverse=True"
            )
    return parsed


def _bounds(pair: tuple[Name | None, Name | None]) -> RowRange:
    if not is_pair(pair):
        raise TypeError(f"a range must be a pair (start, stop), and ranges a list of pairs, not {pair!r}")
    return encoded_bound("a bound of ranges", pair[0]), encoded_bound("a bound of ranges", pair[1])


def _joined(ranges: Sequence[RowRange]) -> tuple[RowRange, ...]:
    """Returns the ranges in row order. Merges those that overlap or touch, and leaves out empty ones."""
    joined: list[RowRange] = []
    for start, stop in sorted(ranges):
        if stop and start >= stop:
            continue
        if joined and (not joined[-1][1] or start <= joined[-1][1]):
            last_start, last_stop = joined[-1]
            joined[-1] = (last_start, max(last_stop, stop) if last_stop and stop else b"")
        else:
            joined.append((start, stop))
    return tuple(joined)


def in_row_form(plan: ScanPlan, columns: Sequence[FormColumn], *, with_keys: bool = True) -> ScanPlan:
    """Returns the plan of the same scan in row form: each row with these columns, null where it has no such cell.

    A column that the scan does not read is null in every row. Unless it is `with_keys`, the rows' keys may be null.
    """
    template = _template_of(plan)
    template.lines = False
    template.row_form.fixed_size = True
    template.row_form.compressed = True
    template.row_form.without_keys = not with_keys
    template.batch_bytes = template.batch_bytes or ARROW_BATCH_BYTES
    requested = RequestedColumns(template)
    for column in columns:
        if column in requested:
            part = region_pb2.RowFormColumn.PART_TIMESTAMP if column.is_timestamp else 0
            template.row_form.columns.add(family=column.family, qualifier=column.qualifier, part=part)
    if not template.row_form.columns:
        template.batch_rows = KEY_BATCH_ROWS
    return dataclasses.replace(plan, template=template, row_form=tuple(columns))


def in_large_batches(plan: ScanPlan) -> ScanPlan:
    """Returns the plan of the same scan for a reader of Arrow."""
    template = _template_of(plan)
    template.batch_bytes = template.batch_bytes or ARROW_BATCH_BYTES
    return dataclasses.replace(plan, template=template)


def of_newest_rows(plan: ScanPlan) -> ScanPlan:
    """Returns the plan of the same scan for a caller who needs the newest value of each column only."""
    template = _template_of(plan)
    template.newest_rows = True
    template.batch_bytes = template.batch_bytes or ROWS_BATCH_BYTES
    return dataclasses.replace(plan, template=template)


def _template_of(plan: ScanPlan) -> region_pb2.ScanRequest:
    """Returns a copy of the plan's template."""
    template = region_pb2.ScanRequest()
    template.CopyFrom(plan.template)
    return template
