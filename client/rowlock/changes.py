"""Changes of one row, as values and as messages. Changes of one mutation take effect in their order."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from rowlock_proto.v1 import types_pb2

from rowlock._codec.columns import (
    Name,
    Value,
    check_timestamp,
    encoded_value,
    listed,
    parse_cell_column,
    parse_cell_key,
    parse_column,
)
from rowlock.errors import InvalidArgumentError

AMOUNT_MAX = (1 << 63) - 1
AMOUNT_MIN = -(1 << 63)


# A value in a typed table; see docs/mapping.md.
TypedValue = Value | bool | int | float | Decimal | datetime.date | None


@dataclass(frozen=True, slots=True)
class Put:
    """Sets one column. timestamp: milliseconds since the epoch; None: the server's clock.

    value: bytes or str. In a typed table a value of the column's type, and None deletes the cell.
    """

    column: Name
    value: TypedValue
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a column (`family:qualifier`), a family (`family`) or the whole row (None).

    timestamp: milliseconds since the epoch; deletes the versions at or before it; None: the server's clock, so versions
    that were put at a later timestamp stay. exact: deletes one version of the column only, the one at the timestamp, or
    the newest if there is no timestamp.
    """

    column: Name | None = None
    timestamp: int | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Increment:
    """Adds an amount, which may be negative, to a signed 64-bit counter; a missing cell counts as 0."""

    column: Name
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Append:
    """Appends to a column's value; a missing cell counts as empty."""

    column: Name
    suffix: Value


Change = Put | Delete | Increment | Append


class Changes(Protocol):
    """A repeated field of changes: `changes` or `otherwise` of a RowMutation."""

    def add(self) -> types_pb2.Change: ...


def fill_put(put: types_pb2.Put, column: Name, value: Value, timestamp: int | None) -> None:
    """Fills in a put. The hot path of `Table.put`, which has checked the timestamp."""
    put.family, put.qualifier = parse_cell_key(column)
    put.value = value if type(value) is bytes else encoded_value(value)
    if timestamp is not None:
        put.timestamp = timestamp


def add_delete(changes: Changes, column: Name | None, timestamp: int | None, exact: bool) -> None:
    """Adds a delete. Raises InvalidArgumentError for a malformed column, or `exact` without a column."""
    check_timestamp(timestamp)
    delete = changes.add().delete
    if column is None:
        if exact:
            raise InvalidArgumentError("a delete of one exact version must name a column, 'family:qualifier'")
        delete.kind = types_pb2.Delete.KIND_ROW
    else:
        delete.family, qualifier = parse_column(column)
        if qualifier is not None:
            delete.qualifier = qualifier
            delete.kind = types_pb2.Delete.KIND_VERSION if exact else types_pb2.Delete.KIND_COLUMN
        elif exact:
            raise InvalidArgumentError(f"a delete of one exact version must name a column, not the family {column!r}")
        else:
            delete.kind = types_pb2.Delete.KIND_FAMILY
    if timestamp is not None:
        delete.timestamp = timestamp


def add_changes(changes: Changes, given: Iterable[Change], name: str = "changes") -> None:
    """Adds a caller's changes, in order. name: the argument's name, for messages.

    Raises InvalidArgumentError for a malformed column, timestamp or amount; TypeError for an object that is not a
    change, and for a single change in place of a list.
    """
    for change in listed(name, "changes", given, Change):
        if isinstance(change, Put):
            check_timestamp(change.timestamp)
            put = changes.add().put
            put.family, put.qualifier = parse_cell_column(change.column)
            put.value = encoded_value(change.value)
            if change.timestamp is not None:
                put.timestamp = change.timestamp
        elif isinstance(change, Delete):
            add_delete(changes, change.column, change.timestamp, change.exact)
        elif isinstance(change, Increment):
            increment = changes.add().increment
            increment.family, increment.qualifier = parse_cell_column(change.column)
            increment.amount = checked_amount(change.amount)
        elif isinstance(change, Append):
            append = changes.add().append
            append.family, append.qualifier = parse_cell_column(change.column)
            append.suffix = encoded_value(change.suffix, "suffix")
        else:
            raise TypeError(
                f"a change must be a rowlock.Put, Delete, Increment or Append, as in [rowlock.Put('f:q', b'1')], not "
                f"{type(change).__name__}"
            )


def checked_amount(amount: int) -> int:
    """Returns the amount of an increment. Raises TypeError unless it is an int, InvalidArgumentError beyond 64 bits."""
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise TypeError(f"amount must be an int, not {type(amount).__name__}")
    if not AMOUNT_MIN <= amount <= AMOUNT_MAX:
        raise InvalidArgumentError(f"amount must fit 64 signed bits, {amount} does not")
    return amount


def change_results(changes: Iterable[types_pb2.Change], cells: Sequence[types_pb2.Cell]) -> list[int | bytes | None]:
    """Returns one result per change: an increment's new number, an append's new value, None for puts and deletes.

    cells: the answer's new cells, in the order of the increments and appends. Raises StopIteration if there are fewer.
    """
    new_cells = iter(cells)
    results: list[int | bytes | None] = []
    for change in changes:
        if change.HasField("increment"):
            results.append(int.from_bytes(next(new_cells).value, "big", signed=True))
        elif change.HasField("append"):
            results.append(next(new_cells).value)
        else:
            results.append(None)
    return results
