"""What a client says of itself: how its point operations, scans and bulk batches travel to each server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """How a client's point operations, scans and bulk batches travel to one server.

    server: host:port or unix:PATH, as the catalog has it. direct: the address of the open direct connection, or None;
    then they go by gRPC. reason: why there is none; empty if nothing is known against one. opened: direct connections
    opened so far. direct_requests, grpc_requests: how many requests were sent each way.

    direct_scans, grpc_scans: how many scans of a region went each way; those whose rows all came with the answer to a
    request are not among them. scan_reason: why scans went by gRPC although `direct` was open; empty: they didn't.
    scan_connections: how many connections were opened for direct scans, which use those of earlier ones if they can.

    direct_bulk_streams, grpc_bulk_streams, bulk_reason, bulk_connections: the corresponding counts for streams of bulk
    batches. `put_arrow` opens a new stream when the next batch goes to another server, and after a failure.
    """

    server: str
    direct: str | None
    reason: str
    opened: int
    direct_requests: int
    grpc_requests: int
    direct_scans: int = 0
    grpc_scans: int = 0
    scan_reason: str = ""
    scan_connections: int = 0
    direct_bulk_streams: int = 0
    grpc_bulk_streams: int = 0
    bulk_reason: str = ""
    bulk_connections: int = 0


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client at a moment. connections: one for each server that it has used."""

    connections: tuple[ConnectionStatistics, ...]
