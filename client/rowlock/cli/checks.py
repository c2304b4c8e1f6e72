"""Commands that change a row if a condition holds: check-and-put, check-and-delete, check-and-mutate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock._codec.escapes import typed
from rowlock.cli import arguments
from rowlock.cli.layouts import Layout, check_text, layout_of
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    CellArguments,
    ColumnArgument,
    ColumnArguments,
    RowArgument,
    TableArgument,
    TypingOption,
    integer,
)

if TYPE_CHECKING:
    from rowlock.changes import Change

NOT_APPLIED = 1

ExpectedOption = Annotated[
    str | None, typer.Option("--expected", metavar="VALUE", help="The value to compare the column with.")
]
AbsentOption = Annotated[bool, typer.Option("--absent", help="Expect the column to be absent.")]
OpOption = Annotated[
    str, typer.Option("--op", metavar="=|!=|<|<=|>|>=", help="The condition is: stored value OP expected value.")
]


def check_and_put(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    cells: CellArguments,
    expected: ExpectedOption = None,
    absent: AbsentOption = False,
    op: OpOption = "=",
    mapping: TypingOption = None,
) -> int:
    """Writes cells of one row if a column has the expected value.

    Otherwise writes nothing, shows the column's value and exits with 1.

    --json: {"row", "applied": true or false, "current": value, or null when the column is absent}
    """
    _check_expectation(expected, absent=absent)
    check_text(row, column, expected)
    arguments.assignments(cells)
    layout = layout_of(call, table, mapping)
    key, name, data = layout.key(row), layout.column(column), layout.cells(cells)
    wanted = None if expected is None else layout.value(name, expected)
    result = layout.table.check_and_put(key, name, wanted, data, op=arguments.compare_op(op))
    return _report(call, layout, key, name, result)


def check_and_delete(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    column: ColumnArgument,
    deleted: ColumnArguments = None,
    expected: ExpectedOption = None,
    absent: AbsentOption = False,
    op: OpOption = "=",
    mapping: TypingOption = None,
) -> int:
    """Deletes a row, or only the later COLUMNs, if the first COLUMN has the expected value.

    Otherwise deletes nothing, shows the column's value and exits with 1.

    --json: {"row", "applied": true or false, "current": value, or null when the column is absent}
    """
    _check_expectation(expected, absent=absent)
    check_text(row, column, expected, *(deleted or ()))
    layout = layout_of(call, table, mapping)
    key, name = layout.key(row), layout.column(column)
    wanted = None if expected is None else layout.value(name, expected)
    result = layout.table.check_and_delete(key, name, wanted, layout.columns(deleted), op=arguments.compare_op(op))
    return _report(call, layout, key, name, result)


def _changes_option(name: str, metavar: str, what: str) -> Any:  # Any: typer's type of an option is private
    return typer.Option(name, metavar=metavar, show_default=False, help=f"{what}; may be repeated.")


def check_and_mutate(
    call: Call,
    table: TableArgument,
    row: RowArgument,
    conditions: Annotated[
        list[str] | None, _changes_option("--if", "CONDITION", "A condition; see 'rowlock scan --help'")
    ] = None,
    puts: Annotated[list[str] | None, _changes_option("--put", "COLUMN=VALUE", "Write a cell")] = None,
    deletes: Annotated[list[str] | None, _changes_option("--delete", "COLUMN", "Delete a column")] = None,
    delete_row: Annotated[bool, typer.Option("--delete-row", help="Delete the row.")] = False,
    increments: Annotated[
        list[str] | None, _changes_option("--increment", "COLUMN[=AMOUNT]", "Add to a counter")
    ] = None,
    appends: Annotated[list[str] | None, _changes_option("--append", "COLUMN=SUFFIX", "Append to a value")] = None,
    else_puts: Annotated[
        list[str] | None, _changes_option("--else-put", "COLUMN=VALUE", "Write a cell if a condition fails")
    ] = None,
    else_deletes: Annotated[
        list[str] | None, _changes_option("--else-delete", "COLUMN", "Delete a column if a condition fails")
    ] = None,
    else_increments: Annotated[
        list[str] | None,
        _changes_option("--else-increment", "COLUMN[=AMOUNT]", "Add to a counter if a condition fails"),
    ] = None,
    mapping: TypingOption = None,
) -> int:
    """Changes a row in several ways at once, if all conditions hold.

    Deletes are made first, then puts, increments and appends. If a condition fails, the changes of --else-... are made
    instead, and the exit code is 1. The new values of increments and appends are shown.

    --json: {"row", "applied": true or false, "seen": {column: value or null}, "results": {column: new value}}
    """
    from rowlock import Delete

    check_text(row)
    if not conditions:
        raise arguments.ArgumentError("give at least one --if CONDITION")
    if not any((puts, deletes, delete_row, increments, appends, else_puts, else_deletes, else_increments)):
        raise arguments.ArgumentError(
            "give at least one change: --put, --delete, --delete-row, --increment, --append, --else-put, --else-delete "
            "or --else-increment"
        )
    layout = layout_of(call, table, mapping)
    key = layout.key(row)
    then: list[Change] = [Delete()] if delete_row else []
    then += _changes(layout, deletes, puts, increments, appends)
    otherwise = _changes(layout, else_deletes, else_puts, else_increments, None)
    checks = [found for text in conditions if (found := layout.where([text])) is not None]
    result = layout.table.check_and_mutate(key, checks, then, otherwise)
    made = then if result else otherwise
    results = {
        layout.shown_column(change.column): _result(layout, change.column, value)
        for change, value in zip(made, result.results, strict=True)
        if value is not None
    }
    seen = {layout.shown_column(name): layout.as_json(name, value) for name, value in result.seen.items()}
    text = "\n".join(f"{name}\t{value}" for name, value in results.items())
    if not result:
        text = "\n".join(["not applied", *([text] if text else [])])
    call.output.record({"row": layout.shown_key(key), "applied": bool(result), "seen": seen, "results": results}, text)
    return 0 if result else NOT_APPLIED


def _result(layout: Layout, column: Any, value: Any) -> object:
    return value if isinstance(value, int) else layout.as_json(column, value)


def _changes(
    layout: Layout,
    deletes: Iterable[str] | None,
    puts: Iterable[str] | None,
    increments: Iterable[str] | None,
    appends: Iterable[str] | None,
) -> list[Change]:
    from rowlock import Append, Delete, Increment, Put

    found: list[Change] = [Delete(name) for name in layout.columns(deletes) or ()]
    found += [Put(name, value) for name, value in layout.cells(puts or ()).items()]
    for text in increments or ():
        column, has_amount, amount = text.partition("=")
        try:
            found.append(Increment(layout.column(column), integer(amount) if has_amount else 1))
        except typer.BadParameter:
            raise arguments.ArgumentError(f"{typed(text)} has no integer after '='") from None
    for column, suffix in arguments.assignments(appends or ()):
        name = layout.column(column)
        found.append(Append(name, layout.value(name, suffix)))
    return found


def _check_expectation(expected: str | None, *, absent: bool) -> None:
    if absent == (expected is not None):
        raise arguments.ArgumentError("give either --expected VALUE or --absent")


def _report(call: Call, layout: Layout, key: Any, column: Any, result: Any) -> int:
    """Shows the outcome of a check of one column. Returns the exit code."""
    value = result.current
    current = "absent" if value is None else layout.shown(column, value) or "empty"
    call.output.record(
        {"row": layout.shown_key(key), "applied": bool(result), "current": layout.as_json(column, value)},
        "" if result else f"not applied: {layout.shown_column(column)} is {current}",
    )
    return 0 if result else NOT_APPLIED
