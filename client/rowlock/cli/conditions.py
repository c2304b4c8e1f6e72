"""Conditions on rows as words, COLUMN OP VALUE, turned into filters that the server evaluates.

A name of a column and a value may be anything, so what is meant as more than a name or a value would be read as one,
and give no rows: what looks so is refused, and can be said by escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rowlock._codec.escapes import typed
from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError

if TYPE_CHECKING:
    from rowlock.filters import ColumnExpression, Filter, Operand

_COMPARISON = re.compile(
    r"(?P<column>[^=!<>]+?)(?:\s+as\s+(?P<type>[a-z]+)(?P<text>\s+text)?)?\s*(?P<op>!=|<=|>=|=|<|>)\s?(?P<value>.*)",
    re.DOTALL | re.IGNORECASE,
)
_PRESENCE = re.compile(r"(?P<column>\S+)\s+is\s+(?P<state>absent|present)", re.IGNORECASE)
_NO_NAME = re.compile(r"\s|\A\(", re.ASCII)
_QUOTED = re.compile(r"""\s*(['"]).*\1\s*""", re.DOTALL)
# How an empty value is written: where nothing stands, a variable of the shell may have had nothing in it.
_EMPTY = ("''", '""')
_JOINED = re.compile(r"\s(?P<word>and|or)\s+\(?(?P<rest>[^\s:]+:.*)", re.DOTALL | re.IGNORECASE)
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
        expression = column(_column(text, match["column"]))
        return expression.is_absent() if match["state"].lower() == "absent" else expression.is_present()
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"{typed(text)} is no condition: write COLUMN=VALUE (or != < <= > >=), 'COLUMN as int > 15', 'COLUMN is "
            "absent' or 'COLUMN is present'"
        )
    name = _column(text, match["column"])
    kind = (match["type"] or "binary").lower()
    value = match["value"]
    if re.match(r"[=<>!]", value):
        raise ArgumentError(
            f"{typed(text)} has the operator {match['op']} and then '{value[0]}': operators are = != < <= > >=, "
            rf"and a value that begins with such a sign is written with \x{ord(value[0]):02x}"
        )
    if not value.strip():
        raise ArgumentError(
            rf"{typed(text)} has no value after {match['op']}: write an empty value as '', and a blank as \x20"
        )
    if value.strip() in _EMPTY:
        value = ""
    _check_one_value(text, value)
    expression = column(name, kind, "text" if match["text"] else "binary")
    return _OPERATORS[match["op"]](expression, _operand(kind, value))


def _column(text: str, name: str) -> bytes:
    if found := _NO_NAME.search(name):
        raise ArgumentError(
            f"{typed(text)} would be a condition on the column {typed(name)}: write COLUMN=VALUE, 'COLUMN as int > 15'"
            ", 'COLUMN is absent' or 'COLUMN is present', without parentheses, 'or' and 'not'. In a column's name "
            rf"{typed(found[0])} is written with \x{ord(found[0]):02x}"
        )
    return arguments.column(name)


def _check_one_value(text: str, value: str) -> None:
    """Raises ArgumentError for a value that is meant as more than that."""
    if quoted := _QUOTED.fullmatch(value):
        raise ArgumentError(
            rf"the value of {typed(text)} stands in quotes, which would be a part of it: leave them out, or write \x"
            rf"{ord(quoted[1]):02x} for a quote that is meant"
        )
    joined = _JOINED.search(value)
    if joined and (_COMPARISON.fullmatch(joined["rest"]) or _PRESENCE.fullmatch(joined["rest"].rstrip(" )"))):
        raise ArgumentError(
            f"{typed(text)} seems to be two conditions, and {typed(value)} would be one value: give each condition "
            "apart, all of them have to hold; there is no 'or'. "
            rf"In a value ' {joined['word']} ' is written \x20{joined['word']}\x20"
        )


def _operand(kind: str, text: str) -> Operand:
    try:
        if kind in _INTEGERS:
            return int(text)
        if kind in _FLOATS:
            return float(text)
    except ValueError:
        raise ArgumentError(f"{typed(text)} is not a number, and the column is read as {kind}") from None
    if kind == "boolean":
        if text not in ("true", "false"):
            raise ArgumentError(f"{typed(text)} is neither true nor false, and the column is read as boolean")
        return text == "true"
    return arguments.bytes_of(text)
