"""The method of scans. Apart from the others, because its answers need pyarrow, which is slow to import."""

from __future__ import annotations

from rowlock_proto.v1 import region_pb2 as region

from rowlock._codec.scan_message import parse_scan_message
from rowlock._transport.methods import REGION, Method

SCAN = Method(REGION + "Scan", region.ScanRequest.SerializeToString, parse_scan_message)
