"""Conditions on rows as words, COLUMN OP VALUE, turned into filters that the server evaluates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError

if TYPE_CHECKING:
    from rowlock.filters import ColumnExpression, Filter, Operand

_COMPARISON = re.compile(
    r"(?P<column>[^=!<>]+?)(?:\s+as\s+(?P<type>[a-z]+)(?P<text>\s+text)?)?\s*(?P<op>!=|<=|>=|=|<|>)\s?(?P<value>.*)",
    re.DOTALL,
)
_PRESENCE = re.compile(r"(?P<column>\S+)\s+is\s+(?P<state>absent|present)")
_OPERATORS: dict[str, Callable[[ColumnExpression, Operand], Filter]] = {
    "=": lambda column, operand: column == operand,
    "!=": lambda column, operand: column != operand,
    "<": lambda column, operand: column < operand,
    "<=": lambda column, operand: column <= operand,
    ">": lambda column, operand: column > operand,
    ">=": lambda column, operand: column >= operand,
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")


def where(texts: Iterable[str] | None) -> Filter | None:
    """A filter in which all conditions hold; None when there is none."""
    found: Filter | None = None
    for text in texts or ():
        condition = _condition(text)
        found = condition if found is None else found & condition
    return found


def _condition(text: str) -> Filter:
    from rowlock.filters import column

    if match := _PRESENCE.fullmatch(text):
        expression = column(arguments.column(match["column"]))
        return expression.is_absent() if match["state"] == "absent" else expression.is_present()
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"{text!r} is no condition: write COLUMN=VALUE (or != < <= > >=), 'COLUMN as int > 15', 'COLUMN is absent' "
            "or 'COLUMN is present'"
        )
    kind = match["type"] or "binary"
    if re.match(r"[=<>!]", match["value"]):
        raise ArgumentError(
            f"{text!r} has the operator {match['op']} and then {match['value'][0]!r}: operators are = != < <= > >=, "
            rf"and a value that begins with such a sign is written with \x{ord(match['value'][0]):02x}"
        )
    expression = column(arguments.column(match["column"]), kind, "text" if match["text"] else "binary")
    return _OPERATORS[match["op"]](expression, _operand(kind, match["value"]))


def _operand(kind: str, text: str) -> Operand:
    try:
        if kind in _INTEGERS:
            return int(text)
        if kind in _FLOATS:
            return float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is not a number, and the column is read as {kind}") from None
    if kind == "boolean":
        if text not in ("true", "false"):
            raise ArgumentError(f"{text!r} is neither true nor false, and the column is read as boolean")
        return text == "true"
    return arguments.bytes_of(text)
