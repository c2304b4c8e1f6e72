"""Typed comparison of stored bytes, for one value and for a whole column.

Each type says how bytes are read (rowlock.v1, ValueType):

    BYTES        unsigned bytes
    STRING       UTF-8, by code point: the same order as the bytes
    INT8 .. 64   big-endian, signed, of exactly that length
    FLOAT32, 64  big-endian IEEE 754; NaN matches only NOT_EQUAL; -0.0 equals 0.0
    BOOLEAN      one byte; 0 is false, anything else true
    TEXT_INT     an optional sign and decimal digits, at most TEXT_BYTES_MAX bytes; compared as numbers of any size
    TEXT_FLOAT   a decimal number in ASCII, also with exponent, or nan, inf, infinity in any case; compared as 64 bits

Bytes that can't be read in this way do not fit the type: the functions for one value raise ValueError, the ones for
columns mark the element. The filter decides what follows from that.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import Column, Mask, boolean_array, integers, offsets
from rowlock_regionserver.arrow.masks import are_utf8, buffer_of, compares, numpy_mask
from rowlock_regionserver.operations import CompareOp, ValueType

# Longer text is not read as a number: the time to parse digits grows with the square of their count.
TEXT_BYTES_MAX = 400

Value = bytes | int | float

_COMPARE: dict[CompareOp, Callable[..., bool]] = {
    CompareOp.EQUAL: operator.eq,
    CompareOp.NOT_EQUAL: operator.ne,
    CompareOp.LESS: operator.lt,
    CompareOp.LESS_OR_EQUAL: operator.le,
    CompareOp.GREATER: operator.gt,
    CompareOp.GREATER_OR_EQUAL: operator.ge,
}

# For messages: "is not <noun>".
NOUNS: dict[ValueType, str] = {
    ValueType.BYTES: "bytes",
    ValueType.STRING: "UTF-8 text",
    ValueType.INT64: "an integer of 8 bytes",
    ValueType.INT32: "an integer of 4 bytes",
    ValueType.INT16: "an integer of 2 bytes",
    ValueType.INT8: "an integer of 1 byte",
    ValueType.FLOAT64: "a float of 8 bytes",
    ValueType.FLOAT32: "a float of 4 bytes",
    ValueType.BOOLEAN: "a boolean of 1 byte",
    ValueType.TEXT_INT: "a decimal integer as text",
    ValueType.TEXT_FLOAT: "a decimal number as text",
}

_FIXED = {
    ValueType.INT64: ">i8",
    ValueType.INT32: ">i4",
    ValueType.INT16: ">i2",
    ValueType.INT8: ">i1",
    ValueType.FLOAT64: ">f8",
    ValueType.FLOAT32: ">f4",
    ValueType.BOOLEAN: ">u1",
}
_STRUCTS = {ValueType.FLOAT64: struct.Struct(">d"), ValueType.FLOAT32: struct.Struct(">f")}
_INT_WIDTHS = {ValueType.INT64: 8, ValueType.INT32: 4, ValueType.INT16: 2, ValueType.INT8: 1}

_TEXT_INT = re.compile(rb"[+-]?[0-9]+\Z")
_TEXT_FLOAT = re.compile(
    rb"[+-]?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|nan|inf|infinity)\Z", re.I
)

# Text that Arrow parses as Python does; other text is parsed one by one. 18 digits always fit 64 bits.
_ORDINARY_TEXT = {
    ValueType.TEXT_INT: r"\A-?[0-9]{1,18}\z",
    ValueType.TEXT_FLOAT: r"\A-?[0-9]{1,17}(\.[0-9]{1,17})?\z",
}


def read_value(value: bytes, value_type: ValueType) -> Value:
    """Returns the value that the bytes encode. Raises ValueError when they don't fit the type."""
    if value_type == ValueType.BYTES:
        return value
    if value_type in _INT_WIDTHS:
        if len(value) != _INT_WIDTHS[value_type]:
            raise ValueError(f"{len(value)} bytes")
        return int.from_bytes(value, "big", signed=True)
    if value_type == ValueType.STRING:
        value.decode("utf-8")
        return value
    if value_type in _STRUCTS:
        form = _STRUCTS[value_type]
        if len(value) != form.size:
            raise ValueError(f"{len(value)} bytes")
        number: float = form.unpack(value)[0]
        return number
    if value_type == ValueType.BOOLEAN:
        if len(value) != 1:
            raise ValueError(f"{len(value)} bytes")
        return value != b"\x00"
    return _read_text(value, value_type)


def _read_text(value: bytes, value_type: ValueType) -> int | float:
    if len(value) > TEXT_BYTES_MAX:
        raise ValueError(f"{len(value)} bytes, more than {TEXT_BYTES_MAX}")
    if value_type == ValueType.TEXT_INT:
        if not _TEXT_INT.match(value):
            raise ValueError("no decimal integer")
        return int(value)
    if not _TEXT_FLOAT.match(value):
        raise ValueError("no decimal number")
    return float(value)


def compare_value(stored: bytes, op: CompareOp, operand: bytes, value_type: ValueType) -> bool:
    """Returns whether "stored op operand" holds. Raises ValueError when either doesn't fit the type."""
    if value_type == ValueType.BYTES:
        return _COMPARE[op](stored, operand)
    return _COMPARE[op](read_value(stored, value_type), read_value(operand, value_type))


def compare_column(column: Column, op: CompareOp, operand: bytes, value_type: ValueType) -> tuple[Mask, Mask]:
    """Returns for each element whether "element op operand" holds, and whether the element fits the type.

    For an element that doesn't fit, the comparison is false. Some 5 ns a fixed-width element. Raises ValueError when
    the operand doesn't fit.
    """
    if value_type == ValueType.BYTES:
        return compares(column, op, operand), np.ones(len(column), np.bool_)
    if value_type == ValueType.STRING:
        read_value(operand, value_type)
        fits = are_utf8(column)
        return compares(column, op, operand) & fits, fits
    if value_type in _ORDINARY_TEXT:
        return _compare_text(column, op, operand, value_type)
    return _compare_fixed(column, op, operand, value_type)


def _each(column: Column) -> Iterator[bytes]:
    for scalar in column:
        value = scalar.as_py()
        assert isinstance(value, bytes)
        yield value


def _fits(value: bytes, value_type: ValueType) -> bool:
    try:
        read_value(value, value_type)
    except ValueError:
        return False
    return True


def _compare_fixed(column: Column, op: CompareOp, operand: bytes, value_type: ValueType) -> tuple[Mask, Mask]:
    number = read_value(operand, value_type)
    form = np.dtype(_FIXED[value_type])
    fits = np.diff(offsets(column)) == form.itemsize
    fitting = column if fits.all() else column.filter(boolean_array(fits))
    matches = np.zeros(len(column), np.bool_)
    if len(fitting):
        # Elements of one width are contiguous in the data buffer.
        numbers = np.frombuffer(buffer_of(fitting, 2), form, len(fitting), offset=int(offsets(fitting)[0]))
        matches[fits] = _compare_numbers(numbers != 0 if value_type == ValueType.BOOLEAN else numbers, op, number)
    return matches, fits


def _compare_text(column: Column, op: CompareOp, operand: bytes, value_type: ValueType) -> tuple[Mask, Mask]:
    number = read_value(operand, value_type)
    assert not isinstance(number, bytes)
    pattern = pc.MatchSubstringOptions(_ORDINARY_TEXT[value_type])
    ordinary = numpy_mask(pc.call_function("match_substring_regex", [column], pattern))
    matches = np.zeros(len(column), np.bool_)
    fits = ordinary.copy()
    if ordinary.any():
        text = column.filter(boolean_array(ordinary)).cast(pa.string())
        numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64]
        if value_type == ValueType.TEXT_INT:
            numbers = integers(text.cast(pa.int64()))
        else:
            numbers = np.frombuffer(buffer_of(text.cast(pa.float64()), 1), np.float64, len(text))
        matches[ordinary] = _compare_numbers(numbers, op, number)
    odd = np.flatnonzero(~ordinary)
    for index, value in zip(odd.tolist(), _each(column.filter(boolean_array(~ordinary))), strict=True):
        if _fits(value, value_type):
            fits[index] = True
            matches[index] = compare_value(value, op, operand, value_type)
    return matches, fits


def _compare_numbers(numbers: npt.NDArray[np.generic], op: CompareOp, number: Value) -> Mask:
    mask: Mask = _COMPARE[op](numbers, number)  # type: ignore[assignment]  # numpy compares element by element
    return mask
