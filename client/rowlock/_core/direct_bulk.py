"""A stream of bulk batches on a direct connection, without I/O: its frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import BULK_ANSWER, BULK_BATCH, END, HEAD, Body
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.bulk_message import MessagePiece
from rowlock._codec.wire_errors import error_from
from rowlock._core.direct import too_large_error
from rowlock.errors import ServerError

# Of an answer, which has an error at most.
ANSWER_BYTES_MAX = 1 << 20
# Shorter parts are joined.
_SHORT_BYTES_MAX = 16 * 1024


def batch_frame(message: Sequence[MessagePiece], body_bytes_max: int, server: str) -> list[memoryview]:
    """Returns the parts of the frame of a BulkBatch message. Raises LimitExceededError if the server would refuse it.

    server: its address, for the error.
    """
    byte_count = sum(map(len, message))
    if byte_count > body_bytes_max:
        raise too_large_error(byte_count, body_bytes_max, server)
    return _joined([HEAD.pack(byte_count + 1, BULK_BATCH), *message])


def _joined(pieces: Iterable[MessagePiece]) -> list[memoryview]:
    """Joins short parts that follow one another: Arrow writes some of a few bytes around each column.

    No returned part is empty.
    """
    found: list[memoryview] = []
    short: list[MessagePiece] = []
    for piece in pieces:
        if len(piece) <= _SHORT_BYTES_MAX:
            if len(piece):
                short.append(piece)
            continue
        if short:
            found.append(memoryview(b"".join(short)))
            short = []
        found.append(memoryview(piece))
    if short:
        found.append(memoryview(b"".join(short)))
    return found


def answer_of(kind: int, body: Body, target: str) -> region_pb2.BulkAnswer:
    """Returns the answer of a frame. Raises the error with which the connection ended.

    target: where the connection goes, for messages.
    """
    try:
        if kind == BULK_ANSWER:
            return region_pb2.BulkAnswer.FromString(bytes(body))
        if kind == END:
            raise error_from(types_pb2.Error.FromString(bytes(body)))
    except DecodeError as error:
        raise ServerError(f"the server at {target} sent a frame of kind {kind} that makes no sense: {error}") from None
    raise ServerError(f"the server at {target} sent a frame of kind {kind} after bulk batches, which makes no sense")
