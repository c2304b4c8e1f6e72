"""Errors as messages: what a client is told, and under which gRPC status.

The table of codes and statuses is the protocol's, written in types.proto beside `Error.Code`.
"""

from __future__ import annotations

import logging
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc.status_pb2 import Status
from rowlock_proto.v1.types_pb2 import Error

from rowlock_regionserver.errors import (
    AnotherFolderError,
    CorruptionError,
    CounterOverflowError,
    DeadlineError,
    DiskFullError,
    FamilyNotFoundError,
    FilterTypeError,
    InvalidRequestError,
    LeaseExpiredError,
    LimitExceededError,
    NotACounterError,
    NotServingRegionError,
    RecoveringError,
    RegionServerError,
    RegionTooBusyError,
    SnapshotEndedError,
    StoppingError,
    TableExistsError,
    TableNotFoundError,
    UnknownOutcomeError,
)

logger = logging.getLogger(__name__)

# gRPC limits trailing metadata to 8 KiB, and a call whose metadata is larger ends without any reason told. The message
# is in it three times, once with up to three bytes for each of its own; binary values grow by a third.
STATUS_MESSAGE_BYTES_MAX = 1000
STATUS_KEY_BYTES_MAX = 512
# Longer than any name that there is.
STATUS_TABLE_BYTES_MAX = 256
STATUS_FAMILY_BYTES_MAX = 128

_CODES: dict[type[RegionServerError], Error.Code] = {
    RegionServerError: Error.INTERNAL,
    InvalidRequestError: Error.INVALID_ARGUMENT,
    LimitExceededError: Error.LIMIT_EXCEEDED,
    NotACounterError: Error.NOT_A_COUNTER,
    CounterOverflowError: Error.COUNTER_OVERFLOW,
    FilterTypeError: Error.FILTER_TYPE_MISMATCH,
    TableNotFoundError: Error.TABLE_NOT_FOUND,
    TableExistsError: Error.TABLE_EXISTS,
    FamilyNotFoundError: Error.FAMILY_NOT_FOUND,
    NotServingRegionError: Error.NOT_SERVING_REGION,
    RegionTooBusyError: Error.REGION_TOO_BUSY,
    DiskFullError: Error.DISK_FULL,
    DeadlineError: Error.DEADLINE_EXCEEDED,
    UnknownOutcomeError: Error.UNKNOWN_OUTCOME,
    CorruptionError: Error.CORRUPTION,
    LeaseExpiredError: Error.LEASE_EXPIRED,
    SnapshotEndedError: Error.SNAPSHOT_ENDED,
    StoppingError: Error.SERVER_STOPPING,
    RecoveringError: Error.SERVER_RECOVERING,
    AnotherFolderError: Error.ANOTHER_DATA_FOLDER,
}

_STATUSES: dict[int, grpc.StatusCode] = {
    Error.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Error.TABLE_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Error.TABLE_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Error.FAMILY_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Error.LIMIT_EXCEEDED: grpc.StatusCode.INVALID_ARGUMENT,
    Error.NOT_SERVING_REGION: grpc.StatusCode.ABORTED,
    Error.REGION_TOO_BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Error.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Error.UNKNOWN_OUTCOME: grpc.StatusCode.UNKNOWN,
    Error.NOT_A_COUNTER: grpc.StatusCode.FAILED_PRECONDITION,
    Error.COUNTER_OVERFLOW: grpc.StatusCode.OUT_OF_RANGE,
    Error.FILTER_TYPE_MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    Error.CORRUPTION: grpc.StatusCode.DATA_LOSS,
    Error.LEASE_EXPIRED: grpc.StatusCode.ABORTED,
    Error.SNAPSHOT_ENDED: grpc.StatusCode.ABORTED,
    Error.SERVER_STOPPING: grpc.StatusCode.UNAVAILABLE,
    Error.SERVER_RECOVERING: grpc.StatusCode.UNAVAILABLE,
    Error.ANOTHER_DATA_FOLDER: grpc.StatusCode.ABORTED,
    Error.INTERNAL: grpc.StatusCode.INTERNAL,
    Error.DISK_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

M = TypeVar("M", bound=Message)


def error_message(error: BaseException, doing: str) -> Error:
    """The error as a message. One that is not ours is a bug: it is logged with its trace, and told in short."""
    if not isinstance(error, RegionServerError):
        logger.error("unexpected error while %s", doing, exc_info=error)
        return Error(
            code=Error.INTERNAL,
            message=f"the server met an unexpected {type(error).__name__} while {doing}; its log on standard error "
            "says more. The outcome of a change is unknown",
        )
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
    return message


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
    number: int = code.value[0]
    status = Status(code=number, message=message.message)
    details = AnyMessage()
    details.Pack(message)
    status.details.append(details)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(code, message.message)


def parsed(kind: type[M], data: bytes) -> M:
    """The message that the bytes are. Bytes that are not one raise InvalidRequestError."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the {len(data)} bytes sent are not a {kind.DESCRIPTOR.full_name} message ({error}); "
            "generate the client from the .proto files of rowlock.v1"
        ) from None
