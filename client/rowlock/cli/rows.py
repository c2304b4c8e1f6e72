"""Commands that read or change one row."""

from __future__ import annotations

from typing import Annotated

import typer

from rowlock._codec.escapes import escaped
from rowlock.cli import arguments
from rowlock.cli.output import ShownRow
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    CellArguments,
    ColumnArgument,
    ColumnArguments,
    RowArgument,
    TableArgument,
    TimestampOption,
    integer,
    integer_from,
)

NOT_APPLIED = 1


def put(
    call: Call, table: TableArgument, row: RowArgument, cells: CellArguments, timestamp: TimestampOption = None
) -> None:
    """Writes cells of one row, atomically.

    --json: {"table", "row", "cells": number of cells written}
    """
    key, data = arguments.bytes_of(row), arguments.cells(cells)
    call.client.table(table).put(key, data, timestamp=timestamp)
    call.output.record({"table": table, "row": escaped(key), "cells": len(data)}, "")


def get(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    columns: ColumnArguments = None,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions",
            parser=integer_from(1),
            metavar="COUNT",
            help="At most so many versions of each COLUMN, newest first.",
        ),
    ] = None,
    timestamp: Annotated[
        int | None,
        typer.Option(
            "--timestamp",
            parser=integer,
            metavar="MILLISECONDS",
            help="The newest version up to this timestamp, inclusive.",
        ),
    ] = None,
    time_range: Annotated[
        str | None, typer.Option("--time-range", metavar="START..STOP", help="In milliseconds; STOP is exclusive.")
    ] = None,
) -> None:
    """Shows the cells of one row.

    --json: {"row", "cells": [{"column", "timestamp", "value"}, ...]}
    """
    key, wanted, period = arguments.bytes_of(row), arguments.columns(columns), arguments.time_range(time_range)
    if versions is None:
        found = call.client.table(table).row(
            key, wanted, timestamp=timestamp, time_range=period, include_timestamp=True
        )
        cells = [(column, stamp, value) for column, (value, stamp) in found.items()]
    else:
        if timestamp is not None or period is not None:
            raise arguments.ArgumentError("--versions excludes --timestamp and --time-range: give one of them")
        if not columns:
            raise arguments.ArgumentError("--versions needs a COLUMN")
        names = [arguments.column(text) for text in columns]
        handle = call.client.table(table)
        cells = [(name, stamp, value) for name in names for value, stamp in handle.cells(key, name, versions)]
    call.output.rows([ShownRow(key, cells)])
    if not cells:
        call.output.note("no such row" if wanted is None and period is None and timestamp is None else "no such cells")


def delete(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    columns: ColumnArguments = None,
    timestamp: Annotated[
        int | None,
        typer.Option(
            "--timestamp", parser=integer, metavar="MILLISECONDS", help="Only versions up to this timestamp, inclusive."
        ),
    ] = None,
) -> None:
    """Deletes a row, or only the given columns and families.

    --json: {"table", "row", "deleted": ["row"] or the columns}
    """
    key, wanted = arguments.bytes_of(row), arguments.columns(columns)
    call.client.table(table).delete(key, wanted, timestamp=timestamp)
    what = ["row"] if wanted is None else [escaped(name) for name in wanted]
    call.output.record({"table": table, "row": escaped(key), "deleted": what}, "")


def increment(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    amount: Annotated[int, typer.Argument(metavar="AMOUNT", parser=integer, help="May be negative.")] = 1,
) -> None:
    """Adds to a counter and shows its new value.

    A missing counter counts as 0.

    --json: {"row", "column", "value": number}
    """
    key, name = arguments.bytes_of(row), arguments.column(column)
    value = call.client.table(table).increment(key, name, amount)
    call.output.record({"row": escaped(key), "column": escaped(name), "value": value}, str(value))


def append(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    suffix: Annotated[str, typer.Argument(metavar="SUFFIX", show_default=False)],
) -> None:
    """Appends to a value and shows the complete new value.

    A missing value counts as empty.

    --json: {"row", "column", "value"}
    """
    key, name = arguments.bytes_of(row), arguments.column(column)
    value = call.client.table(table).append(key, name, arguments.bytes_of(suffix))
    call.output.record({"row": escaped(key), "column": escaped(name), "value": escaped(value)}, escaped(value))


def check_and_put(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    cells: CellArguments,
    expected: Annotated[
        str | None, typer.Option("--expected", metavar="VALUE", help="The value to compare the column with.")
    ] = None,
    absent: Annotated[bool, typer.Option("--absent", help="Expect the column to be absent.")] = False,
    op: Annotated[
        str, typer.Option("--op", metavar="=|!=|<|<=|>|>=", help="The condition is: stored value OP expected value.")
    ] = "=",
) -> int:
    """Writes cells of one row if a column has the expected value.

    Otherwise writes nothing, shows the column's value and exits with 1.

    --json: {"row", "applied": true or false, "current": value, or null when the column is absent}
    """
    if absent == (expected is not None):
        raise arguments.ArgumentError("give either --expected VALUE or --absent")
    key, name, data = arguments.bytes_of(row), arguments.column(column), arguments.cells(cells)
    wanted = arguments.bound(expected)
    result = call.client.table(table).check_and_put(key, name, wanted, data, op=arguments.compare_op(op))
    current = None if result.current is None else escaped(result.current)
    call.output.record(
        {"row": escaped(key), "applied": bool(result), "current": current},
        "" if result else f"not applied: {column} is " + ("absent" if current is None else current or "empty"),
    )
    return 0 if result else NOT_APPLIED
