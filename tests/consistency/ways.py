"""Which way the requests and scans of a campaign's clients went: over a direct connection, or by gRPC."""

from __future__ import annotations

from collections.abc import Iterable

import rowlock

from tests.crash.account import Account

DIRECT, GRPC = "requests sent directly", "requests sent by gRPC"
DIRECT_SCANS, GRPC_SCANS = "scans of a region on direct connections", "scans of a region by gRPC"
SCAN_CONNECTIONS = "direct connections for scans"
DIRECT_BULK, GRPC_BULK = "streams of batches on direct connections", "streams of batches by gRPC"


def count_ways(account: Account, clients: Iterable[rowlock.ClientStatistics]) -> None:
    """Adds what the clients have sent each way to the account's counts."""
    for client in clients:
        account.counts[DIRECT] += sum(way.direct_requests for way in client.connections)
        account.counts[GRPC] += sum(way.grpc_requests for way in client.connections)
        account.counts[DIRECT_SCANS] += sum(way.direct_scans for way in client.connections)
        account.counts[GRPC_SCANS] += sum(way.grpc_scans for way in client.connections)
        account.counts[DIRECT_BULK] += sum(way.direct_bulk_streams for way in client.connections)
        account.counts[GRPC_BULK] += sum(way.grpc_bulk_streams for way in client.connections)
        account.counts[SCAN_CONNECTIONS] += sum(way.scan_connections for way in client.connections)


def judge_direct(account: Account) -> None:
    """Makes it a problem unless most of the counted requests went directly.

    A few may go by gRPC: for a second after a stalled or restarting server did not accept a direct connection.
    """
    if account.counts[DIRECT] <= 2 * account.counts[GRPC]:
        sent = f"{account.counts[DIRECT]} requests were sent directly, and {account.counts[GRPC]} by gRPC"
        account.problems.append(f"{sent}: the campaign has not tested direct connections")


def judge_scans(account: Account, scans_min: int) -> None:
    """Makes it a problem if fewer scans were counted of either way, or if none used the connection of another."""
    _judge_each(account, (GRPC_SCANS, DIRECT_SCANS), scans_min)
    if account.counts[SCAN_CONNECTIONS] >= account.counts[DIRECT_SCANS]:
        account.problems.append("each scan had a new connection: the campaign has not tested those that are kept")


def judge_both(account: Account, requests_min: int) -> None:
    """Makes it a problem if fewer requests were counted of either way."""
    _judge_each(account, (GRPC, DIRECT), requests_min)


def judge_bulk(account: Account, streams_min: int) -> None:
    """Makes it a problem if fewer streams of batches were counted of either way."""
    _judge_each(account, (GRPC_BULK, DIRECT_BULK), streams_min)


def _judge_each(account: Account, ways: Iterable[str], count_min: int) -> None:
    for way in ways:
        if account.counts[way] < count_min:
            account.problems.append(f"too few {way}: the campaign has tested little")
