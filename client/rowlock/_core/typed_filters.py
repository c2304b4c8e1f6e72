"""Comparisons of a mapping's columns with Python values, as filters that the server evaluates.

The server compares integers, floats, booleans, text and bytes. Dates and times in `binary` are integers. Other columns,
decimals for instance, are only compared for equality, by their bytes. A column that was widened has cells of several
types; the comparison distinguishes them by their length and compares each as its own type.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Iterable
from fractions import Fraction

import pyarrow as pa
from rowlock_proto.v1 import types_pb2

from rowlock._codec.arrow_buffers import Array, names_array
from rowlock._codec.columns import Name
from rowlock._codec.scalars import micros_of
from rowlock._codec.widening import Former
from rowlock._core.typed_rows import TypedCell
from rowlock.checks import CompareOp, compare_op
from rowlock.errors import MappingError
from rowlock.filters import ColumnExpression, Filter, column
from rowlock.mapping import MappedColumn

_EQUAL, _NOT_EQUAL = types_pb2.COMPARE_OP_EQUAL, types_pb2.COMPARE_OP_NOT_EQUAL
_LESS, _GREATER = types_pb2.COMPARE_OP_LESS, types_pb2.COMPARE_OP_GREATER
_LESS_OR_EQUAL, _GREATER_OR_EQUAL = types_pb2.COMPARE_OP_LESS_OR_EQUAL, types_pb2.COMPARE_OP_GREATER_OR_EQUAL

_BINARY_TYPES = {
    "boolean": types_pb2.VALUE_TYPE_BOOLEAN,
    "tinyint": types_pb2.VALUE_TYPE_INT8,
    "smallint": types_pb2.VALUE_TYPE_INT16,
    "int": types_pb2.VALUE_TYPE_INT32,
    "bigint": types_pb2.VALUE_TYPE_INT64,
    "float": types_pb2.VALUE_TYPE_FLOAT32,
    "double": types_pb2.VALUE_TYPE_FLOAT64,
    "date": types_pb2.VALUE_TYPE_INT32,
    "timestamp": types_pb2.VALUE_TYPE_INT64,
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_MICROS_PER_DAY = 86_400_000_000
_FLOAT32 = struct.Struct(">f")


class TypedColumn:
    """A column of a typed table, returned by `column`. Compare it (==, !=, <, <=, >, >=) to get a Filter.

    Raises TypeError and MappingError for a value that the column can't have, and MappingError for a comparison that the
    server can't make: decimals, and times as text, can only be tested for equality.
    """

    __slots__ = ("_cell",)

    def __init__(self, cell: TypedCell) -> None:
        self._cell = cell

    def __eq__(self, other: object) -> Filter:  # type: ignore[override]  # a filter, as in any query language
        return compared(self._cell, "=", other)

    def __ne__(self, other: object) -> Filter:  # type: ignore[override]
        return compared(self._cell, "!=", other)

    def __lt__(self, other: object) -> Filter:
        return compared(self._cell, "<", other)

    def __le__(self, other: object) -> Filter:
        return compared(self._cell, "<=", other)

    def __gt__(self, other: object) -> Filter:
        return compared(self._cell, ">", other)

    def __ge__(self, other: object) -> Filter:
        return compared(self._cell, ">=", other)

    __hash__ = None  # type: ignore[assignment]  # it has no equality of its own

    def is_in(self, values: Iterable[object]) -> Filter:
        """Matches rows whose column holds one of the values."""
        if isinstance(values, bytes | str) or not isinstance(values, Iterable):
            raise TypeError(f"is_in takes a list of values, not one value: {values!r}")
        listed = list(values)
        if has_exact_bytes(self._cell.mapped):
            return _one_of(self._cell, [stored for value in listed for stored in _encodings(self._cell, value)])
        return _any([compared(self._cell, "=", value) for value in listed])

    def is_present(self) -> Filter:
        """Matches rows that have the cell."""
        return column(self._cell.target).is_present()

    def is_absent(self) -> Filter:
        """Matches rows that don't have the cell."""
        return column(self._cell.target).is_absent()

    def starts_with(self, operand: Name) -> Filter:
        """Matches values that start with the operand. Raises MappingError unless the type is STRING or BINARY."""
        return self._bytes("starts_with").starts_with(operand)

    def ends_with(self, operand: Name) -> Filter:
        """Matches values that end with the operand. Raises MappingError unless the type is STRING or BINARY."""
        return self._bytes("ends_with").ends_with(operand)

    def contains(self, operand: Name) -> Filter:
        """Matches values that contain the operand. Raises MappingError unless the type is STRING or BINARY."""
        return self._bytes("contains").contains(operand)

    def matches(self, expression: Name) -> Filter:
        """Matches values in which a regular expression matches anywhere; see ColumnExpression.matches."""
        return self._bytes("matches").matches(expression)

    def _bytes(self, what: str) -> ColumnExpression:
        mapped = self._cell.mapped
        if not mapped.is_bytes:
            raise MappingError(f"{what} needs a STRING or BINARY, and the column {mapped.name!r} is {mapped.type_text}")
        return column(self._cell.target, mapped.type)


def has_exact_bytes(mapped: MappedColumn) -> bool:
    """Returns whether equal values have equal bytes, apart from former types."""
    return mapped.is_bytes or (mapped.encoding != "text" and mapped.type not in (*_FLOATS, "boolean"))


def compared(cell: TypedCell, op: CompareOp, value: object) -> Filter:
    """Returns the filter "stored op value". An absent cell does not match."""
    mapped, kind = cell.mapped, compare_op(op)
    if value is None:
        raise TypeError(
            f"the column {mapped.name!r} can't be compared with None; use column({mapped.name!r}).is_absent() or "
            "is_present()"
        )
    encodings = _encodings(cell, value)
    value_type = _value_type(mapped)
    is_equality = kind in (_EQUAL, _NOT_EQUAL)
    if value_type is None or (is_equality and has_exact_bytes(mapped) and len(encodings) > 1):
        if not is_equality:
            raise MappingError(
                f"the server can't compare {mapped.name!r}, which is {mapped.type_text} as {mapped.encoding!r}, by "
                f"{op}; it can test it for = and !="
            )
        found = _one_of(cell, encodings)
        return found if kind == _EQUAL else ~found & column(cell.target).is_present()
    own = _comparison(mapped, kind, encodings[0], value_type)
    if mapped.encoding != "binary" or not mapped.formers:
        return own
    sizes = [_has_size(mapped, former) for former in mapped.formers]
    parts = [
        has_size & narrow
        for former, has_size in zip(mapped.formers, sizes, strict=True)
        if (narrow := _former_comparison(mapped, former, kind, cell.scalar.decode(encodings[0]))) is not None
    ]
    return _any([*parts, ~_any(sizes) & own])


def _value_type(mapped: MappedColumn) -> types_pb2.ValueType | None:
    """Returns the type as which the server orders the column's bytes; None if there is none."""
    if mapped.is_bytes:
        return types_pb2.VALUE_TYPE_STRING if mapped.type == "string" else types_pb2.VALUE_TYPE_BYTES
    if mapped.encoding == "binary":
        return _BINARY_TYPES.get(mapped.type)
    if mapped.encoding == "millis":
        return types_pb2.VALUE_TYPE_INT64
    if mapped.type in _INTEGERS:
        return types_pb2.VALUE_TYPE_TEXT_INT
    if mapped.type in _FLOATS:
        return types_pb2.VALUE_TYPE_TEXT_FLOAT
    # Dates as text order as their bytes do.
    return types_pb2.VALUE_TYPE_BYTES if mapped.type == "date" else None


def _encodings(cell: TypedCell, value: object) -> list[bytes]:
    """Returns the bytes of a value as the column's type, then as its former types that have this value."""
    own = cell.encode(value)
    found = [own]
    if cell.mapped.formers:
        one: Array = cell.mapped.codec.decode(names_array([own]))
        for former in cell.mapped.formers:
            narrow = _narrowed(one, former.codec.arrow)
            if narrow is not None:
                found.append(former.codec.encode(narrow)[0].as_py())
    return found


def _narrowed(one: Array, wanted: pa.DataType) -> Array | None:
    """Returns the value as a narrower type; None if that has no such value."""
    try:
        narrow: Array = one.cast(wanted)
        is_same = narrow.cast(one.type).equals(one)
    except pa.ArrowInvalid:
        return None
    return narrow if is_same else None


def _comparison(
    mapped: MappedColumn, op: types_pb2.CompareOp, operand: bytes, value_type: types_pb2.ValueType
) -> Filter:
    message = types_pb2.ColumnComparison(
        family=mapped.family, qualifier=mapped.qualifier, op=op, operand=operand, type=value_type
    )
    return Filter(types_pb2.Filter(column=message))


def _one_of(cell: TypedCell, operands: Iterable[bytes]) -> Filter:
    message = types_pb2.ColumnIn(
        family=cell.mapped.family, qualifier=cell.mapped.qualifier, operands=sorted(set(operands))
    )
    return Filter(types_pb2.Filter(column_in=message))


def _any(filters: list[Filter]) -> Filter:
    """Returns the disjunction; it matches nothing if there is none."""
    if not filters:
        return Filter(types_pb2.Filter(any=types_pb2.FilterList()))
    found = filters[0]
    for following in filters[1:]:
        found |= following
    return found


# Former types


def _has_size(mapped: MappedColumn, former: Former) -> Filter:
    """Matches cells of the former type's length."""
    assert former.codec.width is not None, former
    return column(mapped.column).matches(b"(?s)\\A.{%d}\\z" % former.codec.width)


def _former_comparison(mapped: MappedColumn, former: Former, op: types_pb2.CompareOp, value: object) -> Filter | None:
    """Returns the comparison of cells of a former type with the value; None if none of them can match."""
    if former.type == "float":
        assert isinstance(value, float), value
        op, operand = _float_operand(op, value)
        return _comparison(mapped, op, operand, types_pb2.VALUE_TYPE_FLOAT32)
    number = _number(former, value)
    if number is None:
        # NaN: unequal to every number, and in no order.
        return column(mapped.column).is_present() if op == _NOT_EQUAL else None
    width = former.codec.width
    assert width is not None, former
    limit = 1 << (width * 8 - 1)
    if isinstance(number, float) or not -limit <= number < limit:
        is_below = number > 0
        matches = op == _NOT_EQUAL or op in ((_LESS, _LESS_OR_EQUAL) if is_below else (_GREATER, _GREATER_OR_EQUAL))
        return column(mapped.column).is_present() if matches else None
    if number.denominator != 1:
        if op in (_EQUAL, _NOT_EQUAL):
            return column(mapped.column).is_present() if op == _NOT_EQUAL else None
        # No integer lies between the floor and the number.
        op = _LESS_OR_EQUAL if op in (_LESS, _LESS_OR_EQUAL) else _GREATER
    operand = math.floor(number).to_bytes(width, "big", signed=True)
    return _comparison(mapped, op, operand, _BINARY_TYPES[former.type])


def _number(former: Former, value: object) -> Fraction | float | None:
    """Returns the value in the former type's unit; a float only if it is infinite, None for NaN."""
    if former.type == "date":
        assert isinstance(value, datetime.datetime), value
        return Fraction(micros_of(value), _MICROS_PER_DAY)
    assert isinstance(value, int | float), value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return Fraction(value)


def _float_operand(op: types_pb2.CompareOp, value: float) -> tuple[types_pb2.CompareOp, bytes]:
    """Returns the operator and the operand with which to compare a FLOAT instead of with this double."""
    try:
        nearest: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        nearest = math.copysign(math.inf, value)
    if nearest != value and not math.isnan(value):
        if op in (_EQUAL, _NOT_EQUAL):
            # No FLOAT equals it; none is NaN's equal either.
            nearest = math.nan
        elif nearest > value:
            op = _LESS if op in (_LESS, _LESS_OR_EQUAL) else _GREATER_OR_EQUAL
        else:
            op = _LESS_OR_EQUAL if op in (_LESS, _LESS_OR_EQUAL) else _GREATER
    return op, _FLOAT32.pack(nearest)
