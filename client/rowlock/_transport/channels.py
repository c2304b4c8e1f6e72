"""The options and targets of channels, for both faces of the client."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rowlock_proto.unix_sockets import PREFIX, SocketName, socket_path

from rowlock.errors import InvalidArgumentError

DEFAULT_PORT = 7460
ADDRESS_VARIABLE = "ROWLOCK_SERVER"

# How long a server may be silent during a call before a keepalive ping, and how long it may take to answer the ping. A
# machine that vanished closes no connection: without pings, a call would wait for its own deadline. The server allows a
# ping every 5 s (rpc/grpc/listener.py).
KEEPALIVE_MS = 30_000
KEEPALIVE_TIMEOUT_MS = 10_000

# How long connecting may take. gRPC takes this from an option with another name. After a failure it retries after the
# pauses below, independently of this. A server on a busy machine sometimes needs a second.
CONNECT_MS = 5000

# How long a DNS lookup may take; gRPC's default is two minutes for each attempt.
RESOLVE_MS = 5000

# No message limits here: the server's refusal names the limit. No idle timeout: an embedded server stops when its last
# connection closes. Short backoff: a restarted server should be found at once. No HTTP proxy, which does not belong
# between a database and its client. No shared connections: closing a client closes its own, and a forked child never
# uses its parent's.
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
    # Pings only during calls: an idle client notices a dead server at its next call.
    ("grpc.keepalive_permit_without_calls", 0),
    # A stream or scan may be silent for hours; pings continue.
    ("grpc.http2.max_pings_without_data", 0),
)


def silent_s_max() -> float:
    """Returns how long a server may be silent during a scan past gRPC; it sends a heartbeat far more often."""
    return (KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS) / 1000


def channel_options() -> list[tuple[str, int]]:
    """Returns the options of every channel."""
    return [
        *_OPTIONS,
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # No keepalive is sent while gRPC's own ping is in flight, whose timeout is a minute by default.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS),
    ]


class Target:
    """The target name of an address for gRPC, valid until `close`."""

    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for a Unix socket whose folder does not exist."""
        self._socket: SocketName | None = None
        self.name = address
        if address.startswith(PREFIX):
            try:
                self._socket = SocketName(address.removeprefix(PREFIX))
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(f"can't connect to {address}: {error}") from None
            self.name = self._socket.target

    def close(self) -> None:
        """Frees the name. Call it after the channel was closed. Idempotent."""
        if self._socket is not None:
            self._socket.close()


def given_addresses(server: str | None) -> tuple[str, ...]:
    """Returns the addresses of `connect`'s argument; None: of $ROWLOCK_SERVER, which is read only here.

    Raises InvalidArgumentError if there is none or one is malformed, TypeError for anything but a str.
    """
    if server is not None and not isinstance(server, str):
        raise TypeError(f"server must be an address, a str like 'host:port', not {type(server).__name__}")
    text = os.environ.get(ADDRESS_VARIABLE) if server is None else server
    if not text:
        raise InvalidArgumentError(f"no server is given: pass 'host:port' or 'unix:PATH', or set {ADDRESS_VARIABLE}")
    return parse_addresses(text)


def parse_addresses(text: str) -> tuple[str, ...]:
    """Returns each address of a comma-separated list as `host:port` or `unix:PATH`; the port may be left out.

    A relative PATH starts at the current folder. Raises InvalidArgumentError for an empty list or a malformed address.
    """
    addresses = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise InvalidArgumentError(
            "no server address is given; an address is 'host:port', for example '127.0.0.1:7460'"
        )
    return addresses


def _address(text: str) -> str:
    if text.startswith(PREFIX):
        try:
            return PREFIX + socket_path(text)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        # No port; an IPv6 address is in brackets.
        return f"{text}:{DEFAULT_PORT}"
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or any(sign in text for sign in " /@"):
        raise InvalidArgumentError(f"{text!r} is not the address of a server; an address is 'host:port' or 'unix:PATH'")
    return text
