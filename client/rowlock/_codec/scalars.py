"""Encodes and decodes one value of a mapping's column: the twin of a codec, for point operations. No I/O.

A value is a bool, int, float, str, bytes, Decimal, date, or datetime in UTC. A value of another Python type is a
TypeError, one that does not fit a MappingError. Both messages begin after the column's name: "takes an int, not str".
Bytes are those of the column's Codec. What is rare, floats as text for instance, goes through the Codec itself.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rowlock._codec.arrow_buffers import Array, array_of_one, names_array
from rowlock._codec.python_values import python_number, unscaled_number, value_check
from rowlock._codec.unreadable import first_unreadable
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn

# Any: a value of the column's type.
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_MICRO = datetime.timedelta(microseconds=1)
_MICROS_PER_MILLI = 1000
_MILLIS_PER_DAY = 86_400_000
_WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "date": 4, "timestamp": 8}
_FLOATS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}
_FLOAT_BITS = {"float": struct.Struct(">I"), "double": struct.Struct(">Q")}
_DECIMAL_BYTES, _SCALE_BYTES = 16, 4
# Text that Arrow and Python parse alike.
_PLAIN_INTEGER = re.compile(rb"-?[0-9]{1,18}")
_PLAIN_DATE = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PLAIN_TIME = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{6})?")


@dataclass(frozen=True, slots=True)
class ScalarCodec:
    """Encodes a Python value to bytes, and decodes bytes. Both raise MappingError, `encode` TypeError too."""

    encode: Encode
    decode: Decode


class _UnusualError(Exception):
    """The fast path does not know this value or these bytes; the column's Codec decides."""


def scalar_codec(column: MappedColumn) -> ScalarCodec:
    """Returns the codec of single values of a column. A part of a key has no separator and no terminator."""
    check = value_check(column.type, column.arrow)
    encode, decode = _pair(column)

    def encoded(value: object) -> bytes:
        checked = check(value)
        try:
            return encode(checked)
        except _UnusualError:
            stored: bytes = column.codec.encode(array_of_one(checked, column.arrow))[0].as_py()
            return stored

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except (_UnusualError, UnicodeDecodeError):
            return _slowly(column, data)

    return ScalarCodec(encoded, decoded)


def _slowly(column: MappedColumn, data: bytes) -> Any:
    """Decodes by the column's Codec, which also reads the bytes of former types. Raises its MappingError."""
    stored = names_array([data])
    try:
        array = column.codec.decode(stored)
    except MappingError as refused:
        raise MappingError(first_unreadable(column, stored, refused)[1]) from refused
    try:
        return python_value(array)
    except (ValueError, OverflowError) as error:
        raise MappingError(f"{error}; read it with to_arrow()") from error


def python_value(array: Array) -> Any:
    """Returns the one value of an array. Raises ValueError or OverflowError for a time beyond Python's years."""
    if pa.types.is_timestamp(array.type):
        return time_of(array.cast(pa.int64())[0].as_py())
    if pa.types.is_date(array.type):
        return date_of(array.cast(pa.int32())[0].as_py())
    return array[0].as_py()


def time_of(micros: int) -> datetime.datetime:
    """Returns a time from microseconds since the epoch. Raises OverflowError beyond Python's years."""
    return _EPOCH + micros * _MICRO


def micros_of(moment: datetime.datetime) -> int:
    """Returns the microseconds since the epoch of a time with a zone."""
    return (moment - _EPOCH) // _MICRO


def date_of(days: int) -> datetime.date:
    """Returns a date from days since the epoch. Raises ValueError or OverflowError beyond Python's years."""
    return datetime.date.fromordinal(days + _EPOCH_ORDINAL)


def days_of(day: datetime.date) -> int:
    """Returns the days since the epoch."""
    return day.toordinal() - _EPOCH_ORDINAL


def _pair(column: MappedColumn) -> tuple[Encode, Decode]:
    """Returns the fast encoder and decoder. Both may raise _UnusualError."""
    kind, encoding = column.type, column.encoding
    if kind == "string":
        return str.encode, bytes.decode
    if kind == "binary":
        return bytes, bytes
    if encoding == "text":
        return _text_pair(kind)
    if encoding == "millis":
        return _millis_pair(kind)
    is_ordered = encoding == "ordered"
    if kind == "boolean":
        true = b"\x01" if is_ordered else b"\xff"
        return (lambda value: true if value else b"\0"), _boolean
    if kind in _FLOATS:
        return _float_pair(kind, is_ordered)
    if kind == "decimal":
        return _decimal_pair(column.arrow, is_ordered)
    return _integer_pair(kind, is_ordered)


def _boolean(data: bytes) -> bool:
    if len(data) != 1:
        raise _UnusualError
    return data != b"\0"


def _number_of(kind: str) -> Callable[[Any], int]:
    if kind == "date":
        return days_of
    return micros_of if kind == "timestamp" else int


def _value_of(kind: str) -> Callable[[int], Any]:
    if kind not in ("date", "timestamp"):
        return int
    value_of = date_of if kind == "date" else time_of

    def checked(number: int) -> Any:
        try:
            return value_of(number)
        except (ValueError, OverflowError):
            raise _UnusualError from None

    return checked


def _integer_pair(kind: str, is_ordered: bool) -> tuple[Encode, Decode]:
    """Integers, dates and timestamps: a signed number, in `ordered` with its sign bit inverted."""
    width = _WIDTHS[kind]
    offset = 1 << (width * 8 - 1) if is_ordered else 0
    number_of, value_of = _number_of(kind), _value_of(kind)

    def encode(value: Any) -> bytes:
        return (number_of(value) + offset).to_bytes(width, "big", signed=not is_ordered)

    def decode(data: bytes) -> Any:
        if len(data) != width:
            raise _UnusualError
        return value_of(int.from_bytes(data, "big", signed=not is_ordered) - offset)

    return encode, decode


def _millis_pair(kind: str) -> tuple[Encode, Decode]:
    number_of, value_of = _number_of(kind), _value_of(kind)

    def encode(value: Any) -> bytes:
        number = number_of(value)
        if kind == "date":
            return (number * _MILLIS_PER_DAY).to_bytes(8, "big", signed=True)
        millis, fraction = divmod(number, _MICROS_PER_MILLI)
        if fraction:
            raise _UnusualError
        return millis.to_bytes(8, "big", signed=True)

    def decode(data: bytes) -> Any:
        if len(data) != 8:
            raise _UnusualError
        millis = int.from_bytes(data, "big", signed=True)
        return value_of(millis // _MILLIS_PER_DAY if kind == "date" else millis * _MICROS_PER_MILLI)

    return encode, decode


def _float_pair(kind: str, is_ordered: bool) -> tuple[Encode, Decode]:
    form = _FLOATS[kind]

    def decode(data: bytes) -> float:
        if len(data) != form.size:
            raise _UnusualError
        number: float = form.unpack(data)[0]
        return number

    if not is_ordered:
        return form.pack, decode
    bits_form = _FLOAT_BITS[kind]
    sign = 1 << (form.size * 8 - 1)
    all_bits = (1 << (form.size * 8)) - 1

    def encode_ordered(value: float) -> bytes:
        bits: int = bits_form.unpack(form.pack(value))[0]
        ordered: bytes = bits_form.pack(bits ^ all_bits if bits & sign else bits | sign)
        return ordered

    def decode_ordered(data: bytes) -> float:
        if len(data) != form.size:
            raise _UnusualError
        bits: int = bits_form.unpack(data)[0]
        return decode(bits_form.pack(bits ^ sign if bits & sign else bits ^ all_bits))

    return encode_ordered, decode_ordered


def _decimal_pair(arrow: pa.DataType, is_ordered: bool) -> tuple[Encode, Decode]:
    assert isinstance(arrow, pa.Decimal128Type), arrow
    scale, limit = arrow.scale, 10**arrow.precision
    scale_bytes: bytes = scale.to_bytes(_SCALE_BYTES, "big")
    offset = 1 << (_DECIMAL_BYTES * 8 - 1)

    def value_of(unscaled: int) -> Decimal:
        if abs(unscaled) >= limit:
            raise _UnusualError
        return python_number(unscaled, scale)

    def encode(value: Decimal) -> bytes:
        unscaled = unscaled_number(value, scale)
        # One bit for the sign; of a negative number, its complement's bits.
        length = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
        return scale_bytes + unscaled.to_bytes(length, "big", signed=True)

    def decode(data: bytes) -> Decimal:
        if not _SCALE_BYTES < len(data) <= _SCALE_BYTES + _DECIMAL_BYTES or data[:_SCALE_BYTES] != scale_bytes:
            raise _UnusualError
        return value_of(int.from_bytes(data[_SCALE_BYTES:], "big", signed=True))

    if not is_ordered:
        return encode, decode

    def encode_ordered(value: Decimal) -> bytes:
        return (unscaled_number(value, scale) + offset).to_bytes(_DECIMAL_BYTES, "big")

    def decode_ordered(data: bytes) -> Decimal:
        if len(data) != _DECIMAL_BYTES:
            raise _UnusualError
        return value_of(int.from_bytes(data, "big") - offset)

    return encode_ordered, decode_ordered


def _text_pair(kind: str) -> tuple[Encode, Decode]:
    if kind == "boolean":
        return (lambda value: b"true" if value else b"false"), _text_boolean
    if kind in ("date", "timestamp"):
        return (_text_of_date, _date_of_text) if kind == "date" else (_text_of_time, _time_of_text)
    if kind not in _WIDTHS:
        return _always_unusual, _always_unusual
    limit = 1 << (_WIDTHS[kind] * 8 - 1)

    def decode(data: bytes) -> int:
        if _PLAIN_INTEGER.fullmatch(data) is None or not -limit <= (number := int(data)) < limit:
            raise _UnusualError
        return number

    return (lambda value: b"%d" % value), decode


def _always_unusual(value: object) -> Any:
    """For floats and decimals: Arrow's text differs from Python's."""
    raise _UnusualError


def _text_boolean(data: bytes) -> bool:
    if data not in (b"true", b"false"):
        raise _UnusualError
    return data == b"true"


def _text_of_date(value: datetime.date) -> bytes:
    return value.isoformat().encode()


def _date_of_text(data: bytes) -> datetime.date:
    if _PLAIN_DATE.fullmatch(data) is None:
        raise _UnusualError
    try:
        return datetime.date.fromisoformat(data.decode())
    except ValueError:
        raise _UnusualError from None


def _text_of_time(value: datetime.datetime) -> bytes:
    return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat().encode()


def _time_of_text(data: bytes) -> datetime.datetime:
    if _PLAIN_TIME.fullmatch(data) is None:
        raise _UnusualError
    try:
        return datetime.datetime.fromisoformat(data.decode()).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise _UnusualError from None
