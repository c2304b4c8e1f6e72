"""The gRPC server: where it listens, what it offers beside our services, and how it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from rowlock_proto.unix_sockets import SocketName
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock_regionserver.config import KIB, MIB, Config
from rowlock_regionserver.rpc.grpc.addresses import Address, AnyAddress, ListenError, UnixAddress
from rowlock_regionserver.rpc.grpc.calls import Calls

CATALOG: ServiceDescriptor = catalog_pb2.DESCRIPTOR.services_by_name["Catalog"]
REGION_SERVICE: ServiceDescriptor = region_pb2.DESCRIPTOR.services_by_name["RegionService"]

_OURS = (CATALOG.full_name, REGION_SERVICE.full_name)

# How much longer than a request may be a message may be, before gRPC ends the call with a less friendly word than ours.
_MESSAGE_SLACK_BYTES = 1 * MIB
# What gRPC takes of a stream that nobody reads from at the moment.
_UNREAD_BYTES_MAX = 256 * KIB
# A client whose machine vanished is noticed after both together, and its streams and scans end.
KEEPALIVE_MS = 60_000
KEEPALIVE_TIMEOUT_MS = 20_000
# How often clients may ask whether we are still there; ours do every 30 s. Whoever asks more often is not sent away.
_PING_INTERVAL_MS = 5_000
# Between the last of our calls and the end of the connections: what health and reflection clients get.
_LAST_WORDS_SECONDS = 0.5


def _options(config: Config, *, is_unix: bool) -> list[tuple[str, int]]:
    return [
        # Otherwise a second server could listen on the same port, and clients would be dealt out between the two.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.request_bytes_max + _MESSAGE_SLACK_BYTES),
        ("grpc.max_send_message_length", -1),
        # Connections beyond connections_max hear so by their first call; many more are not taken at all. Those of a
        # Unix socket have no names, so that calls can't be counted by connection: there none beyond it is taken.
        ("grpc.max_allowed_incoming_connections", config.connections_max * (1 if is_unix else 2)),
        ("grpc.max_concurrent_streams", config.streams_per_connection_max),
        # What a stream may send before somebody reads it: gRPC would raise it to many MiB on a quick network.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _UNREAD_BYTES_MAX),
        # Clients hold one connection for hours, often idle, and may ping to learn whether we are still there.
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_INTERVAL_MS),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # No question is sent while a ping of gRPC's own is under way, which has a minute otherwise.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS),
    ]


class _State(enum.Enum):
    """In this order."""

    NEW = enum.auto()
    STARTED = enum.auto()
    CLOSED = enum.auto()


class Listener:
    """A gRPC server on one address. Used on the event loop."""

    def __init__(self, config: Config, *, is_unix: bool) -> None:
        """is_unix: the address will be that of a Unix socket."""
        self._server = grpc.aio.server(options=_options(config, is_unix=is_unix))
        self._health = health.aio.HealthServicer()
        self._state = _State.NEW
        self._socket: SocketName | None = None

    @property
    def socket_path(self) -> str:
        """The path that the system knows a Unix socket by; empty for another address."""
        return self._socket.path if self._socket is not None else ""

    def bind(self, address: AnyAddress, *, is_open_to_others: bool) -> AnyAddress:
        """Takes the address, so that nobody else does; gives it with the real port. Clients that connect wait.

        is_open_to_others: other users than the server's may connect to a Unix socket too.
        """
        if isinstance(address, UnixAddress):
            self._bind_socket(address)
            if is_open_to_others:
                address.path.chmod(0o777)
            return address
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError:
            raise ListenError(
                f"can't listen on {address}: {address.why_not()}; choose another address with --listen"
            ) from None
        return Address(address.host, port)

    def _bind_socket(self, address: UnixAddress) -> None:
        # Closed to others from its first moment on. The mask is the process's, but whatever else is made meanwhile is
        # closed to others anyway.
        mask_before = os.umask(0o177)
        try:
            self._socket = SocketName(str(address.path))
            self._server.add_insecure_port(self._socket.target)
        except (RuntimeError, OSError, ValueError) as error:
            why = "its folder is missing, or can't be written" if isinstance(error, RuntimeError) else error
            raise ListenError(f"can't listen on {address}: {why}") from None
        finally:
            os.umask(mask_before)

    async def start(self, calls: Calls) -> None:
        """Answers: health with NOT_SERVING, and calls as `calls` does, which lets none in yet."""
        self._server.add_generic_rpc_handlers((calls.handler(CATALOG), calls.handler(REGION_SERVICE)))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*_OURS, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._state = _State.STARTED
        await self._server.start()

    async def open(self) -> None:
        """Says that it serves."""
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *_OURS):
            await self._health.set(name, status)

    async def close(self, all_ended: asyncio.Event, grace: float) -> None:
        """Lets nobody in any more, waits for `all_ended` as long as `grace` seconds, and ends what is left."""
        with contextlib.suppress(TimeoutError):  # A watcher that reads nothing would hold this up for ever.
            await asyncio.wait_for(self._health.enter_graceful_shutdown(), _LAST_WORDS_SECONDS)
        closing = asyncio.create_task(self._server.stop(grace))
        ended = asyncio.create_task(all_ended.wait())
        await asyncio.wait((closing, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        # Streams of the health service never end by themselves.
        await self._server.stop(_LAST_WORDS_SECONDS)
        await closing
        self._closed()

    async def abandon(self) -> None:
        """Gives the address back when something failed before `open`. Idempotent, also after `close`."""
        if self._state is _State.CLOSED:
            return
        if self._state is _State.NEW:
            await self._server.start()  # gRPC closes only what was started.
        await self._server.stop(None)
        self._closed()

    def _closed(self) -> None:
        """gRPC has removed the socket by now."""
        self._state = _State.CLOSED
        if self._socket is not None:
            self._socket.close()
