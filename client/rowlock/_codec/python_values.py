"""Checks a Python value for a mapping's column, and makes it the one that is encoded: the rules of the point API.

    bool                          BOOLEAN
    int                           integers, FLOAT and DOUBLE if that is exact, DECIMAL
    float                         FLOAT, DOUBLE; DECIMAL by the rule of casts.py
    str; bytes, bytearray, ...    STRING; BINARY
    Decimal                       DECIMAL, if it needs no rounding
    date                          DATE; TIMESTAMP as midnight in UTC
    datetime                      TIMESTAMP; without a zone it is UTC

numpy's scalars count as the Python values that they stand for. A bool is not an int here.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from rowlock._codec.arrow_buffers import array_of_one
from rowlock._codec.casts import as_type
from rowlock.errors import MappingError

# Any: a value of the column's type.
Check = Callable[[object], Any]

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}
# More digits than any operand here has, so that nothing is rounded.
_EXACT = Context(prec=400)


def value_check(kind: str, arrow: pa.DataType) -> Check:
    """Returns a function that checks a value of a column of this type; it raises TypeError and MappingError."""
    if kind in _INTEGER_BITS:
        return _integer(kind, _INTEGER_BITS[kind])
    if kind in _FLOATS:
        return _float(kind, _FLOATS[kind])
    if kind == "decimal":
        assert isinstance(arrow, pa.Decimal128Type), arrow
        return _decimal(arrow)
    return {"boolean": _boolean, "string": _string, "binary": _binary, "date": _date, "timestamp": _timestamp}[kind]


def python_number(unscaled: int, scale: int) -> Decimal:
    """Returns the decimal with this unscaled number, exactly."""
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def unscaled_number(value: Decimal, scale: int) -> int:
    """Returns the decimal without its point. It has at most `scale` digits after it."""
    return int(value.scaleb(scale, _EXACT))


def is_missing(value: object) -> bool:
    """Returns whether it is what pandas or numpy have instead of None: NA, NaT. Does not import pandas."""
    kind = type(value)
    is_of_pandas = kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas.")
    return is_of_pandas or _plain(value) is None


def _plain(value: object) -> object:
    """Returns the Python value of a numpy scalar; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "shape", None) == () else value


def _wrong(what: str, value: object) -> TypeError:
    return TypeError(f"takes {what}, not {type(value).__name__}: {value!r:.100}")


def _integer(kind: str, bits: int) -> Check:
    limit = 1 << (bits - 1)

    def check(value: object) -> int:
        number = value if type(value) is int else _plain(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise _wrong("an int", value)
        if not -limit <= number < limit:
            raise MappingError(f"{number} does not fit {kind.upper()}")
        return number

    return check


def _float(kind: str, form: struct.Struct) -> Check:
    def check(value: object) -> float:
        if type(value) is float and form.size == 8:
            return value
        number = _plain(value)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _wrong("a float", value)
        try:
            found: float = form.unpack(form.pack(number))[0]
        except (OverflowError, struct.error):
            raise MappingError(f"the number does not fit {kind.upper()}") from None
        if isinstance(number, int) and found != number:
            raise MappingError(f"{number} would become {found!r} as {kind.upper()}")
        return found

    return check


def _decimal(arrow: pa.Decimal128Type[Any, Any]) -> Check:  # Any: the stubs type it by its digits
    scale, limit = arrow.scale, 10**arrow.precision
    name = f"DECIMAL({arrow.precision},{scale})"

    def check(value: object) -> Decimal:
        number = _plain(value)
        if isinstance(number, float):
            return _of_float(number, arrow, name)
        if isinstance(number, bool) or not isinstance(number, int | Decimal):
            raise _wrong("a Decimal, an int or a float", value)
        exact = Decimal(number)
        if not exact.is_finite():
            raise MappingError(f"{value} does not fit {name}")
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int), "it is finite"
        if exact.adjusted() <= arrow.precision and -exponent <= _EXACT.prec:
            scaled = exact.scaleb(scale, _EXACT)
            unscaled = int(scaled)
            if unscaled == scaled and abs(unscaled) < limit:
                return python_number(unscaled, scale)
        raise MappingError(f"{value} does not fit {name}")

    return check


def _of_float(number: float, arrow: pa.DataType, name: str) -> Decimal:
    try:
        found: Decimal = as_type(array_of_one(number, pa.float64()), arrow)[0].as_py()
    except (MappingError, pa.ArrowInvalid) as error:
        raise MappingError(f"{number!r} does not fit {name}: {error}") from error
    return found


def _boolean(value: object) -> bool:
    found = _plain(value)
    if not isinstance(found, bool):
        raise _wrong("a bool", value)
    return found


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong("a str", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MappingError(f"can't be UTF-8: {error}") from error
    return str(value)


def _binary(value: object) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong("bytes", value)
    return bytes(value)


def _date(value: object) -> datetime.date:
    found = _plain(value)
    if not isinstance(found, datetime.date) or isinstance(found, datetime.datetime):
        raise _wrong("a datetime.date", value)
    return found


def _timestamp(value: object) -> datetime.datetime:
    found = _plain(value)
    if isinstance(found, datetime.datetime):
        if getattr(found, "nanosecond", 0):  # NaT, too, is a datetime, and has NaN of them.
            if is_missing(found):
                raise _wrong("a datetime.datetime", value)
            raise MappingError(f"{value} has nanoseconds, and a TIMESTAMP microseconds; round it first")
        return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
    if isinstance(found, datetime.date):
        return datetime.datetime.combine(found, datetime.time(), datetime.UTC)
    raise _wrong("a datetime.datetime", value)
