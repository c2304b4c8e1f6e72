"""PlanScan: converts its request to a plan, and the parts of a scan to its answer."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock_proto.v1 import region_pb2

from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.rpc.messages.reads import scan_plan
from rowlock_regionserver.scan.split_points import Part

PART_BYTES_DEFAULT = 32 * MIB


def plan_to_cut(message: region_pb2.PlanScanRequest, config: Config) -> tuple[ScanPlan, int]:
    """Returns the scan to split, and the approximate bytes of a part."""
    scan = region_pb2.ScanRequest(ranges=message.ranges, columns=message.columns)
    return scan_plan(scan, config), message.part_bytes or PART_BYTES_DEFAULT


def parts_message(parts: Iterable[Part]) -> region_pb2.PlanScanResponse:
    return region_pb2.PlanScanResponse(
        parts=[
            region_pb2.ScanPart(
                ranges=[region_pb2.RowRange(start=start, stop=stop) for start, stop in part.ranges],
                byte_count=part.byte_count,
            )
            for part in parts
        ]
    )
