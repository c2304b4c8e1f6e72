"""The command snapshot: takes, renews and ends snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.arguments import ArgumentError, snapshot_id
from rowlock.cli.lock_waits import noting_lock_waits
from rowlock.cli.session import Call
from rowlock.cli.shared_options import seconds

if TYPE_CHECKING:
    from rowlock import Snapshot


def snapshot(
    call: Call,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", show_default=False, help="Take a snapshot of this table.")
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            "--lease",
            parser=seconds,
            metavar="SECONDS",
            help="It ends after this long without use. Default: 3600; at most a day.",
        ),
    ] = None,
    renewed: Annotated[
        list[str] | None,
        typer.Option("--renew", metavar="ID", show_default=False, help="Restart its lease; may be repeated."),
    ] = None,
    ended: Annotated[
        list[str] | None, typer.Option("--end", metavar="ID", show_default=False, help="End it; may be repeated.")
    ] = None,
) -> None:
    """Takes a snapshot, one moment of a table, and prints its id.

    'rowlock scan', 'count' and 'export' read it with --snapshot ID. It ends with --end, after its lease without use,
    when its table is dropped or truncated, and when the server stops. Until then the server keeps what it sees on disk.
    'rowlock status' lists the open ones.

    --json: {"snapshot": id, "table", "lease_s"}
    """
    chosen: Sequence[object] = [item for item in (table, renewed, ended) if item]
    if len(chosen) != 1:
        raise ArgumentError("give a TABLE to take a snapshot of, or --renew ID, or --end ID: one of the three")
    if table is None and lease is not None:
        raise ArgumentError("--lease is for a new snapshot; --renew restarts the lease that it was taken with")
    if table is not None:
        with noting_lock_waits(call, table):
            _show(call, _taken(call, table, lease))
    for found in [snapshot_id(text) for text in renewed or ()]:
        _show(call, call.client.open_snapshot(found))
    for found in [snapshot_id(text) for text in ended or ()]:
        call.client.open_snapshot(found).end()


def _taken(call: Call, table: str, lease: float | None) -> Snapshot:
    from rowlock.errors import LimitExceededError

    if lease is None:
        return call.client.snapshot(table)
    try:
        return call.client.snapshot(table, lease)
    except LimitExceededError as error:
        if error.limit != "snapshot_lease_ms_max":
            raise
        raise ArgumentError(
            f"--lease {lease:.15g} is longer than the server allows: at most {error.limit_value / 1000:.15g} seconds; "
            "each scan of the snapshot renews it"
        ) from error


def _show(call: Call, taken: Snapshot) -> None:
    record = {"snapshot": taken.id.hex(), "table": taken.table, "lease_s": taken.lease_s}
    call.output.record(record, taken.id.hex())
