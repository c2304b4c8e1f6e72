"""Snapshots: one read point for all uses of a DataFrame.

1. Making a DataFrame draws a random id and records the server's incarnation. Both are in its pickled source.
2. Planning a scan creates the snapshot of this id, or renews it. So both branches of a self-join and later actions have
   the read point of the first planning.
3. Each task's scan names the snapshot, which renews it; it does not end while a scan is open. It ends after an hour
   without use.
4. A server that restarted after step 1 refuses the id: it can't know whether a scan has read at that read point.

A named snapshot is read as the table `@NAME`. It never changes, so its reads need none of this.

With snapshot=latest each query has its own snapshot, with a lease of minutes, see latest.py. A snapshot of
rowlock.spark.snapshot is renewed, and never created here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock._core.catalog import SNAPSHOT_PREFIX
from rowlock._core.snapshot_requests import LEASE_S_DEFAULT, new_snapshot_id
from rowlock._transport.channels import given_addresses
from rowlock.client import Client
from rowlock.errors import InvalidArgumentError
from rowlock.snapshot import make_snapshot, renew_snapshot
from rowlock.spark.options import TIMEOUT_S_DEFAULT, ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATEST_LEASE_MS = 10 * 60 * 1000
"""The lease of one query's snapshot. Short, because there may be several a second, used by the query's tasks only."""


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """Identifies the snapshot of a DataFrame. incarnation_id: the server's when the id was drawn."""

    snapshot_id: bytes
    incarnation_id: str
    # 0: the server's default, an hour.
    lease_ms: int = 0
    # rowlock.spark.snapshot created it, and ends it.
    is_held: bool = False


def new_snapshot_ref(client: Client) -> SnapshotRef:
    """Draws an id. Creates nothing on the server yet."""
    return SnapshotRef(new_snapshot_id(), client.server_info().incarnation_id)


def open_snapshot(client: Client, table: str, ref: SnapshotRef, timeout_s: float) -> None:
    """Creates or renews the snapshot on the server.

    Raises SnapshotEndedError, and InvalidArgumentError for a snapshot of another table.
    """
    # A client's servers are private to the package.
    servers = client._servers
    if not ref.is_held:
        make_snapshot(servers, table, ref.snapshot_id, ref.incarnation_id, ref.lease_ms, timeout_s)
        return
    held = renew_snapshot(servers, ref.snapshot_id, timeout_s)
    if held.table != table:
        raise InvalidArgumentError(
            f"the option snapshot names a snapshot of table {held.table!r}, but the DataFrame reads table {table!r}; "
            "take a snapshot of that table"
        )


def check_named_snapshot(client: Client, options: ReadOptions) -> None:
    """Raises InvalidArgumentError if the options name a table and a named snapshot of another one."""
    if not options.snapshot_of:
        return
    for found in client.named_snapshots():
        if SNAPSHOT_PREFIX + found.name == options.table and found.table != options.snapshot_of:
            raise InvalidArgumentError(
                f"the named snapshot {found.name!r} is of table {found.table!r}, not of {options.snapshot_of!r}; leave "
                "the table out, or name a snapshot of it"
            )


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot of a table for several DataFrames. Set their option snapshot to `id`."""

    id: str
    table: str
    server: str
    made_ms: int


@contextmanager
def snapshot(
    spark: SparkSession,
    table: str,
    *,
    server: str | None = None,
    lease_s: float = LEASE_S_DEFAULT,
    timeout: float = TIMEOUT_S_DEFAULT,
) -> Iterator[HeldSnapshot]:
    """Takes a snapshot of a table. It ends with the `with` block, or after lease_s seconds without use.

        with rowlock.spark.snapshot(spark, "flights", server="db:7460") as moment:
            flights = spark.read.format("rowlock").option("snapshot", moment.id).load("flights")

    The calling process requests it. server: by default ROWLOCK_SERVER of the environment.
    """
    from rowlock.connecting import connect

    address = ",".join(given_addresses(server))
    with connect(address, timeout=timeout) as client, client.snapshot(table, lease_s) as held:
        yield HeldSnapshot(held.id.hex(), table, address, held.made_ms)
