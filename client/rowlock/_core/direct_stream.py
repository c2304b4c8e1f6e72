"""What scans and streams of bulk batches on direct connections receive, without I/O."""

from __future__ import annotations

import pyarrow as pa
from rowlock_proto.direct_frames import Frame, FrameReader

from rowlock._core.direct import lost_error

# A larger one comes seldom, and Arrow's pool would keep its memory.
_POOLED_BYTES_MAX = 64 << 20


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
