"""One read point for all that is done with a DataFrame.

1. Making a DataFrame draws a random id and notes the server's incarnation; both travel in its pickled source.
2. Planning a scan makes the snapshot of this id, or renews it: both branches of a self-join and later actions see one
   moment, that of the first planning.
3. Each task's scan names it, which renews it, and while a scan is open it does not end. An hour unused, and it ends.
4. A server that was started anew since 1 refuses the id: it can't know whether a scan had seen that moment already.

With snapshot=latest each query has a moment of its own, with a lease of minutes, see latest.py. A snapshot that
rowlock.spark.snapshot holds is only used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowlock._core.snapshot_requests import LEASE_S_DEFAULT, new_snapshot_id
from rowlock._transport.channels import given_addresses
from rowlock.client import Client
from rowlock.errors import InvalidArgumentError
from rowlock.snapshot import make_snapshot, renew_snapshot
from rowlock.spark.options import TIMEOUT_S_DEFAULT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATEST_LEASE_MS = 10 * 60 * 1000
"""Of the moment of one query: there may be several a second, and nobody comes back to them but its own tasks."""


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """What names the moment that a DataFrame sees. incarnation_id: the server's when the id was drawn."""

    snapshot_id: bytes
    incarnation_id: str
    # 0: the server's default, an hour.
    lease_ms: int = 0
    # Somebody else made it, and ends it.
    is_held: bool = False


def new_read_point(client: Client) -> ReadPoint:
    """Nothing is made on the server yet."""
    return ReadPoint(new_snapshot_id(), client.server_info().incarnation_id)


def opened(client: Client, table: str, point: ReadPoint, timeout_s: float) -> None:
    """Makes or renews the snapshot on the server. SnapshotEndedError; InvalidArgumentError if it is another table's."""
    # The servers of a client are not for its users.
    servers = client._servers
    if not point.is_held:
        make_snapshot(servers, table, point.snapshot_id, point.incarnation_id, point.lease_ms, timeout_s)
        return
    held = renew_snapshot(servers, point.snapshot_id, timeout_s)
    if held.table != table:
        raise InvalidArgumentError(
            f"the snapshot that the option snapshot names is of the table {held.table!r}, and the DataFrame is of "
            f"{table!r}; a snapshot is of one table"
        )


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """One moment of a table, for as many DataFrames as wanted: give them the option snapshot = `id`."""

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
    """Holds one moment of a table as long as the `with` block lasts, or until nothing used it for lease_s seconds.

        with rowlock.spark.snapshot(spark, "flights", server="db:7460") as moment:
            flights = spark.read.format("rowlock").option("snapshot", moment.id).load("flights")

    It is asked for from the process that calls this. server None: the environment's ROWLOCK_SERVER.
    """
    from rowlock.connecting import connect

    address = ",".join(given_addresses(server))
    with connect(address, timeout=timeout) as client, client.snapshot(table, lease_s) as held:
        yield HeldSnapshot(held.id.hex(), table, address, held.made_ms)
