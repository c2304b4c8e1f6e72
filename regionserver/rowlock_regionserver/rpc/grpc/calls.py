"""How gRPC calls reach their methods: refused until the server has recovered, and while it stops; counted; and every
error told in the protocol's way.

Methods get and give bytes, not message objects: a message that can't be parsed is then told like any other error, and
the large ones are put together by hand (scan_batches.py).

To gRPC every method is one of streams, which on the wire is the same. So a call's one message is read here, and counted
in the ledger if it is large, and its one answer is written here, and counted until it is.
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
# A larger message is counted while it is worked on.
SMALL_MESSAGE_BYTES_MAX = 256 * KIB

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
        self, config: Config, ledger: Ledger, when_count_changed: Callable[[int], None], *, data_folder_id: str = ""
    ) -> None:
        """`when_count_changed` is told how many calls are under way, each time one begins or ends."""
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

    def reader(self, context: Context) -> Callable[[], Coroutine[None, None, bytes | None]]:
        """What reads the next message of a call under way; None when the client has sent its last one, or is gone.

        LimitExceededError for one that is too long to be looked at.
        """
        connection = self.connections.of(context.peer())
        assert connection is not None, "a call of no connection"

        async def read() -> bytes | None:
            message: object = await context.read()
            return self._checked(connection.met(message)) if isinstance(message, bytes) else None

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
        """What gRPC asks for the methods of the service."""
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
                # gRPC could not read or write: the client is gone, and there is nobody to tell.
                return
            except Exception as error:
                failure = error_message(error, f"serving {name}")
            finally:
                self.connections.leave(peer)
                self._count(-1)
            # The call counts as ended, since a client that reads nothing could make this last for ever.
            await end_call(context, failure)

        return call

    async def _answer(self, method: Method, context: Context) -> None:
        """Of a method that takes one message."""
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
