"""The command changes: shows what was changed in a table with a change feed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock._codec.escapes import escaped
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.session import Call

if TYPE_CHECKING:
    import pyarrow as pa

_HEADING = ("number", "kind", "row", "column", "timestamp", "value")


def changes(
    call: Call,
    table: Annotated[str, typer.Argument(metavar="TABLE", show_default=False, help="The table.")],
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="FILE",
            show_default=False,
            help="Show what came after the offset in this file, and store the new one there at the end.",
        ),
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Show nothing: store the offset of this moment in the file of --since.")
    ] = False,
) -> None:
    """Shows the changes of a table, region by region, in the order in which they were made.

    The table's property changes_retained_hours must be set: 'rowlock alter TABLE --property changes_retained_hours=24'.
    Without --since all changes are shown that are retained. A file that does not exist yet begins with these too.

    --json: {"write_number", "kind", "timestamp", "row", "family", "qualifier", "value"}
    """
    if now:
        if since is None:
            raise ArgumentError("--now stores an offset: name its file with --since FILE")
        _store(since, call.client.changes_offset(table))
        return
    feed = call.client.changes(table, since=None if since is None else _stored(since))
    for batch in feed:
        call.output.listing(_HEADING, ((change, _fields(change)) for change in _shown(batch)))
    if since is not None:
        _store(since, feed.offset)


def _shown(batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
    for change in batch.to_pylist():
        text = {name: escaped(change[name]) for name in ("row", "family", "qualifier", "value")}
        yield {"write_number": change["write_number"], "kind": change["kind"], "timestamp": change["timestamp"], **text}


def _fields(change: dict[str, object]) -> tuple[str, ...]:
    column = f"{change['family']}:{change['qualifier']}"
    names = ("write_number", "kind", "row", "timestamp", "value")
    number, kind, row, timestamp, value = [str(change[name]) for name in names]
    return number, kind, row, column, timestamp, value


def _stored(path: Path) -> dict[str, int] | None:
    """Returns the offset in a file; None if there is none. Raises ArgumentError."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArgumentError(f"the offset in {path} can't be read: {error}") from error
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise ArgumentError(f"{path} is no offset of a change feed, which is an object of write numbers by region")
    return found


def _store(path: Path, offset: dict[int, int]) -> None:
    """Stores an offset: a crash leaves the old one or this one."""
    written = path.with_name(path.name + ".new")
    try:
        with written.open("w") as file:
            json.dump(offset, file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except OSError as error:
        raise ArgumentError(f"the offset can't be stored in {path}: {error}") from error
