"""Parses conditions on rows, COLUMN OP VALUE, into filters that the server evaluates.

Any bytes are a valid column name or value. So a longer expression, `a=1 or b=2` for example, would parse as one long
value and match no rows. Input that looks like one is refused; escapes make it a name or a value again.
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
# An empty value needs quotes: a missing one may be an unset shell variable.
_EMPTY = ("''", '""')
_JOINED = re.compile(r"\s(?P<word>and|or)\s+\(?(?P<second>[^\s:]+:.*)", re.DOTALL | re.IGNORECASE)
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
    """Returns a filter that requires all conditions; None if there are none."""
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
            f"{typed(text)} is not a condition: write COLUMN=VALUE (or != < <= > >=), 'COLUMN as int > 15', 'COLUMN is "
            "absent' or 'COLUMN is present'"
        )
    name = _column(text, match["column"])
    kind = (match["type"] or "binary").lower()
    value = match["value"]
    if re.match(r"[=<>!]", value):
        raise ArgumentError(
            f"{typed(text)} has '{value[0]}' after the operator {match['op']}: the operators are = != < <= > >=; "
            rf"in a value that begins with this character, write it as \x{ord(value[0]):02x}"
        )
    if not value.strip():
        raise ArgumentError(
            rf"{typed(text)} has no value after {match['op']}: write '' for an empty value, \x20 for a blank"
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
            ", 'COLUMN is absent' or 'COLUMN is present', without parentheses, 'or' and 'not'. In a column name write "
            rf"{typed(found[0])} as \x{ord(found[0]):02x}"
        )
    return arguments.column(name)


def _check_one_value(text: str, value: str) -> None:
    """Raises ArgumentError if the value is quoted, or looks like a second condition."""
    if quoted := _QUOTED.fullmatch(value):
        raise ArgumentError(
            rf"the value of {typed(text)} is in quotes, which would be part of the value: omit them, or write \x"
            rf"{ord(quoted[1]):02x} for a literal quote"
        )
    joined = _JOINED.search(value)
    if joined and (_COMPARISON.fullmatch(joined["second"]) or _PRESENCE.fullmatch(joined["second"].rstrip(" )"))):
        raise ArgumentError(
            f"{typed(text)} looks like two conditions, but {typed(value)} would be one value: give each condition "
            "separately; all of them must hold, and there is no 'or'. "
            rf"In a value write ' {joined['word']} ' as \x20{joined['word']}\x20"
        )


def _operand(kind: str, text: str) -> Operand:
    try:
        if kind in _INTEGERS:
            return int(text)
        if kind in _FLOATS:
            return float(text)
    except ValueError:
        raise ArgumentError(f"{typed(text)} is not a number, but the column is compared as {kind}") from None
    if kind == "boolean":
        if text not in ("true", "false"):
            raise ArgumentError(f"{typed(text)} is neither true nor false, but the column is compared as boolean")
        return text == "true"
    return arguments.bytes_of(text)
