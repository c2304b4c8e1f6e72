"""A scan on a direct connection of its own, without I/O. Apart from direct.py, because batches need pyarrow."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import (
    END,
    SCAN,
    SCAN_BATCH,
    SCAN_BODY_BYTES_MAX,
    SCAN_END,
    Body,
    frame,
)
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.scan_message import ScanMessage, parse_scan_message
from rowlock._codec.wire_errors import error_from
from rowlock.errors import ServerError

# A batch has a part of a row at least, so it may be as large as the largest value.
BATCH_BYTES_MAX = (1 << 32) - 2


def scan_frame(request: region_pb2.ScanRequest) -> bytes | None:
    """Returns the frame that begins the scan; None if it is too large, so that the scan goes by gRPC."""
    body = request.SerializeToString()
    return frame(SCAN, body) if len(body) <= SCAN_BODY_BYTES_MAX else None


def batch_of(kind: int, body: Body, target: str) -> ScanMessage | None:
    """Returns the batch of a frame; None if the scan has ended. Raises the error with which it ended.

    target: where the connection goes, for messages.
    """
    try:
        if kind == SCAN_BATCH:
            return parse_scan_message(body)
        if kind == SCAN_END and not body:
            return None
        if kind in (SCAN_END, END):
            raise error_from(types_pb2.Error.FromString(bytes(body)))
    except DecodeError as error:
        raise ServerError(f"the server at {target} sent a frame of kind {kind} that makes no sense: {error}") from None
    raise ServerError(f"the server at {target} sent a frame of kind {kind} during a scan, which makes no sense")
