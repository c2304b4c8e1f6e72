"""Commands that read or change rows one by one: put, get, exists, delete, counter, increment, append, call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rowlock_proto.shown_names import escaped

from rowlock.cli import arguments
from rowlock.cli.layouts import Layout, TypedLayout, check_text, layout_of
from rowlock.cli.output import ShownRow
from rowlock.cli.put_lines import put_lines
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    ColumnArgument,
    ColumnArguments,
    NewestOption,
    RowArgument,
    TableArgument,
    TimeRangeOption,
    TimestampOption,
    TypingOption,
    integer,
    integer_from,
)

NOT_FOUND = 1
_STDIN = "-"

MoreRowsOption = Annotated[
    list[str] | None,
    typer.Option("--row", metavar="ROW", show_default=False, help="One more row; may be repeated."),
]


def put(
    call: Call,
    table: TableArgument,
    row: Annotated[
        str,
        typer.Argument(
            metavar="ROW", show_default=False, help="The row key; - reads rows and cells from standard input."
        ),
    ],
    cells: Annotated[
        list[str] | None, typer.Argument(metavar="CELL", show_default=False, help="COLUMN=VALUE, one or more.")
    ] = None,
    timestamp: TimestampOption = None,
    mapping: TypingOption = None,
) -> None:
    r"""Writes cells of one row, atomically, or many rows from standard input.

    With - as ROW each line of standard input is a row: ROW CELL..., separated by blanks, with quotes as in a shell; or
    JSON as 'get --json' and 'scan --json' print it. So 'rowlock scan a --all --json | rowlock put b -' copies rows. The
    rows are sent in batches, which are not a transaction.

    --json: {"table", "row", "cells": number of cells written}, of standard input {"table", "rows", "cells"}
    """
    if row == _STDIN:
        if cells:
            raise arguments.ArgumentError("the cells of '-' are on standard input; leave out the CELL arguments")
        put_lines(call, table, layout_of(call, table, mapping), timestamp)
        return
    if not cells:
        raise arguments.ArgumentError("give at least one CELL, as COLUMN=VALUE")
    check_text(row)
    arguments.assignments(cells)
    layout = layout_of(call, table, mapping)
    key, data = layout.key(row), layout.cells(cells)
    layout.table.put(key, data, timestamp=timestamp)
    call.output.record({"table": table, "row": layout.shown_key(key), "cells": len(data)}, "")


def get(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    columns: ColumnArguments = None,
    more: MoreRowsOption = None,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions",
            parser=integer_from(1),
            metavar="COUNT",
            help="At most this many versions of each COLUMN, newest first.",
        ),
    ] = None,
    timestamp: NewestOption = None,
    time_range: TimeRangeOption = None,
    mapping: TypingOption = None,
) -> int:
    """Shows the cells of one row or several. Exits with 1 if a row has none.

    A table with a mapping shows one line per row, with its key and its columns.

    --json: {"row", "cells": [{"column", "timestamp", "value"}, ...]}, with a mapping {name: value, ...}; an absent row
    has no line
    """
    period = arguments.time_range(time_range)
    check_text(row, *(more or ()), *(columns or ()))
    if versions is not None:
        if timestamp is not None or period is not None:
            raise arguments.ArgumentError("--versions excludes --timestamp and --time-range: give one of them")
        if not columns:
            raise arguments.ArgumentError("--versions needs a COLUMN")
    layout = layout_of(call, table, mapping)
    keys, wanted = [layout.key(text) for text in (row, *(more or ()))], layout.columns(columns)
    absent = 0
    if versions is not None:
        names = [layout.column(text) for text in columns or ()]
        found = [(key, _versions(layout, key, names, versions)) for key in keys]
        call.output.rows([_shown_row(layout, key, cells) for key, cells in found if cells])
        absent = sum(not cells for _, cells in found)
    elif isinstance(layout, TypedLayout):
        rows = [(key, layout.table.row(key, wanted, timestamp=timestamp, time_range=period)) for key in keys]
        present = [(key, data) for key, data in rows if data]
        call.output.listing(
            layout.heading(wanted), ((layout.record(key, data), layout.fields(key, data)) for key, data in present)
        )
        absent = len(rows) - len(present)
    else:
        for key in keys:
            data = layout.table.row(key, wanted, timestamp=timestamp, time_range=period, include_timestamp=True)
            if data:
                cells = [(name, stamp, value) for name, (value, stamp) in data.items()]
                call.output.rows([_shown_row(layout, key, cells)])
            absent += not data
    if absent:
        what = "row" if wanted is None and period is None and timestamp is None else "cells"
        several = f"{absent} of {len(keys)} rows have no {'' if what == 'row' else 'such '}cells"
        call.output.note(f"no such {what}" if len(keys) == 1 else several)
    return NOT_FOUND if absent else 0


def _versions(layout: Layout, key: Any, names: Sequence[Any], versions: int) -> list[tuple[Any, int, Any]]:
    return [(name, stamp, value) for name in names for value, stamp in layout.table.cells(key, name, versions)]


def _shown_row(layout: Layout, key: Any, cells: Sequence[tuple[Any, int, Any]]) -> ShownRow:
    shown = [(layout.shown_column(name), stamp, layout.shown(name, value)) for name, stamp, value in cells]
    return ShownRow(layout.shown_key(key), shown)


def exists(
    call: Call, table: TableArgument, row: RowArgument, more: MoreRowsOption = None, mapping: TypingOption = None
) -> int:
    """Exits with 0 if the row exists, with 1 if not. Of several rows all must exist.

    --json: {"row", "exists": true or false}, one line per row
    """
    check_text(row, *(more or ()))
    layout = layout_of(call, table, mapping)
    absent = 0
    for key in [layout.key(text) for text in (row, *(more or ()))]:
        is_there = layout.table.exists(key)
        absent += not is_there
        call.output.record({"row": layout.shown_key(key), "exists": is_there}, "")
    return NOT_FOUND if absent else 0


def delete(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    columns: ColumnArguments = None,
    more: MoreRowsOption = None,
    timestamp: Annotated[
        int | None,
        typer.Option(
            "--timestamp", parser=integer, metavar="MILLISECONDS", help="Only versions up to this timestamp, inclusive."
        ),
    ] = None,
    mapping: TypingOption = None,
) -> None:
    """Deletes rows, or only the given columns and families.

    'rowlock delete-range' deletes all rows of a range.

    --json: {"table", "row", "deleted": ["row"] or the columns}, one line per row
    """
    check_text(row, *(more or ()), *(columns or ()))
    layout = layout_of(call, table, mapping)
    keys, wanted = [layout.key(text) for text in (row, *(more or ()))], layout.columns(columns)
    what = ["row"] if wanted is None else [layout.shown_column(name) for name in wanted]
    for key in keys:
        layout.table.delete(key, wanted, timestamp=timestamp)
        call.output.record({"table": table, "row": layout.shown_key(key), "deleted": what}, "")


def counter(
    call: Call, table: TableArgument, row: RowArgument, column: ColumnArgument, mapping: TypingOption = None
) -> None:
    """Shows the number of a counter.

    A missing counter is 0. The command changes nothing.

    --json: {"row", "column", "value": number}
    """
    check_text(row, column)
    layout = layout_of(call, table, mapping)
    key, name = layout.key(row), layout.column(column)
    _show_number(call, layout, key, name, layout.table.counter(key, name))


def increment(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    amount: Annotated[int, typer.Argument(metavar="AMOUNT", parser=integer, help="May be negative.")] = 1,
    mapping: TypingOption = None,
) -> None:
    """Adds to a counter and shows its new value.

    A missing counter counts as 0.

    --json: {"row", "column", "value": number}
    """
    check_text(row, column)
    layout = layout_of(call, table, mapping)
    key, name = layout.key(row), layout.column(column)
    _show_number(call, layout, key, name, layout.table.increment(key, name, amount))


def _show_number(call: Call, layout: Layout, key: Any, name: Any, value: int) -> None:
    call.output.record({"row": layout.shown_key(key), "column": layout.shown_column(name), "value": value}, str(value))


def append(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    suffix: Annotated[str, typer.Argument(metavar="SUFFIX", show_default=False)],
    mapping: TypingOption = None,
) -> None:
    """Appends to a value and shows the complete new value.

    A missing value counts as empty.

    --json: {"row", "column", "value"}
    """
    check_text(row, column, suffix)
    layout = layout_of(call, table, mapping)
    key, name = layout.key(row), layout.column(column)
    value = layout.table.append(key, name, layout.value(name, suffix))
    record = {
        "row": layout.shown_key(key),
        "column": layout.shown_column(name),
        "value": layout.as_json(name, value),
    }
    call.output.record(record, layout.shown(name, value))


def call(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="One that 'rowlock status' shows.")],
    argument: Annotated[
        str, typer.Argument(metavar="ARGUMENT", show_default=False, help=r"Given to the procedure; \xNN is a byte.")
    ] = "",
    mapping: TypingOption = None,
) -> None:
    """Calls a row procedure, which the server's operator has installed, and shows its answer.

    It reads and changes the row under the row's lock. See docs/procedures.md.

    --json: {"row", "procedure", "answer"}
    """
    check_text(row, argument)
    layout = layout_of(call, table, mapping)
    key = layout.key(row)
    answer = escaped(layout.table.call(key, name, arguments.bytes_of(argument)))
    call.output.record({"row": layout.shown_key(key), "procedure": name, "answer": answer}, answer)
