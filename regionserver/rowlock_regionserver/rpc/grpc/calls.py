"""Dispatches gRPC calls to methods: counts them, refuses them during recovery and shutdown, and reports errors.

Methods take and return bytes, not message objects. So a message that can't be parsed is reported like any other error,
and large messages are encoded by hand (scan_batches.py).

For gRPC every method is a stream of messages in both directions, which is the same on the wire. The single request of
a unary call is read here, and counted in the ledger if it is large. Its single answer is written here, and counted
until it is written.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from rowlock_regionserver.config import KIB, Config
from rowlock_regionserver.errors import (
    AnotherFolderError,
    LimitExceededError,
    RecoveringError,
    RegionServerError,
    StoppingError,
)
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import ANSWER_COST, REQUEST_COST
from rowlock_regionserver.rpc.grpc.connections import Connections
from rowlock_regionserver.rpc.messages.failures import end_call, error_message

Context = grpc.aio.ServicerContext[bytes, bytes]
# A larger message is counted in the ledger while its call runs.
SMALL_MESSAGE_BYTES_MAX = 256 * KIB

# A method gets a single request as its first argument, and reads a stream of requests from the context. It returns a
# single answer, and writes a stream of answers to the context.
Method = Callable[[bytes, Context], Awaitable[bytes | None]]


# The metadata key by which a client names the data folder that it expects.
_FOLDER_ID_KEY = "rowlock-data-folder-id"


class _State(enum.Enum):
    """The states, in this order."""

    RECOVERING = enum.auto()
    SERVING = enum.auto()
    STOPPING = enum.auto()


class Calls:
    """The calls in progress. Used on the event loop."""

    def __init__(
        self, config: Config, ledger: Ledger, when_count_changed: Callable[[int], None], *, data_folder_id: str = ""
    ) -> None:
        """`when_count_changed` is called with the number of open calls, each time one begins or ends."""
        self._request_bytes_max = config.request_bytes_max
        self._ledger = ledger
        self.connections = Connections(config.connections_max, config.retry_after_ms)
        self._when_count_changed = when_count_changed
        self._data_folder_id = data_folder_id
        self._retry_after_ms = config.retry_after_ms
        self._state = _State.RECOVERING
        self._methods: dict[str, Mapping[str, Method]] = {}  # by the service's name
        self._open_count = 0

    @property
    def open_count(self) -> int:
        """The number of calls in progress."""
        return self._open_count

    def _count(self, change: int) -> None:
        self._open_count += change
        self._when_count_changed(self._open_count)

    def serve(self, services: Mapping[ServiceDescriptor, Mapping[str, Method]]) -> None:
        """Accepts calls from now on. There must be a method for each one in the .proto files."""
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
        """Returns the error for a call that is not accepted; None if it is accepted."""
        if self._state is _State.STOPPING:
            return StoppingError("the server is stopping; nothing was changed, retry in a moment")
        for key, value in context.invocation_metadata() or ():
            if key == _FOLDER_ID_KEY and value != self._data_folder_id:
                return AnotherFolderError(
                    f"this server has the data folder {self._data_folder_id}, but the call is for the data folder "
                    f"{value!r}; nothing was changed, look the regions up again"
                )
        if self._state is _State.RECOVERING:
            return RecoveringError(
                "the server is still recovering from its log; nothing was changed, retry in a moment",
                retry_after_ms=self._retry_after_ms,
            )
        return None

    def reader(self, context: Context) -> Callable[[], Coroutine[None, None, bytes | None]]:
        """Returns a function that reads the call's next message; None after the last one, or if the client is gone.

        The function raises LimitExceededError for a message longer than request_bytes_max.
        """
        connection = self.connections.of(context.peer())
        assert connection is not None, "a call of no connection"

        async def read() -> bytes | None:
            message: object = await context.read()
            if not isinstance(message, bytes):
                return None
            connection.count_message(message)
            return self._checked(message)

        return read

    def _checked(self, message: bytes) -> bytes:
        if len(message) > self._request_bytes_max:
            raise LimitExceededError(
                f"the message has {len(message)} bytes, more than request_bytes_max = {self._request_bytes_max}; "
                "send several smaller ones",
                limit="request_bytes_max",
                limit_value=self._request_bytes_max,
                found=len(message),
            )
        return message

    def handler(self, service: ServiceDescriptor) -> grpc.GenericRpcHandler:
        """Returns the gRPC handler for the methods of the service."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in service.methods:
            guarded = self._guarded(service.full_name, method.name, takes_stream=method.client_streaming)
            handlers[method.name] = grpc.stream_stream_rpc_method_handler(guarded)
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _guarded(self, service: str, name: str, *, takes_stream: bool) -> Callable[[object, Context], Awaitable[None]]:
        async def call(_: object, context: Context) -> None:
            self._count(1)
            peer = context.peer()
            self.connections.enter(peer)
            try:
                self.connections.check()
                refusal = self._refusal(context)
                if refusal is not None:
                    raise refusal
                method = self._methods[service][name]
                await (method(b"", context) if takes_stream else self._answer(method, context))
                return
            except grpc.aio.AbortError:
                raise
            except (grpc.aio.InternalError, grpc.aio.UsageError):
                # gRPC could not read or write: the client is gone.
                return
            except Exception as error:
                failure = error_message(error, f"serving {name}")
            finally:
                self.connections.leave(peer)
                self._count(-1)
            # The call no longer counts, because a client that reads nothing could block this forever.
            await end_call(context, failure)

        return call

    async def _answer(self, method: Method, context: Context) -> None:
        """Reads the single request of a unary call, runs its method, and writes the answer, if there is one."""
        request = await self.reader(context)()
        if request is None:
            return  # The client is gone.
        byte_count = REQUEST_COST * len(request)
        if len(request) > SMALL_MESSAGE_BYTES_MAX:
            with self._ledger.requests.taken(byte_count):
                answer = await method(request, context)
        else:
            answer = await method(request, context)
        del request
        if answer is not None:
            self._ledger.answers.add(ANSWER_COST * len(answer))
            try:
                await context.write(answer)
            finally:
                self._ledger.answers.give(ANSWER_COST * len(answer))
