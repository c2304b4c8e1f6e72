"""Converts exceptions to messages of the protocol, and to the status of a gRPC call.

The codes and statuses come from the table in rowlock_proto/errors.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc.status_pb2 import Status
from rowlock_proto.direct_frames import Body
from rowlock_proto.errors import ERRORS
from rowlock_proto.v1.types_pb2 import Error

from rowlock_regionserver import errors
from rowlock_regionserver.errors import (
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    LimitExceededError,
    LockUnavailableError,
    OutOfMemoryError,
    RegionServerError,
    SessionEndedError,
    SnapshotEndedError,
    TableInUseError,
)

logger = logging.getLogger(__name__)

# gRPC limits trailing metadata to 8 KiB; a call with more ends without its status. The metadata has the message three
# times, once percent-encoded, with up to three bytes for each byte. Binary values are base64, a third longer.
STATUS_MESSAGE_BYTES_MAX = 1000
STATUS_KEY_BYTES_MAX = 512
STATUS_REASON_BYTES_MAX = 256
# No valid name is longer.
STATUS_TABLE_BYTES_MAX = 256
STATUS_FAMILY_BYTES_MAX = 128

# Sessions and rows that an error lists.
_LISTED_MAX, _LISTED_BYTES_MAX = 100, 1000

# Between two log lines of one kind.
_LOG_SECONDS_MIN = 1.0
_LOG_KINDS_MAX = 100

_CODES: dict[type[RegionServerError], str] = {
    getattr(errors, row.server.name): row.code.name for row in ERRORS if row.code is not None and row.server is not None
}

_STATUSES: dict[int, grpc.StatusCode] = {
    Error.Code.Value(row.code.name): grpc.StatusCode[row.code.status] for row in ERRORS if row.code is not None
}

M = TypeVar("M", bound=Message)


class _LogLimit:
    """Allows one line of a kind each second, however many requests are refused. Thread-safe."""

    def __init__(self) -> None:
        self._next_at: dict[str, float] = {}

    def allows(self, kind: str) -> bool:
        now = time.monotonic()
        if now < self._next_at.get(kind, 0.0):
            return False
        if len(self._next_at) >= _LOG_KINDS_MAX:
            self._next_at.clear()
        self._next_at[kind] = now + _LOG_SECONDS_MIN
        return True


_log_limit = _LogLimit()


def error_message(error: BaseException, doing: str) -> Error:
    """Converts the error. An exception outside our tree is a bug: its traceback is logged, and its type is sent."""
    if not isinstance(error, RegionServerError):
        logger.error("unexpected error while %s", doing, exc_info=error)
        return Error(
            code=Error.INTERNAL,
            message=f"unexpected {type(error).__name__} in the server while {doing}; see the server's log on standard "
            "error. If the request was a change, its outcome is unknown",
        )
    if isinstance(error, CorruptionError):
        if _log_limit.allows(error.message):
            logger.error("damage found while %s: %s", doing, error)
    elif isinstance(error, OutOfMemoryError) and _log_limit.allows("lack of memory"):
        logger.warning("a request was refused: %s", error)
    message = Error(
        code=next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES),
        message=error.message,
        row=error.row,
        table=error.table,
        family=error.family,
        qualifier=error.qualifier,
        retry_after_ms=error.retry_after_ms,
        can_retry=error.can_retry,
    )
    if isinstance(error, LimitExceededError):
        message.limit = error.limit
        message.limit_value = _int64(error.limit_value)
        message.found = _int64(error.found)
    elif isinstance(error, LockUnavailableError | TableInUseError):
        message.holders.extend([holder.decode() for holder in _that_fit([each.encode() for each in error.holders])])
    elif isinstance(error, SessionEndedError | SnapshotEndedError):
        message.ended_ms, message.reason = error.ended_ms, error.reason
    elif isinstance(error, ConflictError):
        message.rows.extend(_that_fit(error.rows))
    return message


def _that_fit(items: Sequence[bytes]) -> Iterator[bytes]:
    """Yields the first items, as many as fit the metadata of a call."""
    left = _LISTED_BYTES_MAX
    for item in items[:_LISTED_MAX]:
        left -= len(item)
        if left < 0:
            return
        yield item


def _int64(value: int) -> int:
    return max(-(1 << 63), min(value, (1 << 63) - 1))


async def end_call(context: grpc.aio.ServicerContext[bytes, bytes], message: Error) -> NoReturn:
    """Ends the call with the error as its status, and the evidence in `grpc-status-details-bin`."""
    code = _STATUSES[message.code]
    text = message.message.encode()
    if len(text) > STATUS_MESSAGE_BYTES_MAX:
        message.message = text[: STATUS_MESSAGE_BYTES_MAX - 3].decode(errors="ignore") + "..."
    message.row = message.row[:STATUS_KEY_BYTES_MAX]
    message.qualifier = message.qualifier[:STATUS_KEY_BYTES_MAX]
    message.family = message.family[:STATUS_FAMILY_BYTES_MAX]
    message.table = message.table.encode()[:STATUS_TABLE_BYTES_MAX].decode(errors="ignore")
    message.reason = message.reason.encode()[:STATUS_REASON_BYTES_MAX].decode(errors="ignore")
    number: int = code.value[0]
    status = Status(code=number, message=message.message)
    details = AnyMessage()
    details.Pack(message)
    status.details.append(details)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(code, message.message)


def parsed(kind: type[M], data: Body) -> M:
    """Parses the bytes as a message of this kind. Raises InvalidRequestError if they are not one."""
    try:
        return kind.FromString(data)  # type: ignore[arg-type]  # it takes any memory
    except DecodeError as error:
        raise InvalidRequestError(
            f"the {len(data)} bytes sent are not a {kind.DESCRIPTOR.full_name} message ({error}); "
            "generate the client from the .proto files of rowlock.v1"
        ) from None
