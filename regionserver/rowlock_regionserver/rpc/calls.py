"""How gRPC calls reach their methods: refused until the server has recovered, and while it stops; counted; and every
error told in the protocol's way.

Methods get and give bytes, not message objects: a message that can't be parsed is then told like any other error, and
the large ones are put together by hand (scan_batches.py).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from rowlock_regionserver.errors import (
    AnotherFolderError,
    LimitExceededError,
    RecoveringError,
    RegionServerError,
    StoppingError,
)
from rowlock_regionserver.rpc.failures import end_call, error_message

Context = grpc.aio.ServicerContext[bytes, bytes]
# A method that takes one message has it as its first argument; one that takes a stream reads it from the context. A
# method that answers one message returns it; one that answers a stream writes it to the context.
Method = Callable[[bytes, Context], Awaitable[bytes | None]]


# The metadata by which a client says which data folder it means.
_FOLDER_ID_KEY = "rowlock-data-folder-id"


class _State(enum.Enum):
    """In this order."""

    RECOVERING = enum.auto()
    SERVING = enum.auto()
    STOPPING = enum.auto()


class Calls:
    """The calls that are under way. Used on the event loop."""

    def __init__(
        self,
        request_bytes_max: int,
        when_count_changed: Callable[[int], None],
        *,
        data_folder_id: str = "",
        retry_after_ms: int = 0,
    ) -> None:
        """`when_count_changed` is told how many calls are under way, each time one begins or ends."""
        self._request_bytes_max = request_bytes_max
        self._when_count_changed = when_count_changed
        self._data_folder_id = data_folder_id
        self._retry_after_ms = retry_after_ms
        self._state = _State.RECOVERING
        self._methods: dict[str, Mapping[str, Method]] = {}  # by the service's name
        self._open_count = 0

    @property
    def open_count(self) -> int:
        """Calls under way."""
        return self._open_count

    def _count(self, change: int) -> None:
        self._open_count += change
        self._when_count_changed(self._open_count)

    def serve(self, services: Mapping[ServiceDescriptor, Mapping[str, Method]]) -> None:
        """Lets calls in. There must be a method for each that a .proto file names."""
        assert self._state is _State.RECOVERING, self._state
        for service, methods in services.items():
            described = {method.name for method in service.methods}
            assert described == methods.keys(), (described, methods.keys())
            self._methods[service.full_name] = methods
        self._state = _State.SERVING

    def stop(self) -> None:
        """Refuses new calls with SERVER_STOPPING."""
        self._state = _State.STOPPING

    def _refusal(self, context: Context) -> RegionServerError | None:
        """Why a call is not let in."""
        if self._state is _State.STOPPING:
            return StoppingError("the server is stopping; nothing was changed, try again in a moment")
        for key, value in context.invocation_metadata() or ():
            if key == _FOLDER_ID_KEY and value != self._data_folder_id:
                return AnotherFolderError(
                    f"this server has the data folder {self._data_folder_id}, and the call is meant for that of "
                    f"{value!r}; nothing was changed, look the regions up again"
                )
        if self._state is _State.RECOVERING:
            return RecoveringError(
                "the server has not finished reading its log yet; nothing was changed, try again in a moment",
                retry_after_ms=self._retry_after_ms,
            )
        return None

    def check_size(self, data: bytes) -> bytes:
        """The message, unless it is too long to be looked at."""
        if len(data) > self._request_bytes_max:
            raise LimitExceededError(
                f"the message has {len(data)} bytes, more than request_bytes_max = {self._request_bytes_max}; "
                "send several smaller ones",
                limit="request_bytes_max",
                limit_value=self._request_bytes_max,
                found=len(data),
            )
        return data

    def handler(self, service: ServiceDescriptor) -> grpc.GenericRpcHandler:
        """What gRPC asks for the methods of the service."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in service.methods:
            make = {
                (False, False): grpc.unary_unary_rpc_method_handler,
                (False, True): grpc.unary_stream_rpc_method_handler,
                (True, True): grpc.stream_stream_rpc_method_handler,
            }[method.client_streaming, method.server_streaming]
            handlers[method.name] = make(
                self._guarded(service.full_name, method.name, takes_stream=method.client_streaming)
            )
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _guarded(self, service: str, name: str, *, takes_stream: bool) -> Method:
        async def call(request: bytes, context: Context) -> bytes | None:
            self._count(1)
            try:
                refusal = self._refusal(context)
                if refusal is not None:
                    raise refusal
                method = self._methods[service][name]
                return await method(request if takes_stream else self.check_size(request), context)
            except grpc.aio.AbortError:
                raise
            except grpc.aio.InternalError:
                # gRPC could not read or write: the client is gone, and there is nobody to tell.
                return b""
            except Exception as error:
                failure = error_message(error, f"serving {name}")
            finally:
                self._count(-1)
            # The call counts as ended, since a client that reads nothing could make this last for ever.
            return await end_call(context, failure)

        return call


async def read_message(context: Context) -> bytes | None:
    """The next message of the client's stream; None when it has sent its last one, or is gone."""
    message: object = await context.read()
    return message if isinstance(message, bytes) else None
