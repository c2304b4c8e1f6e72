"""Each type's reading and comparison of bytes."""

from __future__ import annotations

import struct

import pytest
from rowlock_regionserver.operations import CompareOp, ValueType
from rowlock_regionserver.scan.values import TEXT_BYTES_MAX, compare_value, read_value

NAN = struct.pack(">d", float("nan"))


def float64(number: float) -> bytes:
    return struct.pack(">d", number)


@pytest.mark.parametrize(
    ("value_type", "stored", "value"),
    [
        (ValueType.BYTES, b"\xff", b"\xff"),
        (ValueType.STRING, "é".encode(), "é".encode()),
        (ValueType.INT64, b"\xff" * 8, -1),
        (ValueType.INT32, b"\x80\x00\x00\x00", -(1 << 31)),
        (ValueType.INT16, b"\x01\x00", 256),
        (ValueType.INT8, b"\xff", -1),
        (ValueType.FLOAT64, float64(-2.5), -2.5),
        (ValueType.FLOAT32, struct.pack(">f", 0.5), 0.5),
        (ValueType.BOOLEAN, b"\x00", False),
        (ValueType.BOOLEAN, b"\x02", True),
        (ValueType.TEXT_INT, b"-007", -7),
        (ValueType.TEXT_INT, b"+7", 7),
        (ValueType.TEXT_INT, b"1" * 30, int("1" * 30)),
        (ValueType.TEXT_FLOAT, b"1e3", 1000.0),
        (ValueType.TEXT_FLOAT, b".5", 0.5),
        (ValueType.TEXT_FLOAT, b"-Inf", float("-inf")),
    ],
)
def test_bytes_are_read_as_their_type_says(value_type: ValueType, stored: bytes, value: object) -> None:
    assert read_value(stored, value_type) == value


@pytest.mark.parametrize(
    ("value_type", "stored"),
    [
        (ValueType.STRING, b"\xff"),
        (ValueType.INT64, b"1234567"),
        (ValueType.INT32, b""),
        (ValueType.INT16, b"123"),
        (ValueType.INT8, b"12"),
        (ValueType.FLOAT64, b"1234"),
        (ValueType.FLOAT32, b"12345678"),
        (ValueType.BOOLEAN, b""),
        (ValueType.BOOLEAN, b"\x00\x00"),
        (ValueType.TEXT_INT, b""),
        (ValueType.TEXT_INT, b" 7"),
        (ValueType.TEXT_INT, b"7\n"),
        (ValueType.TEXT_INT, b"1_000"),
        (ValueType.TEXT_INT, b"0x10"),
        (ValueType.TEXT_INT, "٣".encode()),
        (ValueType.TEXT_INT, b"1" * (TEXT_BYTES_MAX + 1)),
        (ValueType.TEXT_FLOAT, b"1_0.5"),
        (ValueType.TEXT_FLOAT, b"1.5 "),
        (ValueType.TEXT_FLOAT, b"."),
        (ValueType.TEXT_FLOAT, b"e5"),
    ],
)
def test_bytes_that_do_not_fit_their_type_are_refused(value_type: ValueType, stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # UnicodeDecodeError is one too, each with a text of its own
        read_value(stored, value_type)


@pytest.mark.parametrize("op", list(CompareOp))
def test_nan_matches_only_not_equal(op: CompareOp) -> None:
    for stored, operand in ((NAN, float64(1)), (float64(1), NAN), (NAN, NAN)):
        assert compare_value(stored, op, operand, ValueType.FLOAT64) == (op == CompareOp.NOT_EQUAL)


@pytest.mark.parametrize(
    ("stored", "op", "operand", "value_type", "holds"),
    [
        (b"\x80", CompareOp.GREATER, b"\x7f", ValueType.BYTES, True),
        (b"\x80", CompareOp.GREATER, b"\x7f", ValueType.INT8, False),
        (b"a", CompareOp.LESS, b"aa", ValueType.BYTES, True),
        (b"9", CompareOp.LESS, b"10", ValueType.BYTES, False),
        (b"9", CompareOp.LESS, b"10", ValueType.TEXT_INT, True),
        (b"007", CompareOp.EQUAL, b"7", ValueType.TEXT_INT, True),
        (b"1.50", CompareOp.EQUAL, b"15e-1", ValueType.TEXT_FLOAT, True),
        (float64(-0.0), CompareOp.EQUAL, float64(0.0), ValueType.FLOAT64, True),
        (b"\x01", CompareOp.EQUAL, b"\x05", ValueType.BOOLEAN, True),
    ],
)
def test_comparison_reads_stored_op_operand(
    stored: bytes, op: CompareOp, operand: bytes, value_type: ValueType, holds: bool
) -> None:
    assert compare_value(stored, op, operand, value_type) is holds
