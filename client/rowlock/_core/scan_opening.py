"""Opening a scan by a point request, whose answer has the first rows; without I/O.

A scan that is complete with them needs no call of its own. Any other continues at once with a call of Scan, at the same
read point: the server holds the scan for some seconds only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.scan_release import OpeningRequest
from rowlock.errors import DeadlineError

# A larger request goes by a call: the server refuses it as a point request.
REQUEST_BYTES_MAX = 64 << 10


def opening_request(table: str, scan: region_pb2.ScanRequest) -> OpeningRequest | None:
    """Returns the request that opens this scan of one region; None if it is too large."""
    if scan.ByteSize() > REQUEST_BYTES_MAX:
        return None
    message = region_pb2.PointRequests()
    message.requests.add().open_scan.CopyFrom(scan)
    row = scan.ranges[0].start if scan.ranges else b""
    return OpeningRequest(table, row, message, is_change=False)


def continuation_request(scan: region_pb2.ScanRequest, opened: region_pb2.OpenedScan) -> region_pb2.ScanRequest:
    """Returns the request of the call that continues an opened scan."""
    return region_pb2.ScanRequest(region_id=scan.region_id, held_scan=opened.held_scan)


def no_batch_error(table: str, timeout_s: float) -> DeadlineError:
    """Returns the error of a scan of which nothing has come for this long."""
    return DeadlineError(f"no batch of the scan of {table!r} came within {timeout_s:g} s")


def first_batches(opened: region_pb2.OpenedScan) -> Iterator[ScanMessage]:
    """Yields the batches that came with the answer, as those of a call."""
    for batch in opened.batches:
        compressed = pa.py_buffer(batch.compressed) if batch.compressed else None
        yield ScanMessage.of(batch, pa.py_buffer(batch.arrow), compressed)
