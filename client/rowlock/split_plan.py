"""Splits, without I/O: the request to a region, and its answer as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name, check_int
from rowlock._core.scan_plan import RowRange, ScanPlan, scan_plan
from rowlock.errors import InvalidArgumentError
from rowlock.selection import Selection


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan, returned by `Table.splits`.

    ranges: pairs (start, stop) in row order, all of one region; stop is outside, empty bounds are open.
    byte_count: an estimate of its bytes in memory, before versions and deletes are applied.
    """

    ranges: tuple[RowRange, ...]
    byte_count: int


def plan_to_cut(
    table: str,
    start: Name | None,
    stop: Name | None,
    prefix: Name | None,
    ranges: Iterable[tuple[Name | None, Name | None]] | None,
    columns: Sequence[Name] | None,
    part_bytes: int,
) -> ScanPlan:
    """Returns the plan of the scan to cut. Raises InvalidArgumentError as scan_plan does, or for a bad part_bytes."""
    check_int("part_bytes", part_bytes)
    if not 0 < part_bytes < 1 << 63:
        raise InvalidArgumentError(f"part_bytes must be a number of bytes, more than 0, not {part_bytes!r}")
    return scan_plan(
        table,
        start=start,
        stop=stop,
        prefix=prefix,
        ranges=ranges,
        selection=Selection(columns),
        limit=None,
        reverse=False,
        strict=False,
        batch_bytes=0,
    )


def plan_request(scan: region_pb2.ScanRequest, part_bytes: int) -> region_pb2.PlanScanRequest:
    """Returns the request that asks the scan's region for split points."""
    return region_pb2.PlanScanRequest(
        region_id=scan.region_id, ranges=scan.ranges, columns=scan.columns, part_bytes=part_bytes
    )


def splits_of(answer: region_pb2.PlanScanResponse) -> Iterator[Split]:
    """Yields the splits of a region's answer."""
    for part in answer.parts:
        yield Split(tuple((row_range.start, row_range.stop) for row_range in part.ranges), part.byte_count)
