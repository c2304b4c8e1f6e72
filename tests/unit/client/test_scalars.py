"""A value of the point API has the same bytes as in bulk, and the same bytes give the same value."""

from __future__ import annotations

import datetime
import math
import random
import struct
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rowlock import Mapping, MappingError
from rowlock._codec.scalars import scalar_codec
from rowlock._core.typed_rows import RowCodec
from rowlock.mapping import MappedColumn

from tests.seeds import generator_of

UTC = datetime.UTC
CASES = range(200)

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
DECIMALS = {"DECIMAL(10,2)": (10, 2), "DECIMAL(38,0)": (38, 0), "DECIMAL(5,5)": (5, 5), "DECIMAL(38,38)": (38, 38)}
FLOATS = [0.0, -0.0, 1.5, -1e-300, 1e20, 0.1, 5e-324, math.inf, -math.inf, math.nan, 3.4e38]
ENCODINGS = {
    **{kind: ["binary", "text"] for kind in ["BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", *DECIMALS, "STRING", "BINARY"]},
    "DATE": ["binary", "text", "millis"],
    "TIMESTAMP": ["binary", "text", "millis"],
}
VALUES = [(kind, encoding) for kind, encodings in ENCODINGS.items() for encoding in encodings]
KEYS = [(kind, "ordered") for kind in ENCODINGS]


def mapped(kind: str, encoding: str, *, is_key: bool = False) -> MappedColumn:
    if is_key:
        return Mapping(f"k {kind} :key {encoding}, v STRING f:v").keys[0]
    return Mapping(f"k STRING :key, v {kind} f:v {encoding}").values[0]


def random_value(generator: random.Random, kind: str) -> Any:
    """Returns a value of the type, of Python."""
    if kind in INTEGERS:
        bits = INTEGERS[kind]
        return generator.choice([0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), generator.getrandbits(bits - 1)])
    if kind in DECIMALS:
        digits, scale = DECIMALS[kind]
        unscaled = generator.choice([0, 1, -1, 127, 128, -128, -129, 10**digits - 1, generator.randrange(10**digits)])
        return Decimal(unscaled * generator.choice([1, -1])).scaleb(-scale, Context(prec=400))
    if kind in ("FLOAT", "DOUBLE"):
        number = generator.choice([*FLOATS, generator.uniform(-9, 9)])
        return struct.unpack("f", struct.pack("f", number))[0] if kind == "FLOAT" else number
    if kind == "DATE":
        return datetime.date.fromordinal(generator.choice([1, 719163, 3652059, generator.randint(1, 3652059)]))
    if kind == "TIMESTAMP":
        moment = datetime.datetime.fromordinal(generator.randint(1, 3652059)).replace(tzinfo=UTC)
        milliseconds = generator.choice([0, 0, generator.randrange(86_400_000)])
        return moment + datetime.timedelta(milliseconds=milliseconds)
    if kind == "BOOLEAN":
        return generator.random() < 0.5
    text = "".join(generator.choice(["a", "ä", "|", "\0", "€"]) for _ in range(generator.randrange(5)))
    return text if kind == "STRING" else text.encode() + b"\xff"


def is_same(one: Any, other: Any) -> bool:
    """Also of NaN, and with the zero's sign."""
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


def python_of(array: Any) -> Any:
    value = array[0].as_py()
    return value.astimezone(UTC).replace(tzinfo=UTC) if isinstance(value, datetime.datetime) else value


@pytest.mark.parametrize(("kind", "encoding"), [*VALUES, *KEYS])
def test_a_value_has_the_bytes_of_its_codec_and_is_decoded_from_them(kind: str, encoding: str) -> None:
    column = mapped(kind, encoding, is_key=encoding == "ordered")
    scalar = scalar_codec(column)
    for case in CASES:
        value = random_value(generator_of(case), kind)
        stored = column.codec.encode(pa.array([value], column.arrow))[0].as_py()
        assert scalar.encode(value) == stored, f"case {case}: {value!r}"
        assert is_same(scalar.decode(stored), value), f"case {case}: {value!r}"
        # A Decimal has the digits of its type, too.
        assert repr(scalar.decode(stored)) == repr(python_of(column.codec.decode(pa.array([stored], pa.binary()))))


@pytest.mark.parametrize(("kind", "encoding"), [*VALUES, *KEYS])
def test_any_bytes_are_decoded_or_refused_as_by_the_codec(kind: str, encoding: str) -> None:
    column = mapped(kind, encoding, is_key=encoding == "ordered")
    scalar = scalar_codec(column)
    texts = [b"", b"15", b"-7", b"007", b"+5", b"1e5", b"nan", b"true", b"TRUE", b"1", b"2013-01-31", b"2013-02-30"]
    texts += [b"2013-01-31T05:00:00", b"2013-01-31 05:00:00.5", b"2013-01-31T05:00:00+02:00", b"1.50", b"x", b"9" * 30]
    for case in CASES:
        generator = generator_of(case)
        odd = generator.choice([*texts, generator.randbytes(generator.choice([1, 2, 3, 4, 5, 8, 16, 17, 20, 21]))])
        try:
            expected = column.codec.decode(pa.array([odd], pa.binary()))
        except MappingError:
            with pytest.raises(MappingError):
                scalar.decode(odd)
            continue
        try:
            value = python_of(expected)
        except (ValueError, OverflowError):  # A time beyond Python's years.
            with pytest.raises(MappingError, match="read it with to_arrow"):
                scalar.decode(odd)
            continue
        assert is_same(scalar.decode(odd), value), f"case {case}: {odd!r}"


@pytest.mark.parametrize(
    ("kind", "value", "encoded"),
    [
        ("BIGINT", np.int32(5), 5),
        ("INT", np.uint8(255), 255),
        ("DOUBLE", 3, 3.0),
        ("DOUBLE", np.float32(0.5), 0.5),
        ("FLOAT", 1 << 24, float(1 << 24)),
        ("FLOAT", 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("DECIMAL(10,2)", 5, Decimal("5.00")),
        ("DECIMAL(10,2)", Decimal("1E+3"), Decimal("1000.00")),
        ("DECIMAL(10,2)", 0.1, Decimal("0.10")),
        ("DECIMAL(10,2)", 0.1 + 0.2, Decimal("0.30")),
        ("DECIMAL(3,2)", np.float64(0.5), Decimal("0.50")),
        ("BOOLEAN", np.bool_(True), True),
        ("BINARY", bytearray(b"x"), b"x"),
        ("BINARY", memoryview(b"x"), b"x"),
        ("TIMESTAMP", datetime.datetime(2013, 1, 31, 5), datetime.datetime(2013, 1, 31, 5, tzinfo=UTC)),
        ("TIMESTAMP", datetime.date(2013, 1, 31), datetime.datetime(2013, 1, 31, tzinfo=UTC)),
        (
            "TIMESTAMP",
            datetime.datetime(2013, 1, 31, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            datetime.datetime(2013, 1, 31, 3, tzinfo=UTC),
        ),
    ],
)
def test_values_of_other_types_are_converted_if_nothing_is_lost(kind: str, value: Any, encoded: Any) -> None:
    scalar = scalar_codec(mapped(kind, "binary"))
    assert scalar.decode(scalar.encode(value)) == encoded


def test_pandas_timestamps_are_datetimes() -> None:
    pandas = pytest.importorskip("pandas")
    scalar = scalar_codec(mapped("TIMESTAMP", "binary"))
    moment = pandas.Timestamp("2013-01-31 05:00:00")
    assert scalar.decode(scalar.encode(moment)) == datetime.datetime(2013, 1, 31, 5, tzinfo=UTC)
    with pytest.raises(MappingError, match="has nanoseconds"):
        scalar.encode(pandas.Timestamp(1))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("BIGINT", "7", "takes an int, not str: '7'"),
        ("BIGINT", True, "takes an int, not bool"),
        ("BIGINT", 7.0, "takes an int, not float"),
        ("DOUBLE", "1", "takes a float, not str"),
        ("DOUBLE", Decimal(1), "takes a float, not Decimal"),
        ("BOOLEAN", 1, "takes a bool, not int"),
        ("STRING", b"x", "takes a str, not bytes"),
        ("BINARY", "x", "takes bytes, not str"),
        ("DECIMAL(10,2)", "1", "takes a Decimal, an int or a float, not str"),
        ("DATE", datetime.datetime(2013, 1, 31), "takes a datetime.date, not datetime"),
        ("DATE", "2013-01-31", "takes a datetime.date, not str"),
        ("TIMESTAMP", 5, "takes a datetime.datetime, not int"),
    ],
)
def test_values_of_wrong_types_are_type_errors(kind: str, value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        scalar_codec(mapped(kind, "binary")).encode(value)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("TINYINT", 128, "128 does not fit TINYINT"),
        ("BIGINT", 1 << 63, "does not fit BIGINT"),
        ("FLOAT", 1e300, "does not fit FLOAT"),
        ("FLOAT", (1 << 24) + 1, "would become 16777216.0 as FLOAT"),
        ("DOUBLE", (1 << 53) + 1, "would become 9007199254740992.0 as DOUBLE"),
        ("DOUBLE", 10**400, "does not fit DOUBLE"),
        ("DECIMAL(4,2)", 100, r"100 does not fit DECIMAL\(4,2\)"),
        ("DECIMAL(4,2)", Decimal("0.001"), r"0.001 does not fit DECIMAL\(4,2\)"),
        ("DECIMAL(4,2)", Decimal("NaN"), "NaN does not fit"),
        ("DECIMAL(4,2)", Decimal("1E-999999"), "does not fit"),
        ("DECIMAL(4,2)", Decimal("1E+999999"), "does not fit"),
        ("DECIMAL(4,2)", 0.123, "would become 0.12"),
        ("STRING", "\ud800", "can't be UTF-8"),
    ],
)
def test_values_that_do_not_fit_are_mapping_errors(kind: str, value: object, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        scalar_codec(mapped(kind, "binary")).encode(value)


def test_a_fraction_of_a_millisecond_is_refused_in_millis() -> None:
    scalar = scalar_codec(mapped("TIMESTAMP", "millis"))
    with pytest.raises(MappingError, match="fraction of a millisecond"):
        scalar.encode(datetime.datetime(2013, 1, 31, microsecond=1))


def test_an_error_of_bytes_says_what_would_fit() -> None:
    with pytest.raises(
        MappingError, match="a value has 2 bytes instead of 8; it is BIGINT as text: write 'text' after f:v"
    ):
        scalar_codec(mapped("BIGINT", "binary")).decode(b"15")


@pytest.mark.parametrize("kind", ["INT", "DOUBLE", "BOOLEAN", "STRING", "BINARY", "DECIMAL(4,1)", "DATE", "TIMESTAMP"])
def test_a_missing_value_of_pandas_or_numpy_is_no_value(kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    cell = RowCodec(Mapping(f"k STRING :key, v {kind} f:v")).cell("v")
    for missing in (pandas.NaT, pandas.NA, np.datetime64("NaT", "ns")):
        with pytest.raises(TypeError, match=r"the column 'v' is .* and takes .*, not .*; an absent cell is None"):
            cell.encode(missing)
