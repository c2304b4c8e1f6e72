r"""Parses the option filter, SQL conditions on a DataFrame's columns joined by AND, into PySpark's filters.

    filter     = condition { AND condition }
    condition  = name ( "=" | "==" | "<=>" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ) literal
               | name [ NOT ] IN "(" literal { "," literal } ")"
               | name BETWEEN literal AND literal
               | name [ NOT ] LIKE 'text%', '%text' or '%text%'
               | name IS [ NOT ] NULL
    name       = word | "`" anything "`"                 of a column, in any letter case
    literal    = 'text' | number | TRUE | FALSE | NULL | X'bytes' | DATE'2013-01-31' | TIMESTAMP'2013-01-31 05:00:00Z'

Text is quoted by ' or "; a doubled quote or \' is a quote. A date may be plain text; a timestamp must have a zone,
because the session's zone is not known here. A literal has the type of its column; it is never converted to another
value.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark
from rowlock_proto.nearest import did_you_mean

from rowlock._codec.encodings import TIMESTAMP
from rowlock.errors import InvalidArgumentError
from rowlock.spark.frame import Frame, FrameColumn, Source

_TOKEN = re.compile(
    r"""(?P<name>`(?:[^`]|``)+`)
      | (?P<text>(?:x|date|timestamp)?\s*(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"))
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\b)
      | (?P<word>\w+)
      | (?P<sign><=>|<>|!=|<=|>=|==|=|<|>|\(|\)|,)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_TEXT = re.compile(r"(?P<kind>\w*)\s*(?P<quote>['\"])(?P<inside>.*)['\"]", re.DOTALL)
# The largest power of ten in a number that an integer or a decimal is compared with.
_EXPONENT_MAX = 38
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", "'": "'", '"': '"', "%": "\\%", "_": "\\_"}
_LIKE = re.compile(r"(?P<before>%?)(?P<text>(?:[^\\%_]|\\.)*)(?P<after>%?)", re.DOTALL)
_COMPARISONS: dict[str, type[spark.Filter]] = {
    "=": spark.EqualTo,
    "==": spark.EqualTo,
    "<=>": spark.EqualNullSafe,
    "<": spark.LessThan,
    "<=": spark.LessThanOrEqual,
    ">": spark.GreaterThan,
    ">=": spark.GreaterThanOrEqual,
}
_SYNTAX = (
    "it takes comparisons, [NOT] IN, BETWEEN, [NOT] LIKE and IS [NOT] NULL of columns with literals, joined by AND; "
    "use .where() on the DataFrame for anything else"
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its text in the option, and the filters that must all hold."""

    text: str
    filters: tuple[spark.Filter, ...]


def parse_filter(text: str, frame: Frame) -> list[Condition]:
    """Parses the option filter into conditions that must all hold. Raises InvalidArgumentError."""
    return _Parser(text, frame).parse()


class _Parser:
    def __init__(self, text: str, frame: Frame) -> None:
        self._text = text
        self._columns = {item.name.lower(): item for item in frame.columns}
        self._tokens = _tokens(text)
        self._next = 0

    def parse(self) -> list[Condition]:
        found = [self._condition()]
        while self._accept("AND"):
            found.append(self._condition())
        if self._next < len(self._tokens):
            raise self._unreadable()
        return found

    def _condition(self) -> Condition:
        first = self._next
        filters = self._filters()
        last = self._tokens[self._next - 1]
        return Condition(self._text[self._tokens[first].place : last.place + len(last.text)], filters)

    def _filters(self) -> tuple[spark.Filter, ...]:
        column = self._column()
        path = (column.name,)
        if self._accept("IS"):
            condition: spark.Filter = spark.IsNotNull(path) if self._accept("NOT") else spark.IsNull(path)
            if not self._accept("NULL"):
                raise self._unreadable()
            return (condition,)
        if self._accept("BETWEEN"):
            low = self._literal(column)
            if not self._accept("AND"):
                raise self._unreadable()
            return spark.GreaterThanOrEqual(path, low), spark.LessThanOrEqual(path, self._literal(column))
        is_negated = self._accept("NOT")
        if self._accept("IN"):
            condition = spark.In(path, tuple(self._literals(column)))
        elif self._accept("LIKE"):
            condition = self._like(column)
        elif not is_negated:
            return (self._comparison(column),)
        else:
            raise self._unreadable()
        return (spark.Not(condition) if is_negated else condition,)

    def _comparison(self, column: FrameColumn) -> spark.Filter:
        sign = self._token()
        path = (column.name,)
        if sign.text in ("<>", "!="):
            return spark.Not(spark.EqualTo(path, self._literal(column)))
        if sign.text not in _COMPARISONS:
            raise self._unreadable(sign)
        # The stubs know no constructor of them all.
        make: Any = _COMPARISONS[sign.text]
        condition: spark.Filter = make(path, self._literal(column, may_be_null=sign.text == "<=>"))
        return condition

    def _column(self) -> FrameColumn:
        token = self._token()
        if token.kind not in ("name", "word") or token.is_word("NOT"):
            raise self._unreadable(token)
        name = token.text[1:-1].replace("``", "`") if token.kind == "name" else token.text
        column = self._columns.get(name.lower())
        if column is None:
            known = ", ".join(item.name for item in self._columns.values())
            raise InvalidArgumentError(
                f"the option filter names the column {name!r}, which does not exist"
                f"{did_you_mean(name, [item.name for item in self._columns.values()])}; the columns are {known}"
            )
        return column

    def _like(self, column: FrameColumn) -> spark.Filter:
        pattern = self._literal(column)
        match = _LIKE.fullmatch(pattern) if isinstance(pattern, str) else None
        if match is None:
            raise InvalidArgumentError(
                f"the option filter has LIKE {pattern!r} for {column.name!r}; it takes 'text%', '%text' and '%text%' "
                "with a text; use .where() on the DataFrame for anything else"
            )
        path, text = (column.name,), re.sub(r"\\(.)", r"\1", match["text"], flags=re.DOTALL)
        if match["before"]:
            return spark.StringContains(path, text) if match["after"] else spark.StringEndsWith(path, text)
        return spark.StringStartsWith(path, text) if match["after"] else spark.EqualTo(path, text)

    def _literals(self, column: FrameColumn) -> Sequence[object]:
        if self._token().text != "(":
            raise self._unreadable(self._tokens[self._next - 1])
        found = [self._literal(column)]
        while (token := self._token()).text == ",":
            found.append(self._literal(column))
        if token.text != ")":
            raise self._unreadable(token)
        return found

    def _literal(self, column: FrameColumn, *, may_be_null: bool = False) -> object:
        token = self._token()
        if token.kind in ("name", "sign"):
            raise self._unreadable(token)
        if token.is_word("NULL"):
            if may_be_null:
                return None
            raise InvalidArgumentError(
                f"the option filter compares {column.name!r} with NULL, which matches no row; write IS NULL or IS NOT "
                "NULL"
            )
        try:
            return _value(token, column)
        except (ValueError, ArithmeticError) as error:
            reason = f": {error}" if str(error) else "; write a literal of that type, or use .where() on the DataFrame"
            raise InvalidArgumentError(
                f"the option filter compares {column.name!r}, which is {column.type.simpleString().upper()}, with "
                f"{token.text}{reason}"
            ) from None

    def _accept(self, word: str) -> bool:
        """Consumes the next token if it is that word. Returns whether it was."""
        is_next = self._next < len(self._tokens) and self._tokens[self._next].is_word(word)
        self._next += is_next
        return is_next

    def _token(self) -> _Token:
        if self._next == len(self._tokens):
            raise self._unreadable()
        self._next += 1
        return self._tokens[self._next - 1]

    def _unreadable(self, token: _Token | None = None) -> InvalidArgumentError:
        """Returns the error for an unexpected token, by default the next one."""
        if token is None and self._next < len(self._tokens):
            token = self._tokens[self._next]
        return _unreadable(self._text, len(self._text) if token is None else token.place)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    place = 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise _unreadable(text, place)
        found.append(_Token(match.lastgroup, match[0], place))
        place = match.end()
    return found


def _unreadable(text: str, place: int) -> InvalidArgumentError:
    where = f"at {text[place : place + 40]!r}" if text[place:].strip() else "at its end"
    return InvalidArgumentError(f"the option filter can't be parsed {where}: {_SYNTAX}")


def _value(token: _Token, column: FrameColumn) -> object:
    """Returns the literal as PySpark passes it for a column of that type. Raises ValueError for another type."""
    if column.mapped is None or column.source is Source.TIMESTAMP:
        raise ValueError("it can only be tested with IS [NOT] NULL")
    arrow = column.mapped.codec.arrow
    if token.kind == "text":
        return _of_text(token.text, arrow)
    if token.is_word("TRUE", "FALSE") and arrow == pa.bool_():
        return token.text.upper() == "TRUE"
    if token.kind != "number":
        raise ValueError
    number = decimal.Decimal(token.text)
    if pa.types.is_floating(arrow):
        return _float(number, arrow)
    if number.adjusted() > _EXPONENT_MAX:
        raise ValueError("the number is too large")
    if pa.types.is_decimal(arrow):
        return number
    if pa.types.is_integer(arrow) and number == number.to_integral_value():
        return int(number)
    raise ValueError


def _float(number: decimal.Decimal, arrow: pa.DataType) -> float:
    """Returns the nearest float. For a FLOAT it must be equal: Spark compares a FLOAT with a number as DOUBLE."""
    found = float(number)
    if math.isinf(found):
        raise ValueError("the number is too large")
    if arrow == pa.float32() and struct.unpack("f", struct.pack("f", found))[0] != found:
        raise ValueError(
            "no FLOAT equals that number exactly, and Spark compares as DOUBLE; use .where(...) on the DataFrame"
        )
    return found


def _of_text(text: str, arrow: pa.DataType) -> object:
    match = _TEXT.fullmatch(text)
    assert match is not None, text
    kind, inside = match["kind"].lower(), _unescaped(match["inside"], match["quote"])
    if kind == "x" and arrow == pa.binary():
        return bytes.fromhex(inside)
    if not kind and arrow == pa.string():
        return inside
    if kind in ("", "date") and arrow == pa.date32():
        return datetime.date.fromisoformat(inside)
    if kind in ("", "timestamp") and arrow == TIMESTAMP:
        moment = datetime.datetime.fromisoformat(inside)
        if moment.tzinfo is None:
            raise ValueError("give the timestamp a zone, as in TIMESTAMP'2013-01-31 05:00:00Z'")
        return moment
    raise ValueError


def _unescaped(inside: str, quote: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[0] == quote * 2:
            return quote
        if match[1] not in _ESCAPES:
            raise ValueError(f"unknown escape \\{match[1]}")
        return _ESCAPES[match[1]]

    return re.sub(rf"\\(.)|{quote}{quote}", replacement, inside, flags=re.DOTALL)
