"""Parses conditions on rows, COLUMN OP VALUE, into filters that the server evaluates.

Any bytes are a valid column name or value. So a longer expression, `a=1 or b=2` for example, would parse as one long
value and match no rows. Input that looks like one is refused; escapes make it a name or a value again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rowlock._codec.escapes import typed
from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError

if TYPE_CHECKING:
    from rowlock import TypedTable
    from rowlock._core.typed_filters import TypedColumn
    from rowlock.filters import ColumnExpression, Filter, Operand

_COMPARISON = re.compile(
    r"(?P<column>[^=!<>~]+?)(?:\s+as\s+(?P<type>[a-z]+)(?P<text>\s+text)?)?\s*(?P<op>!=|<=|>=|=|<|>|~)\s?(?P<value>.*)",
    re.DOTALL | re.IGNORECASE,
)
_PRESENCE = re.compile(r"(?P<column>\S+)\s+is\s+(?P<state>absent|present)", re.IGNORECASE)
_NO_NAME = re.compile(r"\s|\A\(", re.ASCII)
_QUOTED = re.compile(r"""\s*(['"]).*\1\s*""", re.DOTALL)
# An empty value needs quotes: a missing one may be an unset shell variable.
_EMPTY = ("''", '""')
_JOINED = re.compile(r"\s(?P<word>and|or|&&|\|\|)(?:\s*\([\s(]*|\s+)(?:not\b[\s(]*)?", re.IGNORECASE)
_COMPARED_OR_PRESENT = (
    r"(?:\s+as\s+[a-z]+(?:\s+text)?)?\s*(?:!=|[=<>~])|\s+is\s+(?:absent|present)\s*(?:\Z|[)&|]|(?:and|or)\b)"
)
# Any: a ColumnExpression with an Operand, or a TypedColumn with a value of its type.
_OPERATORS: dict[str, Callable[[Any, Any], Filter]] = {
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
    return _all([condition(text) for text in texts or ()])


def where_typed(
    texts: Iterable[str] | None, table: TypedTable[Any], value_of: Callable[[str, str], object]
) -> Filter | None:
    """Returns a filter on columns of a typed table. value_of: parses the value of a column, given by its name.

    A column that the mapping does not name is FAMILY:QUALIFIER, and compared as without a mapping.
    """
    return _all([_typed_condition(text, table, value_of) for text in texts or ()])


def _all(conditions: Sequence[Filter]) -> Filter | None:
    found: Filter | None = None
    for each in conditions:
        found = each if found is None else found & each
    return found


def condition(text: str, names: Collection[str] = ()) -> Filter:
    """Returns the filter of one condition on bytes. names: of a mapping's columns."""
    from rowlock.filters import column

    if match := _PRESENCE.fullmatch(text):
        return _presence(column(_column(text, match["column"])), match["state"])
    name, kind, is_text, op, value = _compared(text, names)
    encoded = _column(text, name)
    if op == "~":
        return column(encoded).matches(value)
    kind = (kind or "binary").lower()
    expression = column(encoded, kind, "text" if is_text else "binary")
    return _OPERATORS[op](expression, _operand(kind, value))


def _typed_condition(text: str, table: TypedTable[Any], value_of: Callable[[str, str], object]) -> Filter:
    mapping = table.mapping
    names = [column.name for column in mapping.columns]
    if mapping.timestamp is not None:
        names.append(mapping.timestamp.name)
    if match := _PRESENCE.fullmatch(text):
        if _is_unmapped(match["column"], table):
            return condition(text)
        return _presence(_typed_column(match["column"], table), match["state"])
    name, kind, is_text, op, value = _compared(text, names)
    if _is_unmapped(name.strip(), table):
        return condition(text, names)
    if kind or is_text:
        raise ArgumentError(f"{typed(text)} names a type, but the table's mapping has that of {typed(name.strip())}")
    expression = _typed_column(name.strip(), table)
    return expression.matches(value) if op == "~" else _OPERATORS[op](expression, value_of(name.strip(), value))


def _typed_column(name: str, table: TypedTable[Any]) -> TypedColumn:
    if table.mapping.is_key_part(name):
        raise ArgumentError(
            f"{table.mapping.unknown_column(name)}: commands on many rows choose them by --start, --stop or --prefix"
        )
    return table.column(name)


def _is_unmapped(name: str, table: TypedTable[Any]) -> bool:
    """Returns whether it is FAMILY:QUALIFIER of a column that the mapping does not name."""
    mapping = table.mapping
    if ":" not in name or any(column.name == name for column in mapping.columns):
        return False
    return arguments.column(name) not in mapping.cell_columns


def _presence(expression: ColumnExpression | TypedColumn, state: str) -> Filter:
    return expression.is_absent() if state.lower() == "absent" else expression.is_present()


def _compared(text: str, names: Collection[str]) -> tuple[str, str | None, bool, str, str]:
    """Returns column, type, whether `text` follows it, operator and value of a comparison. Raises ArgumentError.

    names: of a mapping's columns.
    """
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"{typed(text)} is not a condition: write COLUMN=VALUE (or != < <= > >=), 'COLUMN as int > 15', 'COLUMN ~ "
            "REGULAR EXPRESSION', 'COLUMN is absent' or 'COLUMN is present'"
        )
    value = match["value"]
    if match["op"] == "~":
        _check_one_condition(text, value, names)
        return match["column"], match["type"], bool(match["text"]), "~", value
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
    if quoted := _QUOTED.fullmatch(value):
        raise ArgumentError(
            rf"the value of {typed(text)} is in quotes, which would be part of the value: omit them, or write \x"
            rf"{ord(quoted[1]):02x} for a literal quote"
        )
    _check_one_condition(text, value, names)
    return match["column"], match["type"], bool(match["text"]), match["op"], value


def _column(text: str, name: str) -> bytes:
    if found := _NO_NAME.search(name):
        raise ArgumentError(
            f"{typed(text)} would be a condition on the column {typed(name)}: write COLUMN=VALUE, 'COLUMN as int > 15'"
            ", 'COLUMN is absent' or 'COLUMN is present', without parentheses, 'or' and 'not'. In a column name write "
            rf"{typed(found[0])} as \x{ord(found[0]):02x}"
        )
    return arguments.column(name)


def _check_one_condition(text: str, value: str, names: Collection[str]) -> None:
    """Raises ArgumentError if the value looks as if a second condition were in it.

    A second condition begins with any word, because a mistyped name would be part of the value too, or with one of
    `names`, which may have blanks.
    """
    column = "|".join([r"[^\s=!<>~]+?", *map(re.escape, names)])
    second = re.compile(rf"(?:{column})(?:{_COMPARED_OR_PRESENT})", re.IGNORECASE)
    for joined in _JOINED.finditer(value):
        if second.match(value, joined.end()):
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
