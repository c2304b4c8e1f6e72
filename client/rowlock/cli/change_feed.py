"""The command changes: shows what was changed in a table with a change feed."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.layouts import layout_of
from rowlock.cli.session import Call
from rowlock.cli.shared_options import TypingOption
from rowlock.cli.shown_changes import ShownChanges, all_shown, shown_changes

if TYPE_CHECKING:
    from rowlock import ChangeFeed


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
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with further changes as they come, until interrupted (Ctrl-C).")
    ] = False,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Show nothing: store the offset of this moment in the file of --since. With --follow: begin now.",
        ),
    ] = False,
    mapping: TypingOption = None,
) -> None:
    """Shows the changes of a table, region by region, in the order in which they were made.

    The table's property changes_retained_hours must be set: 'rowlock alter TABLE --property changes_retained_hours=24'.
    Without --since all changes are shown that are retained. A file that does not exist yet begins with these too.

    With --follow the offset is stored after each batch that was shown, and an interrupt says how to continue.

    A table with a mapping shows its keys, columns and values; what the mapping does not name or can't read is shown as
    bytes, of a column FAMILY:QUALIFIER.

    --json: {"write_number", "kind", "timestamp", "row", "family", "qualifier", "value"}, with a mapping
    {"write_number", "kind", "timestamp", "key": {name: value}, "column", "value"}
    """
    if now and since is None and not follow:
        raise ArgumentError("--now stores an offset: name its file with --since FILE, or begin now with --follow")
    begin = _begin(call, table, since, now=now)
    if now and not follow:
        return
    how = shown_changes(layout_of(call, table, mapping))
    feed = call.client.changes(table, since=begin, follow_s=math.inf if follow else 0)
    try:
        _show(call, how, feed, since, follow=follow)
    except KeyboardInterrupt:
        call.session.interrupt_note = _how_to_continue(table, since, feed) if follow else ""
        raise


def _begin(call: Call, table: str, file: Path | None, *, now: bool) -> Mapping[str, int] | Mapping[int, int] | None:
    """Returns the offset to begin with; None: with the oldest change. Stores the current one. Raises ArgumentError."""
    if not now:
        return None if file is None else _stored(file)
    offset = call.client.changes_offset(table)
    if file is not None:
        _store(file, offset)
    return offset


def _show(call: Call, how: ShownChanges, feed: ChangeFeed, file: Path | None, *, follow: bool) -> None:
    """Shows all changes, and stores the offset in the file: at the end, or after each batch."""
    for place, batch in enumerate(feed):
        call.output.listing(how.heading, all_shown(how, batch), continues=follow and place > 0)
        if follow:
            call.output.flush()
            if file is not None and not feed.is_partial:
                _store(file, feed.offset)
    if file is not None:
        _store(file, feed.offset)


def _how_to_continue(table: str, file: Path | None, feed: ChangeFeed) -> str:
    """Returns how to continue after an interrupt."""
    name = "FILE" if file is None else shlex.quote(str(file))
    command = f"'rowlock changes {shlex.quote(table)} --follow --since {name}' continues after the last batch"
    if file is not None:
        return command
    from rowlock.errors import InvalidArgumentError

    try:
        return f"store {json.dumps(feed.offset)} in FILE, and {command}"
    except InvalidArgumentError:  # It has not begun.
        return ""


def _stored(path: Path) -> dict[str, int] | None:
    """Returns the offset in a file; None if there is none. Raises ArgumentError."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ArgumentError(f"the offset can't be stored in {path}: there is no folder {path.parent}") from None
        return None
    except OSError as error:
        raise ArgumentError(f"the offset in {path} can't be read: {error.strerror}") from error
    except ValueError:  # It is no JSON.
        found = None
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise ArgumentError(f"{path} is not an offset of a change feed, which is an object of write numbers by region")
    return found


def _store(path: Path, offset: Mapping[int, int]) -> None:
    """Stores an offset: a crash leaves the old one or this one."""
    written = path.with_name(path.name + ".new")
    try:
        with written.open("w") as file:
            file.write(json.dumps(offset) + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except OSError as error:
        raise ArgumentError(f"the offset can't be stored in {path}: {error.strerror}") from error
