"""Comparing a whole column gives what comparing its values one by one gives."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock_regionserver.operations import CompareOp, PatternKind, ValueType
from rowlock_regionserver.scan.columns import binary_array
from rowlock_regionserver.scan.masks import compares, is_one_of, matches_pattern
from rowlock_regionserver.scan.values import compare_column, compare_value, read_value

numbers = st.one_of(
    st.integers(-3, 3).map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.integers(10**17, 10**19).map(str),
    st.floats().map(repr),
    st.floats(-5, 5).map(lambda number: f"{number:.3f}"),
    st.sampled_from(["+1", "007", "-0", "1e400", "-1e-400", "NaN", "infinity", "0x10", "1_0", " 1", "1\n", "1.", ".5"]),
)
stored_bytes = st.one_of(
    st.binary(max_size=9),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=2, max_size=2),
    st.binary(min_size=1, max_size=1),
    st.floats().map(lambda number: struct.pack(">d", number)),
    st.floats(width=32).map(lambda number: struct.pack(">f", number)),
    st.text(max_size=4).map(str.encode),
    numbers.map(str.encode),
)


def fits(value: bytes, value_type: ValueType) -> bool:
    try:
        read_value(value, value_type)
    except ValueError:
        return False
    return True


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(ValueType), st.sampled_from(CompareOp), st.lists(stored_bytes, max_size=12), stored_bytes, st.data()
)
def test_column_comparison_equals_its_scalar_twin(
    value_type: ValueType, op: CompareOp, values: list[bytes], operand: bytes, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values)))
    column = binary_array(values).slice(start)
    values = values[start:]
    if not fits(operand, value_type):
        with pytest.raises(ValueError):  # noqa: PT011  # UnicodeDecodeError is one too, each with a text of its own
            compare_column(column, op, operand, value_type)
        return
    matches, are_fitting = compare_column(column, op, operand, value_type)
    assert are_fitting.tolist() == [fits(value, value_type) for value in values]
    assert matches.tolist() == [
        fits(value, value_type) and compare_value(value, op, operand, value_type) for value in values
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=4), max_size=12), st.frozensets(st.binary(max_size=3), max_size=4), st.data())
def test_masks_of_bytes_equal_python(values: list[bytes], operands: frozenset[bytes], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    column = binary_array(values).slice(start)
    values = values[start:]
    assert is_one_of(column, operands).tolist() == [value in operands for value in values]
    for operand in operands:
        starts, ends, contains = (matches_pattern(column, kind, operand).tolist() for kind in PatternKind)
        assert starts == [value.startswith(operand) for value in values]
        assert ends == [value.endswith(operand) for value in values]
        assert contains == [operand in value for value in values]
        assert compares(column, CompareOp.LESS, operand).tolist() == [value < operand for value in values]
