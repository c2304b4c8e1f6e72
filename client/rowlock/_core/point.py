"""Builds the requests of point operations and reads their answers; for both faces of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from rowlock_proto.shown_names import column_text, row_text
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import (
    Name,
    Text,
    Value,
    check_timestamp,
    encoded_row,
    encoded_value,
    listed,
    parse_cell_column,
)
from rowlock._codec.row_values import fill_values, values_dict
from rowlock._codec.wire_errors import error_from
from rowlock._core.conversation import Request
from rowlock._core.values_get import ValuesGet, failure_in
from rowlock.changes import Change, Delete, Put, add_changes, add_delete, change_results, checked_amount, fill_put
from rowlock.checks import Check, CheckResult, compared_columns, decoded_results, set_condition
from rowlock.counters import counter_value
from rowlock.errors import InvalidArgumentError, NotACounterError, RowlockError, ServerError
from rowlock.filters import Filter
from rowlock.selection import Selection

Decode = Callable[[bytes], Text]
ColumnName = TypeVar("ColumnName", bytes, str)
Data: TypeAlias = Mapping[ColumnName, Value]

_OTHER_VERSION = "do server and client have different versions?"


def failure_of(request: Request) -> RowlockError | None:
    """Returns the error of a finished request; None if its answer is valid, or if there is no answer.

    Rows of a batch may have their own errors in a valid answer.
    """
    answer = request.answer
    if answer is None:
        return request.failure
    if type(request) is ValuesGet:
        return failure_in(answer)
    if answer.HasField("get") and len(request.point.get.rows) == _rows_answered(answer.get):
        return None
    if answer.HasField("mutate") and len(request.point.mutate.mutations) == 1:  # The hot path of changes.
        results = answer.mutate.results
        if len(results) == 1 and not results[0].HasField("error"):
            return None
    kind = answer.WhichOneof("answer")
    if kind == "error":
        return error_from(answer.error)
    if kind == "get":
        requested, answered = len(request.point.get.rows), _rows_answered(answer.get)
        is_single = False
    elif kind == "mutate":
        requested, answered = len(request.point.mutate.mutations), len(answer.mutate.results)
        is_single = requested == 1
    elif kind == "put_rows":
        requested = len(request.point.put_rows.sequences)
        answered, is_single = len(answer.put_rows.results) or requested, False
    elif (kind, request.point.WhichOneof("operation")) in (("opened_scan", "open_scan"), ("call", "call")):
        return None
    else:
        requested, answered, is_single = 1, 0, False
    if requested != answered:
        return ServerError(f"the server answered {answered} of {requested} rows; {_OTHER_VERSION}")
    if is_single and answer.mutate.results[0].HasField("error"):
        return error_from(answer.mutate.results[0].error)
    return None


def _rows_answered(answer: region_pb2.GetAnswer) -> int:
    """Returns the number of rows in an answer; 0 if they have a form that was not requested."""
    return 0 if answer.values else len(answer.rows)


# Changes


def new_mutation(
    row: bytes, durability: types_pb2.Durability
) -> tuple[region_pb2.PointRequests, region_pb2.RowMutation]:
    """Returns a message with one empty mutation of a row, and that mutation, to be filled in."""
    message = region_pb2.PointRequests()
    mutate = message.requests.add().mutate
    if durability:
        mutate.durability = durability
    mutation = mutate.mutations.add()
    mutation.row = row
    return message, mutation


def add_data(mutation: region_pb2.RowMutation, data: Data[ColumnName], timestamp: int | None) -> None:
    """Adds a put of each column. Raises InvalidArgumentError if there is none."""
    check_timestamp(timestamp)
    check_data(data)
    add = mutation.changes.add
    for column, value in data.items():
        fill_put(add().put, column, value, timestamp)


def puts_of(data: Data[ColumnName], timestamp: int | None) -> list[Put]:
    """Returns a Put of each column. Raises InvalidArgumentError if there is none."""
    check_data(data)
    return [Put(column, value, timestamp) for column, value in data.items()]


def check_data(data: Data[ColumnName]) -> None:
    """Raises TypeError unless it is a dict, InvalidArgumentError if it is empty."""
    if type(data) is not dict and not isinstance(data, Mapping):
        raise TypeError(f"data must be a dict of columns and values, not {type(data).__name__}")
    if not data:
        raise InvalidArgumentError("no column is given; a row needs at least one")


def put(
    table: str,
    row: Name,
    data: Data[ColumnName],
    timestamp: int | None,
    durability: types_pb2.Durability,
    existence: region_pb2.Condition.Existence = region_pb2.Condition.EXISTENCE_ANY,
    deletes: Sequence[Name] = (),
) -> Request:
    """Returns a request that sets columns of a row, and deletes others.

    existence: only if the row is absent, or present.
    """
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    if existence:
        mutation.condition.existence = existence
    if data or not deletes:
        add_data(mutation, data, timestamp)
    if deletes:
        add_deletes(mutation, deletes, timestamp)
    return Request(table, encoded, message, is_change=True)


def put_values(table: str, row: Name, data: Data[ColumnName], durability: types_pb2.Durability) -> Request:
    """Returns a request that sets columns of a row, for servers that take RowValues."""
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    check_data(data)
    fill_values(mutation.puts, data)
    return Request(table, encoded, message, is_change=True)


def delete(
    table: str,
    row: Name,
    columns: Sequence[Name] | None,
    timestamp: int | None,
    exact: bool,
    durability: types_pb2.Durability,
) -> Request:
    """Returns a request that deletes columns, families or the row."""
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    add_deletes(mutation, columns, timestamp, exact)
    return Request(table, encoded, message, is_change=True)


def add_deletes(
    mutation: region_pb2.RowMutation, columns: Sequence[Name] | None, timestamp: int | None, exact: bool = False
) -> None:
    """Adds deletes of columns and families, or of the row if columns is None.

    Raises InvalidArgumentError for an empty list, TypeError for a single name in place of a list.
    """
    for column in _deleted(columns):
        add_delete(mutation.changes, column, timestamp, exact)


def deletes_of(columns: Sequence[Name] | None, timestamp: int | None) -> list[Delete]:
    """Returns a Delete of each column or family, or of the row if columns is None; raises as add_deletes does."""
    return [Delete(column, timestamp) for column in _deleted(columns)]


def _deleted(columns: Sequence[Name] | None) -> Sequence[Name | None]:
    """Returns the columns and families to delete; None stands for the row."""
    if columns is None:
        return [None]
    listed("columns", "columns", columns)
    if not columns:
        raise InvalidArgumentError("the list of columns is empty; leave it out to delete the row")
    return columns


def mutate(table: str, row: Name, changes: Iterable[Change], durability: types_pb2.Durability) -> Request:
    """Returns a request that applies changes to a row. Raises InvalidArgumentError if there is none."""
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    add_changes(mutation.changes, changes)
    if not mutation.changes:
        raise InvalidArgumentError("no change is given")
    return Request(table, encoded, message, is_change=True)


def check_and_mutate(
    table: str,
    row: Name,
    checks: Iterable[Check | Filter],
    then: Iterable[Change],
    otherwise: Iterable[Change],
    durability: types_pb2.Durability,
    *,
    return_filtered: bool = False,
) -> Request:
    """Returns a request that applies `then` if all checks hold, else `otherwise`.

    return_filtered: asks for the cells that filters read, too; the server must know that.
    """
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    set_condition(mutation.condition, [checks] if isinstance(checks, Check | Filter) else checks)
    mutation.condition.return_filtered = return_filtered and mutation.condition.HasField("filter")
    add_changes(mutation.changes, then, "then")
    add_changes(mutation.otherwise, otherwise, "otherwise")
    if not mutation.changes and not mutation.otherwise:
        raise InvalidArgumentError("no change is given, neither in then nor in otherwise")
    return Request(table, encoded, message, is_change=True)


def increment(table: str, row: Name, column: Name, amount: int, durability: types_pb2.Durability) -> Request:
    """Returns a request that adds to a counter."""
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    change = mutation.changes.add().increment
    change.family, change.qualifier = parse_cell_column(column)
    change.amount = checked_amount(amount)
    return Request(table, encoded, message, is_change=True)


def append(table: str, row: Name, column: Name, suffix: Value, durability: types_pb2.Durability) -> Request:
    """Returns a request that appends to a value."""
    encoded = encoded_row(row)
    message, mutation = new_mutation(encoded, durability)
    change = mutation.changes.add().append
    change.family, change.qualifier = parse_cell_column(column)
    change.suffix = encoded_value(suffix, "suffix")
    return Request(table, encoded, message, is_change=True)


def call(table: str, row: Name, name: str, argument: Value, durability: types_pb2.Durability) -> Request:
    """Returns a request that calls a row procedure."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a procedure must be a str, not {type(name).__name__}")
    if not name:
        raise InvalidArgumentError("the name of the procedure is empty")
    encoded = encoded_row(row)
    message = region_pb2.PointRequests()
    called = message.requests.add().call
    called.row = encoded
    called.name = name
    called.argument = encoded_value(argument, "argument")
    called.durability = durability
    return Request(table, encoded, message, is_change=True)


def new_value(answer: region_pb2.PointAnswer) -> bytes:
    """Returns the new value of a single increment or append. Raises ServerError if the answer has none."""
    results = answer.mutate.results[0].results
    if len(results) != 1:
        raise ServerError(f"the server answered {len(results)} new values for one change; {_OTHER_VERSION}")
    return results[0].value


def new_text(answer: region_pb2.PointAnswer, decode: Decode[Text]) -> Text:
    """Returns the new value of a single append, decoded."""
    return decode(new_value(answer))


def new_number(answer: region_pb2.PointAnswer) -> int:
    """Returns the new number of a single increment."""
    return int.from_bytes(new_value(answer), "big", signed=True)


def results_of(changes: Iterable[types_pb2.Change], answer: region_pb2.PointAnswer) -> list[int | bytes | None]:
    """Returns one result per change, see changes.change_results. Raises ServerError if the answer has too few."""
    cells = answer.mutate.results[0].results
    try:
        return change_results(changes, cells)
    except StopIteration:
        raise ServerError(f"the server answered only {len(cells)} new values; {_OTHER_VERSION}") from None


def mutate_results(request: Request, answer: region_pb2.PointAnswer, decode: Decode[Text]) -> list[int | Text | None]:
    """Returns one result per change of a mutation, with the new values of appends decoded."""
    return decoded_results(results_of(request.point.mutate.mutations[0].changes, answer), decode)


def check_result(request: Request, answer: region_pb2.PointAnswer, decode: Decode[Text]) -> CheckResult[Text]:
    """Returns the result of a conditional change."""
    result = answer.mutate.results[0]
    values = {(cell.family, cell.qualifier): cell.value for cell in result.seen}
    mutation = request.point.mutate.mutations[0]
    return CheckResult(
        applied=result.condition_met,
        decode=decode,
        stored={b":".join(column): values.get(column) for column in compared_columns(mutation.condition)},
        stored_results=results_of(mutation.changes if result.condition_met else mutation.otherwise, answer),
    )


# Reads


def get(table: str, rows: Sequence[bytes], selection: Selection | None) -> Request:
    """Returns a request that reads rows of one region at one read point."""
    message = region_pb2.PointRequests()
    message_get = message.requests.add().get
    message_get.rows.extend(rows)
    if selection is not None:
        selection.write(message_get)
    return Request(table, rows[0], message, is_change=False)


def values(answer: region_pb2.PointAnswer, decode: Decode[Text]) -> dict[Text, Text]:
    """Returns {column: value} of the row in the answer to a ValuesGet. Raises ServerError unless it has one row."""
    get = answer.get
    found = get.values
    if len(found) == 1:
        return values_dict(found[0], decode)
    if found or len(get.rows) != 1:
        raise ServerError(f"the server answered {len(found) or len(get.rows)} of 1 rows; {_OTHER_VERSION}")
    return row_dict(get.rows[0].cells, decode)


def row_dict(cells: Iterable[types_pb2.Cell], decode: Decode[Text]) -> dict[Text, Text]:
    """Returns {column: value} of a row in an answer."""
    return {decode(cell.family + b":" + cell.qualifier): decode(cell.value) for cell in cells}


def row_dict_with_timestamps(cells: Iterable[types_pb2.Cell], decode: Decode[Text]) -> dict[Text, tuple[Text, int]]:
    """Returns {column: (value, timestamp)} of a row in an answer."""
    return {decode(cell.family + b":" + cell.qualifier): (decode(cell.value), cell.timestamp) for cell in cells}


def value_versions(cells: Iterable[types_pb2.Cell], decode: Decode[Text]) -> list[tuple[Text, int]]:
    """Returns (value, timestamp) of each version of a column in an answer."""
    return [(decode(cell.value), cell.timestamp) for cell in cells]


def counter(cells: Sequence[types_pb2.Cell], row: bytes) -> int:
    """Returns the number of a counter in an answer, 0 if absent. Raises NotACounterError if it is not 8 bytes."""
    if not cells:
        return 0
    cell = cells[0]
    try:
        return counter_value(cell.value)
    except NotACounterError as error:
        raise NotACounterError(
            f"can't read {column_text(cell.family, cell.qualifier)} of row {row_text(row)} as a counter: {error}",
            row=row,
            family=cell.family,
            qualifier=cell.qualifier,
        ) from None
