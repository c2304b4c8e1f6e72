"""The gRPC server: where it listens, what it offers beside our services, and how it is closed."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock_regionserver.config import KIB, MIB, Config
from rowlock_regionserver.rpc.addresses import Address, ListenError
from rowlock_regionserver.rpc.calls import Calls, Method

CATALOG: ServiceDescriptor = catalog_pb2.DESCRIPTOR.services_by_name["Catalog"]
REGION_SERVICE: ServiceDescriptor = region_pb2.DESCRIPTOR.services_by_name["RegionService"]

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


def _options(config: Config) -> list[tuple[str, int]]:
    return [
        # Otherwise a second server could listen on the same port, and clients would be dealt out between the two.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.request_bytes_max + _MESSAGE_SLACK_BYTES),
        ("grpc.max_send_message_length", -1),
        # Connections beyond connections_max hear so by their first call; many more are not taken at all.
        ("grpc.max_allowed_incoming_connections", 2 * config.connections_max),
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


class Door:
    """A gRPC server on one address. Used on the event loop."""

    def __init__(self, config: Config) -> None:
        self._server = grpc.aio.server(options=_options(config))
        self._health = health.aio.HealthServicer()
        self._is_open = False

    def bind(self, address: Address) -> Address:
        """Takes the port, so that nobody else does; clients that connect wait until `open`. The real port is told."""
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError:
            raise ListenError(
                f"can't listen on {address}: {address.why_not()}; choose another address with --listen"
            ) from None
        return Address(address.host, port)

    async def open(self, calls: Calls, catalog: dict[str, Method], regions: dict[str, Method]) -> None:
        """Lets clients in."""
        handlers = (calls.handler(CATALOG, catalog), calls.handler(REGION_SERVICE, regions))
        self._server.add_generic_rpc_handlers(handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        ours = (CATALOG.full_name, REGION_SERVICE.full_name)
        names = (*ours, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        for name in ("", *ours):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._is_open = True
        await self._server.start()

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

    async def abandon(self) -> None:
        """Gives the port back when the door was never opened."""
        if not self._is_open:
            await self._server.start()  # gRPC closes only what was started.
            await self._server.stop(None)
