"""Splits without I/O: what a server is asked, and what a caller is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name
from rowlock._core.scan_plan import RowRange, ScanPlan, scan_plan
from rowlock.errors import InvalidArgumentError
from rowlock.selection import Selection

PART_BYTES_DEFAULT = 32 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan: ranges (start, stop) in row order, all of one region; empty bounds are open.

    byte_count: about the bytes in it, as they stand in memory, before versions and deletes are judged.
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
    """The scan that is to be cut. Raises InvalidArgumentError as scan_plan does, and for a size that is none."""
    if not isinstance(part_bytes, int) or isinstance(part_bytes, bool) or not 0 < part_bytes < 1 << 63:
        raise InvalidArgumentError(f"part_bytes is a number of bytes, more than 0; not {part_bytes!r}")
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
    """Asks the scan's region where to cut it."""
    return region_pb2.PlanScanRequest(
        region_id=scan.region_id, ranges=scan.ranges, columns=scan.columns, part_bytes=part_bytes
    )


def splits_of(answer: region_pb2.PlanScanResponse) -> Iterator[Split]:
    for part in answer.parts:
        yield Split(tuple((row_range.start, row_range.stop) for row_range in part.ranges), part.byte_count)
