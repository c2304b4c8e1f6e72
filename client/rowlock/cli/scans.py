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
from rowlock.cli.words import (
    ColumnWords,
    ExplainedWhereOption,
    PrefixOption,
    StartOption,
    StopOption,
    TableWord,
    WhereOption,
    count_from,
)

if TYPE_CHECKING:
    from rowlock.rows import Cell
    from rowlock.scan import Scan

ROWS_SHOWN = 100


def scan(
    call: Call,
    table: TableWord,
    columns: ColumnWords = None,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: ExplainedWhereOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", parser=count_from(0), metavar="ROWS", help=f"Default: {ROWS_SHOWN}, which is then told."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="No limit.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="The same rows backwards.")] = False,
    keys_only: Annotated[bool, typer.Option("--keys-only", help="Values are left empty.")] = False,
) -> None:
    """Shows rows in order, up to 100 unless told otherwise.

    CONDITION: COLUMN=VALUE, or != < <= > >=, comparing bytes; 'COLUMN as int > 15' reads the column as that type
    (tinyint smallint int bigint float double boolean string; 'as int text' for decimal text); 'COLUMN is absent' or
    'COLUMN is present'. All conditions must hold. An absent column meets no comparison. A value stands without quotes
    of its own, but '' is an empty one; what looks like another condition than it would be is refused.
    A value that begins with = < > or ! is written with \\xNN.

    --json: a line for each row, {"row", "cells": [{"column", "timestamp", "value"}, ...]}
    """
    if everything and limit is not None:
        raise arguments.ArgumentError("say --limit or --all, not both")
    # No table has as many rows as islice can't count.
    shown = None if everything else ROWS_SHOWN if limit is None else min(limit, sys.maxsize)
    # One row more than the default limit tells whether there is more.
    asked = shown + 1 if shown is not None and limit is None else shown
    first, last, begins = arguments.row_range(start, stop, prefix, "; for rows backwards say --reverse as well")
    wanted, condition = arguments.columns(columns), filter_of(where)
    found = call.client.table(table).scan(
        first,
        last,
        begins,
        columns=wanted,
        where=condition,
        limit=asked,
        reverse=reverse,
        keys_only=keys_only,
    )
    with found:
        rows = _rows(found.cells())
        call.output.rows(islice(rows, shown))
        note_if_resumed(call, found)
        if limit is None and next(rows, None) is not None:
            call.output.note(f"stopped at {ROWS_SHOWN} rows; --limit ROWS or --all for more")


def count(
    call: Call,
    table: TableWord,
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
            # One cell a row, so cells are rows.
            rows += batch.num_rows
            progress.advance(batch.num_rows)
    call.output.record({"table": table, "rows": rows}, str(rows))
    note_if_resumed(call, found)


def note_if_resumed(call: Call, found: Scan[bytes]) -> None:
    """Says so when what was read is not of one moment."""
    if found.resumed:
        call.output.note(
            "the server was lost and the scan went on at a later moment, so these rows are not of one moment"
        )


def _rows(cells: Iterable[Cell[bytes]]) -> Iterator[ShownRow]:
    for row, found in groupby(cells, key=lambda cell: cell.row):
        yield ShownRow(row, [(cell.column, cell.timestamp, cell.value) for cell in found])
