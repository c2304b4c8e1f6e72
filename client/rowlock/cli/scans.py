"""Commands that read many rows: scan and count."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli import arguments
from rowlock.cli.conditions import where as filter_of
from rowlock.cli.output import ShownRow
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    ColumnArguments,
    ExplainedWhereOption,
    PrefixOption,
    StartOption,
    StopOption,
    TableArgument,
    WhereOption,
    integer_from,
)

if TYPE_CHECKING:
    from rowlock.rows import Cell
    from rowlock.scan import Scan

ROWS_SHOWN = 100


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
            "--limit", parser=integer_from(0), metavar="ROWS", help=f"At most so many rows. Default: {ROWS_SHOWN}."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all rows.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="The same rows, in descending order.")] = False,
    keys_only: Annotated[bool, typer.Option("--keys-only", help="Omit the values.")] = False,
) -> None:
    """Shows rows in ascending order, by default the first 100.

    CONDITION: COLUMN=VALUE, or != < <= > >=, compares bytes; 'COLUMN as int > 15' compares as that type
    (tinyint smallint int bigint float double boolean string; 'as int text' for decimal text); 'COLUMN is absent' or
    'COLUMN is present'. All conditions must hold. An absent column matches no comparison. Write values without quotes,
    but '' for an empty value, and \\xNN for a first character = < > or !.

    --json: a line for each row, {"row", "cells": [{"column", "timestamp", "value"}, ...]}
    """
    if everything and limit is not None:
        raise arguments.ArgumentError("--limit excludes --all: give one of them")
    # islice counts no further than sys.maxsize; no table has as many rows.
    shown = None if everything else ROWS_SHOWN if limit is None else min(limit, sys.maxsize)
    # One row beyond the default limit shows whether the scan stopped early.
    requested = shown + 1 if shown is not None and limit is None else shown
    first, last, begins = arguments.row_range(start, stop, prefix, "; for descending order add --reverse")
    wanted, condition = arguments.columns(columns), filter_of(where)
    found = call.client.table(table).scan(
        first,
        last,
        begins,
        columns=wanted,
        where=condition,
        limit=requested,
        reverse=reverse,
        keys_only=keys_only,
    )
    with found:
        rows = _rows(found.cells())
        call.output.rows(islice(rows, shown))
        note_if_resumed(call, found)
        if limit is None and next(rows, None) is not None:
            call.output.note(f"stopped after {ROWS_SHOWN} rows; give --limit ROWS or --all for more")


def count(
    call: Call,
    table: TableArgument,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: WhereOption = None,
) -> None:
    """Counts rows.

    --json: {"table", "rows": number}
    """
    from rowlock import CellFilter

    first, last, begins = arguments.row_range(start, stop, prefix)
    condition = filter_of(where)
    found = call.client.table(table).scan(
        first, last, begins, where=condition, keys_only=True, cells=CellFilter(first_key_only=True)
    )
    rows = 0
    with found, call.output.progress("counting", None, "rows") as progress:
        for batch in found.to_batches():
            # The filter leaves one cell per row.
            rows += batch.num_rows
            progress.advance(batch.num_rows)
    call.output.record({"table": table, "rows": rows}, str(rows))
    note_if_resumed(call, found)


def note_if_resumed(call: Call, found: Scan[bytes]) -> None:
    """Warns if the scan resumed at a later read point, so that its rows are not of one moment."""
    if found.resumed:
        call.output.note(
            "warning: the scan lost the server and resumed at a later read point, so its rows are not of one moment"
        )


def _rows(cells: Iterable[Cell[bytes]]) -> Iterator[ShownRow]:
    for row, found in groupby(cells, key=lambda cell: cell.row):
        yield ShownRow(row, [(cell.column, cell.timestamp, cell.value) for cell in found])
