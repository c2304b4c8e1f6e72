"""Predicates over rows, written as Python expressions and evaluated by the server.

    (rowlock.column("info:delay", int) > 15) & rowlock.column("info:dest").is_absent()
    rowlock.row_key() >= "2013-07"

`column` names a column and the type of its values. Comparing it gives a Filter; filters combine by `&`, `|` and `~`.
A comparison reads "stored op operand" and uses the newest visible version. An absent column matches no comparison, not
even `!=`. A filter sees the whole row, whether or not its columns are returned. The server evaluates filters, so they
have no truth value in Python: `and`, `or`, `not` and chained comparisons raise TypeError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from rowlock_proto.v1 import types_pb2

from rowlock._codec.columns import Name, Value, encoded_value, parse_cell_column
from rowlock.errors import InvalidArgumentError

ValueType = type[bytes] | type[str] | type[int] | type[float] | type[bool] | str
Operand = bytes | bytearray | memoryview | str | int | float | bool

# The protocol's limit. A much deeper filter could not be parsed, which would end the stream for all its requests.
DEPTH_MAX = 32


class Filter:
    """A predicate over one row; immutable. Combine filters with `&`, `|` and `~`.

    Raises InvalidArgumentError when filters nest deeper than DEPTH_MAX (32); a & b & c is one level.
    """

    __slots__ = ("depth", "message")

    def __init__(self, message: types_pb2.Filter, depth: int = 1) -> None:
        if depth > DEPTH_MAX:
            raise InvalidArgumentError(
                f"the filter nests deeper than {DEPTH_MAX} levels; combine conditions side by side, a & b & c, instead"
            )
        self.message = message
        self.depth = depth

    def __and__(self, other: Filter) -> Filter:
        if not isinstance(other, Filter):
            return NotImplemented
        operands = [*_operands(self, "all"), *_operands(other, "all")]
        return Filter(types_pb2.Filter(all=types_pb2.FilterList(filters=operands)), _depth("all", self, other))

    def __or__(self, other: Filter) -> Filter:
        if not isinstance(other, Filter):
            return NotImplemented
        operands = [*_operands(self, "any"), *_operands(other, "any")]
        return Filter(types_pb2.Filter(any=types_pb2.FilterList(filters=operands)), _depth("any", self, other))

    def __invert__(self) -> Filter:
        message = types_pb2.Filter()
        getattr(message, "not").CopyFrom(self.message)
        return Filter(message, self.depth + 1)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a filter has no truth value: the server evaluates it for each row; combine filters with &, | and ~, "
            "each comparison in parentheses, instead of and, or, not and chained comparisons"
        )

    def __repr__(self) -> str:
        from google.protobuf import text_format

        return f"Filter({text_format.MessageToString(self.message, as_one_line=True)})"


class ColumnExpression:
    """A column with a type, returned by `column`. Compare it (==, !=, <, <=, >, >=) to get a Filter.

    Raises TypeError for an operand of another type, InvalidArgumentError for a number that does not fit the type.
    """

    __slots__ = ("_encode", "_family", "_is_text", "_qualifier", "_type")

    def __init__(self, column: Name, kind: ValueType, encoding: str) -> None:
        self._family, self._qualifier = parse_cell_column(column)
        word = _WORDS.get(kind, "") if isinstance(kind, type) else kind
        found = _TYPES.get((word, encoding)) if isinstance(word, str) and isinstance(encoding, str) else None
        if found is None:
            known = ", ".join(sorted({name for name, _ in _TYPES}))
            raise InvalidArgumentError(
                f"a filter can't read a column as {kind!r} in the encoding {encoding!r}; the types are bytes, str, "
                f"int, float, bool, or one of {known}; the encodings are 'binary', and 'text' for numbers"
            )
        self._type, self._encode = found
        self._is_text = self._type in (types_pb2.VALUE_TYPE_BYTES, types_pb2.VALUE_TYPE_STRING)

    def __eq__(self, other: Operand) -> Filter:  # type: ignore[override]  # a filter, as in any query language
        return self._compared(types_pb2.COMPARE_OP_EQUAL, other)

    def __ne__(self, other: Operand) -> Filter:  # type: ignore[override]
        return self._compared(types_pb2.COMPARE_OP_NOT_EQUAL, other)

    def __lt__(self, other: Operand) -> Filter:
        return self._compared(types_pb2.COMPARE_OP_LESS, other)

    def __le__(self, other: Operand) -> Filter:
        return self._compared(types_pb2.COMPARE_OP_LESS_OR_EQUAL, other)

    def __gt__(self, other: Operand) -> Filter:
        return self._compared(types_pb2.COMPARE_OP_GREATER, other)

    def __ge__(self, other: Operand) -> Filter:
        return self._compared(types_pb2.COMPARE_OP_GREATER_OR_EQUAL, other)

    __hash__ = None  # type: ignore[assignment]  # it has no equality of its own

    def is_in(self, values: Iterable[Operand]) -> Filter:
        """Matches rows whose column holds one of the values, compared as encoded bytes."""
        if isinstance(values, bytes | str) or not isinstance(values, Iterable):
            raise TypeError(f"is_in takes a list of values, not one value: {values!r}")
        message = types_pb2.ColumnIn(
            family=self._family, qualifier=self._qualifier, operands=[self._encode(value) for value in values]
        )
        return Filter(types_pb2.Filter(column_in=message))

    def is_present(self) -> Filter:
        """Matches rows that have the column."""
        return self._presence(True)

    def is_absent(self) -> Filter:
        """Matches rows that don't have the column."""
        return self._presence(False)

    def starts_with(self, operand: Value) -> Filter:
        """Matches values that start with the operand. Raises InvalidArgumentError unless the type is bytes or str."""
        return self._pattern(types_pb2.ColumnPattern.KIND_STARTS_WITH, operand)

    def ends_with(self, operand: Value) -> Filter:
        """Matches values that end with the operand. Raises InvalidArgumentError unless the type is bytes or str."""
        return self._pattern(types_pb2.ColumnPattern.KIND_ENDS_WITH, operand)

    def contains(self, operand: Value) -> Filter:
        """Matches values that contain the operand. Raises InvalidArgumentError unless the type is bytes or str."""
        return self._pattern(types_pb2.ColumnPattern.KIND_CONTAINS, operand)

    def matches(self, expression: Name) -> Filter:
        """Matches values in which a regular expression matches anywhere; anchor it with \\A and \\z for the whole.

        The syntax is RE2's. A str is matched as text, and a value that is not UTF-8 does not match; in bytes each byte
        is a character. Raises InvalidArgumentError unless the type is bytes or str; the server refuses a malformed one.
        """
        if not self._is_text:
            raise InvalidArgumentError("matches needs a column of bytes or str")
        message = types_pb2.ColumnPattern(family=self._family, qualifier=self._qualifier)
        message.kind, message.operand = _expression(expression)
        return Filter(types_pb2.Filter(pattern=message))

    def _compared(self, op: types_pb2.CompareOp, operand: Operand) -> Filter:
        message = types_pb2.ColumnComparison(
            family=self._family, qualifier=self._qualifier, op=op, operand=self._encode(operand), type=self._type
        )
        return Filter(types_pb2.Filter(column=message))

    def _presence(self, present: bool) -> Filter:
        message = types_pb2.ColumnPresence(family=self._family, qualifier=self._qualifier, present=present)
        return Filter(types_pb2.Filter(presence=message))

    def _pattern(self, kind: types_pb2.ColumnPattern.Kind, operand: Value) -> Filter:
        if not self._is_text:
            raise InvalidArgumentError("starts_with, ends_with and contains need a column of bytes or str")
        message = types_pb2.ColumnPattern(
            family=self._family, qualifier=self._qualifier, kind=kind, operand=_encoded_text(operand)
        )
        return Filter(types_pb2.Filter(pattern=message))


class RowKeyExpression:
    """The row's key, returned by `row_key`. Compare it (==, !=, <, <=, >, >=) to get a Filter.

    Keys order by unsigned bytes; str is encoded as UTF-8.
    """

    __slots__ = ()

    def __eq__(self, other: Name) -> Filter:  # type: ignore[override]  # a filter, as in any query language
        return _row_compared(types_pb2.COMPARE_OP_EQUAL, other)

    def __ne__(self, other: Name) -> Filter:  # type: ignore[override]
        return _row_compared(types_pb2.COMPARE_OP_NOT_EQUAL, other)

    def __lt__(self, other: Name) -> Filter:
        return _row_compared(types_pb2.COMPARE_OP_LESS, other)

    def __le__(self, other: Name) -> Filter:
        return _row_compared(types_pb2.COMPARE_OP_LESS_OR_EQUAL, other)

    def __gt__(self, other: Name) -> Filter:
        return _row_compared(types_pb2.COMPARE_OP_GREATER, other)

    def __ge__(self, other: Name) -> Filter:
        return _row_compared(types_pb2.COMPARE_OP_GREATER_OR_EQUAL, other)

    __hash__ = None  # type: ignore[assignment]  # it has no equality of its own

    def starts_with(self, prefix: Name) -> Filter:
        """Matches rows whose key starts with the prefix."""
        return Filter(types_pb2.Filter(row_prefix=_encoded_text(prefix)))

    def matches(self, expression: Name) -> Filter:
        """Matches rows in whose key a regular expression matches; as ColumnExpression.matches."""
        kind, operand = _expression(expression)
        return Filter(types_pb2.Filter(row_pattern=types_pb2.RowPattern(kind=kind, operand=operand)))


def columns_of(message: types_pb2.Filter) -> Iterator[tuple[bytes, bytes]]:
    """Yields family and qualifier of each column that a filter reads, in its order; a column may come twice."""
    kind = message.WhichOneof("filter")
    if kind in ("all", "any"):
        for part in message.all.filters if kind == "all" else message.any.filters:
            yield from columns_of(part)
    elif kind == "not":
        yield from columns_of(getattr(message, "not"))
    elif kind in ("column", "presence", "pattern", "column_in"):
        part = getattr(message, kind)
        yield part.family, part.qualifier


def column(name: Name, kind: ValueType = bytes, encoding: str = "binary") -> ColumnExpression:
    """Returns a column expression to compare, as in `rowlock.column("info:delay", int) > 15`.

    kind: how the stored bytes are read: `bytes`, `str` (UTF-8), `int` (8 bytes, as counters), `float` (8 bytes),
    `bool`, or a Mapping's type: "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float",
    "double". encoding: "binary" for HBase's big-endian bytes, "text" for numbers as decimal text.

    Raises InvalidArgumentError for an unknown type or encoding, or a malformed name. A stored value that does not fit
    the type makes the read fail with FilterTypeError.
    """
    return ColumnExpression(name, kind, encoding)


def row_key() -> RowKeyExpression:
    """Returns the row's key to compare. For a range of rows, a scan's start and stop cost less."""
    return RowKeyExpression()


def _row_compared(op: types_pb2.CompareOp, operand: Name) -> Filter:
    return Filter(types_pb2.Filter(row=types_pb2.RowComparison(op=op, operand=_encoded_text(operand))))


def _operands(operand: Filter, kind: str) -> list[types_pb2.Filter]:
    """Returns an operand's entries in a list of this kind, so that a & b & c is one list instead of a deep tree."""
    if operand.message.WhichOneof("filter") != kind:
        return [operand.message]
    return list(operand.message.all.filters if kind == "all" else operand.message.any.filters)


def _depth(kind: str, *operands: Filter) -> int:
    """Returns the depth of a list of this kind with the entries of these operands."""
    return max([one.depth if one.message.WhichOneof("filter") == kind else one.depth + 1 for one in operands])


def _encoded_text(operand: Operand) -> bytes:
    if isinstance(operand, int | float):
        raise TypeError(
            f"this column is compared as bytes or text; for {operand!r} use column(name, {type(operand).__name__})"
        )
    if operand is None:
        raise TypeError("a column can't be compared with None; use is_absent() or is_present()")
    return encoded_value(operand)


def _expression(expression: Name) -> tuple[types_pb2.ColumnPattern.Kind, bytes]:
    if isinstance(expression, str):
        return types_pb2.ColumnPattern.KIND_MATCHES_TEXT, encoded_value(expression)
    if not isinstance(expression, bytes):
        raise TypeError(f"a regular expression must be str or bytes, not {type(expression).__name__}")
    return types_pb2.ColumnPattern.KIND_MATCHES, expression


def _integer(byte_count: int) -> Callable[[Operand], bytes]:
    def encode(operand: Operand) -> bytes:
        if not isinstance(operand, int) or isinstance(operand, bool):
            raise TypeError(f"this column is compared as an integer; {operand!r} is not an int")
        try:
            return operand.to_bytes(byte_count, "big", signed=True)
        except OverflowError:
            raise InvalidArgumentError(f"{operand} does not fit the {byte_count} bytes of this column's type") from None

    return encode


def _float(form: str) -> Callable[[Operand], bytes]:
    def encode(operand: Operand) -> bytes:
        try:
            return struct.pack(form, _number(operand))
        except (OverflowError, struct.error):
            raise InvalidArgumentError(f"{_shown(operand)} is too large for this column's type") from None

    return encode


def _shown(operand: Operand) -> str:
    """Formats the operand for a message; Python refuses to format very long integers."""
    try:
        return repr(operand)
    except ValueError:
        return "the operand"


def _number(operand: Operand) -> float:
    if not isinstance(operand, int | float) or isinstance(operand, bool):
        raise TypeError(f"this column is compared as a number; {operand!r} is not an int or float")
    return operand


def _boolean(operand: Operand) -> bytes:
    if not isinstance(operand, bool):
        raise TypeError(f"this column is compared as a boolean; {operand!r} is not a bool")
    # HBase writes true as -1.
    return b"\xff" if operand else b"\x00"


def _text_integer(operand: Operand) -> bytes:
    if not isinstance(operand, int) or isinstance(operand, bool):
        raise TypeError(f"this column is compared as an integer; {operand!r} is not an int")
    return b"%d" % operand


def _text_float(operand: Operand) -> bytes:
    return repr(_number(operand)).encode()


_WORDS: dict[type, str] = {bytes: "binary", str: "string", int: "bigint", float: "double", bool: "boolean"}
_TYPES: dict[tuple[str, str], tuple[types_pb2.ValueType, Callable[[Operand], bytes]]] = {
    ("binary", "binary"): (types_pb2.VALUE_TYPE_BYTES, _encoded_text),
    ("string", "binary"): (types_pb2.VALUE_TYPE_STRING, _encoded_text),
    ("string", "text"): (types_pb2.VALUE_TYPE_STRING, _encoded_text),
    ("bigint", "binary"): (types_pb2.VALUE_TYPE_INT64, _integer(8)),
    ("int", "binary"): (types_pb2.VALUE_TYPE_INT32, _integer(4)),
    ("smallint", "binary"): (types_pb2.VALUE_TYPE_INT16, _integer(2)),
    ("tinyint", "binary"): (types_pb2.VALUE_TYPE_INT8, _integer(1)),
    ("double", "binary"): (types_pb2.VALUE_TYPE_FLOAT64, _float(">d")),
    ("float", "binary"): (types_pb2.VALUE_TYPE_FLOAT32, _float(">f")),
    ("boolean", "binary"): (types_pb2.VALUE_TYPE_BOOLEAN, _boolean),
    ("bigint", "text"): (types_pb2.VALUE_TYPE_TEXT_INT, _text_integer),
    ("int", "text"): (types_pb2.VALUE_TYPE_TEXT_INT, _text_integer),
    ("smallint", "text"): (types_pb2.VALUE_TYPE_TEXT_INT, _text_integer),
    ("tinyint", "text"): (types_pb2.VALUE_TYPE_TEXT_INT, _text_integer),
    ("double", "text"): (types_pb2.VALUE_TYPE_TEXT_FLOAT, _text_float),
    ("float", "text"): (types_pb2.VALUE_TYPE_TEXT_FLOAT, _text_float),
}
