"""The listener: a gRPC server on one address, with health and reflection services, and its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import enum

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from rowlock_proto.unix_sockets import SocketName
from rowlock_proto.v1 import catalog_pb2, region_pb2, sessions_pb2

from rowlock_regionserver.config import KIB, MIB, Config
from rowlock_regionserver.rpc.addresses import Address, AnyAddress, ListenError, UnixAddress, denied_to_others
from rowlock_regionserver.rpc.grpc.calls import Calls

CATALOG: ServiceDescriptor = catalog_pb2.DESCRIPTOR.services_by_name["Catalog"]
REGION_SERVICE: ServiceDescriptor = region_pb2.DESCRIPTOR.services_by_name["RegionService"]
SESSIONS: ServiceDescriptor = sessions_pb2.DESCRIPTOR.services_by_name["Sessions"]

SERVICES = (CATALOG, REGION_SERVICE, SESSIONS)
_OUR_SERVICES = tuple([service.full_name for service in SERVICES])

# By how much gRPC's message limit exceeds request_bytes_max, so that a request slightly too long gets our error, not
# gRPC's, which says less.
_MESSAGE_SLACK_BYTES = 1 * MIB
# How much gRPC buffers of a stream that the server does not read from.
_UNREAD_BYTES_MAX = 256 * KIB
# The server detects a vanished client machine after the sum of both, and ends its streams and scans.
KEEPALIVE_MS = 60_000
KEEPALIVE_TIMEOUT_MS = 20_000
# How long a call may wait until the event loop takes it. Then gRPC cancels it, and its client can't know that nothing
# was done; by default after 30 s, which a loaded server may need for thousands of calls that came before.
_UNTAKEN_CALL_SECONDS = 24 * 3600
# How many calls may wait for that. gRPC cancels calls beyond it in the same way, by default some beyond 1,000 and all
# beyond 3,000, which ten connections of streams reach.
_UNTAKEN_CALLS_MAX = 100_000
# How often clients may ping; ours do every 30 s. A client that pings more often is not disconnected.
_PING_INTERVAL_MS = 5_000
# The grace period for health and reflection clients, after the last of our calls has ended.
_FINAL_GRACE_SECONDS = 0.5


def _options(config: Config, *, is_unix: bool) -> list[tuple[str, int]]:
    return [
        # Otherwise a second server could listen on the same port, and the system would split clients between the two.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.request_bytes_max + _MESSAGE_SLACK_BYTES),
        ("grpc.max_send_message_length", -1),
        # The first call of a connection beyond connections_max is refused; beyond twice that, connections are not
        # accepted. Connections of a Unix socket have no names to count calls by, so none beyond connections_max is.
        ("grpc.max_allowed_incoming_connections", config.connections_max * (1 if is_unix else 2)),
        ("grpc.max_concurrent_streams", config.streams_per_connection_max),
        ("grpc.server_max_unrequested_time_in_server", _UNTAKEN_CALL_SECONDS),
        ("grpc.server.max_pending_requests", _UNTAKEN_CALLS_MAX),
        ("grpc.server.max_pending_requests_hard_limit", _UNTAKEN_CALLS_MAX),
        # How much a stream may send before it is read: on a fast network gRPC would raise it to many MiB.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _UNREAD_BYTES_MAX),
        # Clients hold one connection for hours, often idle, and may ping to learn whether the server is alive.
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_INTERVAL_MS),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # No keepalive ping is sent while another ping of gRPC is in flight, whose timeout is a minute by default.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS),
    ]


class _State(enum.Enum):
    """The states, in this order."""

    NEW = enum.auto()
    STARTED = enum.auto()
    CLOSED = enum.auto()


class Listener:
    """A gRPC server on one address. Used on the event loop."""

    def __init__(self, config: Config, *, is_unix: bool) -> None:
        """`is_unix`: the listener will be bound to a Unix socket."""
        self._server = grpc.aio.server(options=_options(config, is_unix=is_unix))
        self._health = health.aio.HealthServicer()
        self._state = _State.NEW
        self._socket: SocketName | None = None

    @property
    def socket_path(self) -> str:
        """The path under which the system knows the Unix socket; empty for another kind of address."""
        return self._socket.path if self._socket is not None else ""

    def bind(self, address: AnyAddress, *, allows_other_users: bool) -> AnyAddress:
        """Binds the address, and returns it with the real port. Clients that connect wait until `start`.

        `allows_other_users`: all users of the machine may connect to a Unix socket, not only the server's user.
        """
        if isinstance(address, UnixAddress):
            self._bind_socket(address)
            if allows_other_users:
                address.path.chmod(0o777)
            return address
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError:
            raise ListenError(
                f"can't listen on {address}: {address.bind_error()}; choose another address with --listen"
            ) from None
        return Address(address.host, port)

    def _bind_socket(self, address: UnixAddress) -> None:
        try:
            self._socket = SocketName(str(address.path))
            with denied_to_others():
                self._server.add_insecure_port(self._socket.target)
        except (RuntimeError, OSError, ValueError) as error:
            reason = "its folder is missing, or can't be written" if isinstance(error, RuntimeError) else error
            raise ListenError(f"can't listen on {address}: {reason}") from None

    async def start(self, calls: Calls) -> None:
        """Starts the gRPC server. Health is NOT_SERVING, and `calls` refuses all calls until it serves."""
        self._server.add_generic_rpc_handlers(tuple([calls.handler(service) for service in SERVICES]))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*_OUR_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._state = _State.STARTED
        await self._server.start()

    async def open(self) -> None:
        """Sets health to SERVING."""
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *_OUR_SERVICES):
            await self._health.set(name, status)

    async def close(self, all_ended: asyncio.Event, grace: float) -> None:
        """Accepts no more calls, waits up to `grace` seconds for `all_ended`, and ends the remaining calls."""
        with contextlib.suppress(TimeoutError):  # A health watcher that reads nothing would block this forever.
            await asyncio.wait_for(self._health.enter_graceful_shutdown(), _FINAL_GRACE_SECONDS)
        closing = asyncio.create_task(self._server.stop(grace))
        ended = asyncio.create_task(all_ended.wait())
        await asyncio.wait((closing, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        # Streams of the health service never end on their own.
        await self._server.stop(_FINAL_GRACE_SECONDS)
        await closing
        self._closed()

    async def abandon(self) -> None:
        """Releases the address after a failure before `open`. Idempotent, also after `close`."""
        if self._state is _State.CLOSED:
            return
        if self._state is _State.NEW:
            await self._server.start()  # gRPC closes only what was started.
        await self._server.stop(None)
        self._closed()

    def _closed(self) -> None:
        """Records the end, and closes the socket's name; gRPC has removed the socket itself."""
        self._state = _State.CLOSED
        if self._socket is not None:
            self._socket.close()
