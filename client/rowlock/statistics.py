"""What a client says of itself: how its point operations travel to each server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """How a client's point operations travel to one server.

    server: host:port or unix:PATH, as the catalog has it. direct: the address of the open direct connection, or None;
    then they go by gRPC. reason: why there is none; empty if nothing is known against one. opened: direct connections
    opened so far. direct_requests, grpc_requests: how many requests were sent each way.
    """

    server: str
    direct: str | None
    reason: str
    opened: int
    direct_requests: int
    grpc_requests: int


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client at a moment. connections: one for each server to which it has sent point operations."""

    connections: tuple[ConnectionStatistics, ...]
