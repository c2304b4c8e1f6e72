"""Converts a server's Error message, or a failed gRPC call, into an exception of the client."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from rowlock_proto.errors import ERRORS
from rowlock_proto.unix_sockets import PREFIX
from rowlock_proto.v1 import types_pb2

from rowlock import errors
from rowlock.errors import (
    ConflictError,
    DeadlineError,
    InvalidArgumentError,
    LimitExceededError,
    LockUnavailableError,
    RowlockError,
    ServerError,
    ServerUnavailableError,
    SessionEndedError,
    SnapshotEndedError,
    TableInUseError,
)

# Starts of grpc's messages if it could not connect, or the host name did not resolve. Only then is it certain that
# nothing was sent.
NAME_NOT_FOUND = ("errors resolving", "DNS resolution failed")
_NEVER_CONNECTED = ("failed to connect to all addresses", *NAME_NOT_FOUND)
# The system's reason in them.
_REASON = re.compile(r"failed to connect to all addresses; last error: .*: Failed to connect to remote host: (.+)")
# The system's messages if no process listens at a socket, or there is no socket.
_NOT_LISTENING = ("Connection refused", "No such file or directory")
# The name of a private server's socket in its data folder, and of a file that only data folders have.
_SOCKET, _FORMAT_FILE = "socket", "format"
# grpc's message if the other side speaks another protocol.
NOT_GRPC = "Failed parsing HTTP/2"
# grpc.aio's message, with INTERNAL, for a write to a stream after its end.
_WRITTEN_TOO_LATE = "Internal error from Core"
# grpc's message for one that is larger than its receiver accepts.
_TOO_LARGE = re.compile(r"larger than max \((\d+) vs\. (\d+)\)")
# A server's grpc accepts messages this much larger than its request_bytes_max (types.proto).
_BEYOND_REQUEST_BYTES_MAX = 1 << 20
_DETAILS_KEY = "grpc-status-details-bin"

_BY_CODE: dict[int, type[RowlockError]] = {
    types_pb2.Error.Code.Value(row.code.name): getattr(errors, row.client.name)
    for row in ERRORS
    if row.code is not None and row.client is not None
}


class FailedCall(Protocol):
    """The common interface of grpc's sync and asyncio errors."""

    def code(self) -> grpc.StatusCode | None: ...

    def details(self) -> str | None: ...


def error_from(message: types_pb2.Error) -> RowlockError:
    """Returns the exception for a server's Error message; ServerError for a code that this client does not know."""
    kind = _BY_CODE.get(message.code, ServerError)
    text = message.message or f"the server reported error {message.code} without a message"
    if kind is LimitExceededError:
        return LimitExceededError(
            text,
            limit=message.limit,
            limit_value=message.limit_value,
            found=message.found,
            table=message.table,
            row=message.row,
            family=message.family,
            qualifier=message.qualifier,
        )
    if kind is SessionEndedError or kind is SnapshotEndedError:
        return kind(text, table=message.table, ended_ms=message.ended_ms, reason=message.reason)
    if kind is LockUnavailableError or kind is TableInUseError:
        return kind(text, table=message.table, holders=message.holders)
    if kind is ConflictError:
        return ConflictError(text, table=message.table, rows=message.rows)
    return kind(
        text,
        table=message.table,
        row=message.row,
        family=message.family,
        qualifier=message.qualifier,
        retry_after_ms=message.retry_after_ms,
    )


def answered_error(failed: FailedCall) -> RowlockError | None:
    """Returns the server's error; None if the failure is grpc's own, so that the request may have been executed."""
    for key, value in _trailing_metadata(failed):
        if key == _DETAILS_KEY and isinstance(value, bytes):
            evidence = _unpacked(value)
            if evidence is not None:
                return error_from(evidence)
    return None


def error_of_call(failed: FailedCall, address: str) -> RowlockError:
    """Returns the exception for a failed gRPC call; from its status code alone if the server sent no Error message."""
    answered = answered_error(failed)
    if answered is not None:
        return answered
    code = failed.code()
    details = failed.details() or "no details"
    if details == _WRITTEN_TOO_LATE:
        return _unavailable(address, details)
    make = _BY_STATUS.get(code) if code is not None else None
    if make is not None:
        return make(address, details)
    name = code.name if code is not None else "no status"
    return ServerError(f"the server at {address} failed with {name}: {details}")


def _unavailable(address: str, details: str) -> ServerUnavailableError:
    if not details.startswith(_NEVER_CONNECTED):
        return ServerUnavailableError(f"the connection to {address} was lost: {details}")
    advice = _private_server_advice(address, details)
    of_system = _REASON.fullmatch(details)
    reason = details if of_system is None else of_system[1]
    error = ServerUnavailableError(f"no server answers at {address}: {reason}{advice}")
    error.never_left = True
    return error


def _private_server_advice(address: str, details: str) -> str:
    """Returns advice if the address is that of a killed private server, which clients don't restart; else "".

    Such a socket is recognised by its path alone: `socket` in a data folder, which has a file `format`.
    """
    if not any(word in details for word in _NOT_LISTENING):
        return ""
    folder, name = os.path.split(address.removeprefix(PREFIX))
    if not address.startswith(PREFIX) or name != _SOCKET or not os.path.exists(os.path.join(folder, _FORMAT_FILE)):
        return ""
    return f"; the private server of {folder} has ended: call rowlock.open({folder!r}) again, which starts one"


def _too_large(address: str, details: str) -> LimitExceededError:
    match = _TOO_LARGE.search(details)
    if match is None:
        return LimitExceededError(
            f"a message to or from {address} exceeds gRPC's size limit; send or request less at once: {details}"
        )
    found, limit = int(match[1]), int(match[2]) - _BEYOND_REQUEST_BYTES_MAX
    return LimitExceededError(
        f"the request has {found} bytes, more than request_bytes_max = {limit} of the server at {address}; "
        "send less at once, and a large value in parts",
        limit="request_bytes_max",
        limit_value=limit,
        found=found,
    )


def _unpacked(details: bytes) -> types_pb2.Error | None:
    """Returns the Error in a google.rpc.Status; None if it has none or is malformed."""
    try:
        status = status_pb2.Status.FromString(details)
        for packed in status.details:
            if packed.Is(types_pb2.Error.DESCRIPTOR):
                error = types_pb2.Error()
                packed.Unpack(error)
                return error
    except DecodeError:
        return None
    return None


def _trailing_metadata(failed: FailedCall) -> list[tuple[str, str | bytes]]:
    read = getattr(failed, "trailing_metadata", None)
    metadata = read() if read is not None else None
    return [] if metadata is None else [(key, value) for key, value in metadata]


_BY_STATUS: dict[grpc.StatusCode, Callable[[str, str], RowlockError]] = {
    grpc.StatusCode.UNAVAILABLE: lambda address, details: _unavailable(address, details),
    grpc.StatusCode.CANCELLED: lambda address, details: ServerUnavailableError(
        f"the call to {address} was cancelled: {details}"
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: lambda address, details: DeadlineError(
        f"the server at {address} did not answer in time: {details}"
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: _too_large,
    grpc.StatusCode.INVALID_ARGUMENT: lambda address, details: InvalidArgumentError(
        f"the server at {address} refused the request as malformed: {details}"
    ),
    grpc.StatusCode.UNIMPLEMENTED: lambda address, details: InvalidArgumentError(
        f"the server at {address} does not speak the protocol rowlock.v1: {details}"
    ),
}
