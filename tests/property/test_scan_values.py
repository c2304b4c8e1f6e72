"""A comparison of a whole column gives the same as comparisons of its values."""

from __future__ import annotations

import random
import struct

import pytest
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.masks import compares, is_one_of, matches_pattern
from rowlock_regionserver.arrow.regular_expressions import matches_expression
from rowlock_regionserver.operations import CompareOp, PatternKind, ValueType
from rowlock_regionserver.scan.values import compare_column, compare_value, read_value

from tests.property.scan_cases import EXPRESSIONS
from tests.property.scan_model import pattern_matches
from tests.seeds import generator_of

CASES = range(100)

ODD_TEXT = [
    "+1",
    "007",
    "-0",
    "1e400",
    "-1e-400",
    "NaN",
    "infinity",
    "0x10",
    "1_0",
    " 1",
    "1\n",
    "1.",
    ".5",
    "",
    "-",
    "٣",
]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), 5e-324, 3e38]
WIDTHS = {ValueType.INT64: 8, ValueType.INT32: 4, ValueType.INT16: 2, ValueType.INT8: 1, ValueType.BOOLEAN: 1}


def fitting(generator: random.Random, value_type: ValueType) -> bytes:
    """Returns bytes that mostly fit the type, of few numbers, so that equal ones are compared."""
    if value_type == ValueType.FLOAT64:
        return struct.pack(">d", generator.choice(FLOATS))
    if value_type == ValueType.FLOAT32:
        return struct.pack(">f", generator.choice(FLOATS))
    if value_type == ValueType.TEXT_INT:
        return str(generator.choice([generator.randint(-3, 3), generator.randint(-(10**19), 10**19), 10**18])).encode()
    if value_type == ValueType.TEXT_FLOAT:
        number = generator.choice(
            [*FLOATS, generator.uniform(-9, 9), generator.randint(-3, 3), 1e300 * generator.random()]
        )
        return generator.choice([repr(number), f"{number:.2f}"]).encode()
    if value_type in WIDTHS:
        width = WIDTHS[value_type]
        return generator.choice([bytes(width), b"\xff" * width, generator.randbytes(width), b"\x01" + bytes(width - 1)])
    return generator.choice(["", "a", "ab", "é", "z"]).encode()


def fits(value: bytes, value_type: ValueType) -> bool:
    try:
        read_value(value, value_type)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("value_type", list(ValueType))
def test_column_comparison_equals_its_scalar_twin(value_type: ValueType) -> None:
    for case in CASES:
        generator = generator_of(case)
        odd = generator.choice([0.0, 0.2])
        values = [
            generator.choice([generator.randbytes(generator.randrange(10)), generator.choice(ODD_TEXT).encode()])
            if generator.random() < odd
            else fitting(generator, value_type)
            for _ in range(generator.choice([0, 1, 30]))
        ]
        start = generator.randint(0, len(values))
        column = binary_array(values).slice(start)
        values = values[start:]
        operand = fitting(generator, value_type)
        for op in CompareOp:
            matches, are_fitting = compare_column(column, op, operand, value_type)
            assert are_fitting.tolist() == [fits(value, value_type) for value in values], f"case {case}"
            assert matches.tolist() == [
                fits(value, value_type) and compare_value(value, op, operand, value_type) for value in values
            ], f"case {case}, {op!r} {operand!r}"


@pytest.mark.parametrize("value_type", [value_type for value_type in ValueType if value_type != ValueType.BYTES])
def test_operand_that_does_not_fit_is_an_error_of_the_column_too(value_type: ValueType) -> None:
    for values in ([], [b"\x01"]):
        with pytest.raises(ValueError):  # noqa: PT011  # UnicodeDecodeError is one too, each with a text of its own
            compare_column(binary_array(values), CompareOp.EQUAL, b"\xff\xff\xff", value_type)


def test_masks_of_bytes_equal_python() -> None:
    for case in CASES:
        generator = generator_of(case)
        pieces = [b"", b"a", b"ab", b"b", b"\xff", b"\xff\x00"]
        values = [generator.choice(pieces) + generator.choice(pieces) for _ in range(generator.choice([0, 1, 20]))]
        start = generator.randint(0, len(values))
        column = binary_array(values).slice(start)
        values = values[start:]
        operands = frozenset(generator.sample(pieces, generator.randrange(4)))
        assert is_one_of(column, operands).tolist() == [value in operands for value in values], f"case {case}"
        for operand in operands:
            kinds = (PatternKind.STARTS_WITH, PatternKind.ENDS_WITH, PatternKind.CONTAINS)
            starts, ends, contains = (matches_pattern(column, kind, operand).tolist() for kind in kinds)
            assert starts == [value.startswith(operand) for value in values], f"case {case}"
            assert ends == [value.endswith(operand) for value in values], f"case {case}"
            assert contains == [operand in value for value in values], f"case {case}"
            assert compares(column, CompareOp.LESS, operand).tolist() == [value < operand for value in values]


@pytest.mark.parametrize("kind", [PatternKind.MATCHES, PatternKind.MATCHES_TEXT])
def test_a_regular_expression_over_a_column_equals_python(kind: PatternKind) -> None:
    for case in CASES:
        generator = generator_of(case)
        pieces = [b"", b"a", "ä".encode(), b"b1", b"\xff", b"\n"]
        values = [generator.choice(pieces) + generator.choice(pieces) for _ in range(generator.choice([0, 1, 20]))]
        start = generator.randint(0, len(values))
        column = binary_array(values).slice(start)
        for expression in EXPRESSIONS:
            found = matches_expression(column, expression, is_text=kind is PatternKind.MATCHES_TEXT)
            expected = [pattern_matches(kind, expression, value) for value in values[start:]]
            assert found.tolist() == expected, f"case {case}, {expression!r}"
