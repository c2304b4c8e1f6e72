"""Performs the actions of the row model on a real table."""

from __future__ import annotations

from collections.abc import Mapping

import rowlock

from tests.consistency.row_model import (
    Action,
    Answer,
    Append,
    CheckAndDelete,
    CheckAndPut,
    Create,
    DeleteRow,
    DeleteValue,
    Exchange,
    Increment,
    Put,
    Read,
    Replace,
    Row,
    Update,
)

FAMILIES = {"f": rowlock.Family(), "g": rowlock.Family(versions=3)}
_VALUE, _SAME_VALUE, _COUNTER, _TEXT = b"f:value", b"g:value", b"f:counter", b"g:text"


class TornRowError(Exception):
    """The two columns with the value differ, so a part of a change was seen."""


def perform(table: rowlock.Table[bytes], row: bytes, action: Action) -> Answer:
    """Performs the action; returns its answer in the model's form. Raises TornRowError, and the client's errors."""
    match action:
        case Read(by):
            return _read(table, row, by)
        case Put(value):
            table.put(row, _both(value))
        case Create(value):
            return table.create(row, _both(value))
        case Update(value):
            return table.update(row, _both(value))
        case CheckAndPut(expected, value):
            put = table.check_and_put(row, _VALUE, expected, _both(value))
            return put.applied, put.current
        case CheckAndDelete(expected):
            deleted = table.check_and_delete(row, _VALUE, expected)
            return deleted.applied, deleted.current
        case DeleteValue():
            table.delete(row, [_VALUE, _SAME_VALUE])
        case DeleteRow():
            table.delete(row)
        case Increment(amount):
            return table.increment(row, _COUNTER, amount)
        case Append(suffix):
            return table.append(row, _TEXT, suffix)
        case Exchange(value, amount):
            number, before = table.call(row, "exchange", b"%d %s" % (amount, value)).split(b" ")
            return None if before == b"-" else before, int(number)
        case Replace(value, amount):
            puts = [rowlock.Put(column, value) for column in (_VALUE, _SAME_VALUE)]
            twice = [rowlock.Increment(_COUNTER, amount)] * 2
            *_, first, second = table.mutate_row(row, [rowlock.Delete(), *puts, *twice])
            assert isinstance(first, int)
            assert isinstance(second, int)
            return first, second
    return None


def _both(value: bytes) -> dict[bytes, bytes]:
    return {_VALUE: value, _SAME_VALUE: value}


def _read(table: rowlock.Table[bytes], row: bytes, by: str) -> Row:
    if by == "scan":
        with table.scan(start=row, stop=row + b"\0") as scan:
            return _row(dict(scan).get(row, {}))
    if by == "rows":
        return _row(table.rows([row])[0][1])
    return _row(table.row(row))


def _row(cells: Mapping[bytes, bytes]) -> Row:
    if cells.get(_VALUE) != cells.get(_SAME_VALUE):
        raise TornRowError(f"a part of a change was seen: {dict(cells)}")
    counter = cells.get(_COUNTER)
    return Row(
        cells.get(_VALUE),
        None if counter is None else int.from_bytes(counter, "big", signed=True),
        cells.get(_TEXT),
    )
