"""The command snapshots: shows, creates, restores and drops named snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.lock_waits import noting_lock_waits
from rowlock.cli.quantities import clock_text, size_text
from rowlock.cli.session import Call

if TYPE_CHECKING:
    from rowlock.named_snapshot import NamedSnapshot

_HEADING = ("name", "table", "made", "regions", "files", "size", "held")
_USAGE = "rowlock snapshots [create NAME TABLE | restore NAME TABLE | drop NAME]"


def snapshots(
    call: Call,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[create NAME TABLE | restore NAME TABLE | drop NAME]",
            show_default=False,
            help="What to do. Default: show them.",
        ),
    ] = None,
) -> None:
    """Shows, creates, restores and drops named snapshots: a table as it was at one moment.

    'create NAME TABLE' takes one of a table. It stays until it is dropped, also if the table is changed or dropped. It
    shares the table's files: 'size' is what it consists of, and 'held' what nothing else uses any more, so that
    dropping it frees it. 'restore NAME TABLE' makes a new table of it, and 'drop NAME' removes it.

    For a moment that only a running job needs, see 'rowlock snapshot'.

    --json: {"name", "table", "made_ms", "region_count", "store_file_count", "store_file_bytes", "own_bytes", "error"}
    """
    match words or []:
        case []:
            _show(call, call.client.named_snapshots())
        case ["create", name, table]:
            with noting_lock_waits(call, table):
                made = call.client.create_snapshot(name, table)
            call.output.record(asdict(made), "")
        case ["restore", name, table]:
            with noting_lock_waits(call, table):
                call.client.restore_snapshot(name, table)
        case ["drop", name]:
            call.client.drop_snapshot(name)
        case _:
            raise ArgumentError(f"this is not one of its forms: {_USAGE}")


def _show(call: Call, found: Sequence[NamedSnapshot]) -> None:
    call.output.listing(_HEADING, [(asdict(each), _fields(each)) for each in found], whole=("name",))


def _fields(found: NamedSnapshot) -> tuple[str, ...]:
    head = (found.name, found.table, clock_text(found.made_ms), str(found.region_count))
    if found.error:  # Its sizes are not known.
        return (*head, "", "", f"damaged: {found.error}")
    return (*head, str(found.store_file_count), size_text(found.store_file_bytes), size_text(found.own_bytes))
