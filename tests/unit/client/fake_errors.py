"""How calls and requests of the fake server fail."""

from __future__ import annotations

import enum
from typing import NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2
from rowlock_proto.v1 import types_pb2


class Mishap(enum.Enum):
    """A failure of a point request, or of a call."""

    NONE = enum.auto()
    ANSWER_IS_LOST = enum.auto()  # applied; the stream ends before the answer
    REQUEST_IS_LOST = enum.auto()  # the stream ends before it is applied
    NO_ANSWER = enum.auto()  # applied, and never answered


# An error to answer with.
Scripted = Mishap | types_pb2.Error


class RefusedError(Exception):
    """Raised by the script of a scan: the call ends with this error."""

    def __init__(self, error: types_pb2.Error) -> None:
        super().__init__(error.message)
        self.error = error


def end_call(context: grpc.ServicerContext, message: types_pb2.Error) -> NoReturn:
    """Ends a call with a typed error, as a server does."""
    details = any_pb2.Any()
    details.Pack(message)
    status = status_pb2.Status(code=grpc.StatusCode.ABORTED.value[0], details=[details])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.ABORTED, message.message)
    raise AssertionError("abort raises")


def error(code: types_pb2.Error.Code, message: str = "refused", *, retry_after_ms: int = 0) -> types_pb2.Error:
    return types_pb2.Error(code=code, message=message, retry_after_ms=retry_after_ms)
