"""A scan on a direct connection of its own, without I/O. Apart from direct.py, because batches need pyarrow."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import (
    END,
    SCAN,
    SCAN_BATCH,
    SCAN_BODY_BYTES_MAX,
    SCAN_END,
    Body,
    Frame,
    FrameReader,
    frame,
)
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.scan_message import ScanMessage, parse_scan_message
from rowlock._codec.wire_errors import error_from
from rowlock._core.direct import lost_error
from rowlock.errors import ServerError

# A batch has a part of a row at least, so it may be as large as the largest value.
BATCH_BYTES_MAX = (1 << 32) - 2
# A larger one comes seldom, and Arrow's pool would keep its memory.
_POOLED_BYTES_MAX = 64 << 20


def scan_frame(request: region_pb2.ScanRequest) -> bytes | None:
    """Returns the frame that begins the scan; None if it is too large, so that the scan goes by gRPC."""
    body = request.SerializeToString()
    return frame(SCAN, body) if len(body) <= SCAN_BODY_BYTES_MAX else None


def next_frame(frames: FrameReader, target: str) -> Frame | None:
    """Returns the next frame; None: receive more into the reader's room. Raises ServerUnavailableError for other bytes.

    target: where the connection goes, for messages.
    """
    found = frames.next()
    if frames.error is not None:
        raise lost_error(target, frames.error)
    if frames.large_bytes:
        frames.begin_large(_memory)
    return found


def _memory(byte_count: int) -> bytearray | memoryview:
    """Returns memory of Arrow's pool, which keeps what it frees, so that nobody clears it again; if it is not large."""
    if byte_count > _POOLED_BYTES_MAX:
        return bytearray(byte_count)
    return memoryview(pa.allocate_buffer(byte_count)).cast("B")


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
