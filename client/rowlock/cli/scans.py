"""Commands on ranges of rows: scan, count, delete-range."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rowlock_proto.shown_names import escaped

from rowlock.cli import arguments
from rowlock.cli.layouts import TypedLayout, check_text, layout_of
from rowlock.cli.output import ShownRow
from rowlock.cli.quantities import count_text
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    ColumnArguments,
    ExplainedWhereOption,
    NewestOption,
    PrefixOption,
    SnapshotOption,
    StartOption,
    StopOption,
    TableArgument,
    TimeRangeOption,
    TypingOption,
    WhereOption,
    YesOption,
    integer_from,
)
from rowlock.cli.start import import_large

if TYPE_CHECKING:
    from rowlock import Scan, TypedScan
    from rowlock.rows import Cell

ROWS_SHOWN = 100
_SCANS = "rowlock.scan"


def scan(
    call: Call,
    table: TableArgument,
    columns: ColumnArguments = None,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: ExplainedWhereOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", parser=integer_from(0), metavar="ROWS", help=f"At most this many rows. Default: {ROWS_SHOWN}."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all rows.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="The same rows, in descending order.")] = False,
    keys_only: Annotated[bool, typer.Option("--keys-only", help="Omit the values.")] = False,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions",
            parser=integer_from(1),
            metavar="COUNT",
            help="At most this many versions of each column, newest first; as bytes.",
        ),
    ] = None,
    timestamp: NewestOption = None,
    time_range: TimeRangeOption = None,
    snapshot: SnapshotOption = None,
    mapping: TypingOption = None,
) -> None:
    """Shows rows in ascending order, by default the first 100.

    A table with a mapping shows one line per row, with its key and its columns; other tables one line per cell.

    CONDITION: COLUMN=VALUE, or != < <= > >=, compares; 'COLUMN ~ EXPRESSION' matches a regular expression of RE2;
    'COLUMN is absent' or 'COLUMN is present'. All conditions must hold. An absent column matches no comparison. Without
    a mapping values are compared as bytes; 'COLUMN as int > 15' compares as that type (tinyint smallint int bigint
    float double boolean string; 'as int text' for decimal text). Write values without quotes, but '' for an empty
    value, and \\xNN for a first character = < > or !.

    --json: a line for each row, {"row", "cells": [{"column", "timestamp", "value"}, ...]}; with a mapping {name: value}
    """
    if everything and limit is not None:
        raise arguments.ArgumentError("--limit excludes --all: give one of them")
    period = arguments.time_range(time_range)
    check_text(start, stop, prefix, *(columns or ()))
    # islice counts no further than sys.maxsize; no table has as many rows.
    shown = None if everything else ROWS_SHOWN if limit is None else min(limit, sys.maxsize)
    # One row beyond the default limit shows whether the scan stopped early.
    requested = shown + 1 if shown is not None and limit is None else shown
    layout = layout_of(call, table, "none" if versions is not None and mapping is None else mapping)
    if versions is not None and layout.is_typed:
        raise arguments.ArgumentError("--versions shows cells as bytes, so it excludes --mapping")
    import_large(_SCANS)
    hint = "; for descending order add --reverse"
    first, last, begins = layout.bounds(start, stop, prefix, hint)
    wanted, condition = layout.columns(columns), layout.where(where)
    options: dict[str, Any] = {} if versions is None else {"versions": versions}
    if timestamp is not None:
        options["timestamp"] = timestamp
    if period is not None:
        options["time_range"] = period
    if snapshot is not None:
        options["snapshot"] = arguments.snapshot_id(snapshot)
    found = layout.table.scan(
        first,
        last,
        begins,
        columns=wanted,
        where=condition,
        limit=requested,
        reverse=reverse,
        keys_only=keys_only,
        **options,
    )
    with found:
        if isinstance(layout, TypedLayout):
            more: Iterator[object] = _show_typed(call, layout, found, [] if keys_only else wanted, shown)
        else:
            rows = _rows(found.cells())
            call.output.rows(islice(rows, shown))
            more = rows
        has_more = limit is None and shown is not None and next(more, None) is not None
        note_if_resumed(call, found)
        if has_more:
            call.output.note(f"stopped after {ROWS_SHOWN} rows; give --limit ROWS or --all for more")


def _show_typed(
    call: Call, layout: TypedLayout, found: TypedScan[dict[str, Any]], names: Sequence[str] | None, shown: int | None
) -> Iterator[object]:
    """Shows the first rows of a scan of these columns. Returns an iterator of the others."""
    if call.json_lines:
        records = layout.scanned_records(found, names)
        call.output.records(islice(records, shown))
        return records
    heading = layout.heading(names or None)
    lines = layout.scanned_fields(found, names)
    call.output.lines(heading[:1] if names == [] else heading, islice(lines, shown))
    return lines


def count(
    call: Call,
    table: TableArgument,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: WhereOption = None,
    snapshot: SnapshotOption = None,
    mapping: TypingOption = None,
) -> None:
    """Counts rows.

    --json: {"table", "rows": number}
    """
    check_text(start, stop, prefix)
    layout = layout_of(call, table, mapping)
    first, last, begins = layout.bounds(start, stop, prefix)
    options = {} if snapshot is None else {"snapshot": arguments.snapshot_id(snapshot)}
    import_large(_SCANS)
    found = layout.table.scan(first, last, begins, where=layout.where(where), keys_only=True, **options)
    with found, call.output.progress("counting", None, "rows") as progress:
        rows = found.count(progress.to)
    call.output.record({"table": table, "rows": rows}, str(rows))
    note_if_resumed(call, found)


def delete_range(
    call: Call,
    table: TableArgument,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: WhereOption = None,
    yes: YesOption = False,
    mapping: TypingOption = None,
) -> None:
    """Deletes the rows of a range, in pieces.

    It is not a transaction: an interrupt leaves a part deleted, and the command can be repeated. Rows that are written
    meanwhile may stay. 'rowlock truncate' deletes all rows at once.

    --json: {"table", "rows": number deleted}
    """
    if not (start or stop or prefix):
        raise arguments.ArgumentError(
            "give --prefix, --start or --stop, not empty; 'rowlock truncate' deletes all rows"
        )
    check_text(start, stop, prefix)
    layout = layout_of(call, table, mapping)
    first, last, begins = layout.bounds(start, stop, prefix)
    condition = layout.where(where)
    of = f"with the prefix {prefix}" if prefix is not None else f"from {start or 'the first'} to {stop or 'the last'}"
    call.confirm(f"Delete the rows of table {table} {of}?", yes=yes)
    import_large(_SCANS)
    with call.output.progress(f"deleting from {table}", None, "rows") as progress:
        rows = layout.table.delete_range(first, last, begins, where=condition, on_progress=progress.to)
    call.output.record({"table": table, "rows": rows}, f"{count_text(rows, 'row')} deleted")


def note_if_resumed(call: Call, found: Scan[bytes] | TypedScan[Any]) -> None:
    """Warns if the scan resumed at a later read point, so that its rows are not of one moment."""
    if found.resumed:
        call.output.note(
            "warning: the scan lost the server and resumed at a later read point, so its rows are not of one moment"
        )


def _rows(cells: Iterable[Cell[bytes]]) -> Iterator[ShownRow]:
    for row, found in groupby(cells, key=lambda cell: cell.row):
        yield ShownRow(escaped(row), [(escaped(cell.column), cell.timestamp, escaped(cell.value)) for cell in found])
