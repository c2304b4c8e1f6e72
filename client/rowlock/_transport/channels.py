"""Channels to servers: how they are opened, for threads and for asyncio alike."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rowlock_proto.unix_sockets import PREFIX, SocketName, socket_path

from rowlock.errors import InvalidArgumentError

DEFAULT_PORT = 7460
ADDRESS_VARIABLE = "ROWLOCK_SERVER"

# How long a server may be silent under an open call before it is asked whether it is still there, and how long it may
# take to answer that. A machine that vanished closes no connection: without asking, a call waits for its own deadline.
# The server allows a question every 5 s (rpc/grpc/listener.py).
KEEPALIVE_MS = 30_000
KEEPALIVE_TIMEOUT_MS = 10_000

# How long the start of a connection may take. gRPC takes it from an option with another name, and a failed one is tried
# again after the pauses named below, whatever this is. A server on a busy machine needs a second for it at times.
CONNECT_MS = 5000

# How long a name server may take to say where a host is; gRPC waits for two minutes otherwise, in each try anew.
RESOLVE_MS = 5000

# Sizes are limited by the server, in words that say which. A client keeps its connection as long as it lives: an
# embedded server stops when the last one closes. A server that was restarted should be found at once. Proxies of the
# web have no business between a database and its client. Channels don't share connections, so that closing a client
# closes its own and a forked child never meets its parent's.
_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.client_idle_timeout_ms", (1 << 31) - 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_ares_query_timeout", RESOLVE_MS),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # Only under an open call: a client that only waits for its next call finds out then.
    ("grpc.keepalive_permit_without_calls", 0),
    # A stream or scan may be silent for hours, and is asked about all the same.
    ("grpc.http2.max_pings_without_data", 0),
)


def channel_options() -> list[tuple[str, int]]:
    """What every channel is opened with."""
    return [
        *_OPTIONS,
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # No question is sent while a ping of gRPC's own is under way, which has a minute otherwise.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS),
    ]


class Target:
    """What gRPC calls an address, as long as it is open."""

    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for a Unix socket whose folder is not there."""
        self._socket: SocketName | None = None
        self.name = address
        if address.startswith(PREFIX):
            try:
                self._socket = SocketName(address.removeprefix(PREFIX))
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(f"no server can be reached at {address}: {error}") from None
            self.name = self._socket.target

    def close(self) -> None:
        """Idempotent; after the channel was closed."""
        if self._socket is not None:
            self._socket.close()


def given_addresses(server: str | None) -> tuple[str, ...]:
    """The addresses of `connect`'s argument; None: those in the environment, which is read here and nowhere else.

    Raises InvalidArgumentError if there is none, or for a malformed one.
    """
    given = os.environ.get(ADDRESS_VARIABLE) if server is None else server
    if not given:
        raise InvalidArgumentError(f"no server is given: say 'host:port' or 'unix:PATH', or set {ADDRESS_VARIABLE}")
    return parse_addresses(given)


def parse_addresses(text: str) -> tuple[str, ...]:
    """`host:port` or `unix:PATH` of each address in a comma-separated list; the port may be left out.

    A relative path is one in the current folder. Raises InvalidArgumentError for an empty list or a malformed address.
    """
    addresses = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise InvalidArgumentError("no address of a server is given; an address is 'host:port', '127.0.0.1:7460' say")
    return addresses


def _address(text: str) -> str:
    if text.startswith(PREFIX):
        try:
            return PREFIX + socket_path(text)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        # No port; an IPv6 address stands in brackets.
        return f"{text}:{DEFAULT_PORT}"
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or any(sign in text for sign in " /@"):
        raise InvalidArgumentError(f"{text!r} is not the address of a server; an address is 'host:port' or 'unix:PATH'")
    return text
