"""Filters that are refused, and filters on one row that the table of HBase's cases does not cover."""

from __future__ import annotations

import re

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import FamilyNotFoundError, FilterTypeError, InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ColumnIn,
    ColumnPattern,
    ColumnPresence,
    CompareOp,
    NotOf,
    PatternKind,
    RowComparison,
    RowFilter,
    RowPattern,
    RowPrefix,
    ValueType,
)
from rowlock_regionserver.scan.filters import check_filter, matches_row, required_columns

CONFIG = Config(filter_depth_max=3, qualifier_bytes_max=4)
NUMBER = ColumnComparison(b"f", b"n", CompareOp.GREATER, b"\x00\x05", ValueType.INT16)
IS_NUMBER = ColumnComparison(b"f", b"kind", CompareOp.EQUAL, b"number")


def nested(depth: int) -> RowFilter:
    result: RowFilter = RowPrefix(b"a")
    for _ in range(depth - 1):
        result = NotOf(result)
    return result


def test_filter_is_nested_as_deep_as_the_limit_and_no_deeper() -> None:
    check_filter(nested(3), (), CONFIG)
    with pytest.raises(LimitExceededError) as raised:
        check_filter(nested(4), (), CONFIG)
    assert (raised.value.limit, raised.value.limit_value, raised.value.found) == ("filter_depth_max", 3, 4)


def test_filter_nested_a_hundred_thousand_levels_deep_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        check_filter(nested(100_000), (), CONFIG)


@pytest.mark.parametrize(
    "part",
    [
        ColumnComparison(b"no", b"q", CompareOp.EQUAL, b""),
        ColumnPresence(b"no", b"q", present=True),
        ColumnPattern(b"no", b"q", PatternKind.CONTAINS, b""),
        ColumnPattern(b"no", b"q", PatternKind.MATCHES, b""),
        ColumnIn(b"no", b"q", frozenset()),
    ],
)
def test_unknown_family_is_refused_wherever_it_is_named(part: RowFilter) -> None:
    for row_filter in (part, NotOf(part), AllOf((RowPrefix(b""), part)), AnyOf((part,))):
        with pytest.raises(FamilyNotFoundError) as raised:
            check_filter(row_filter, (b"f",), CONFIG)
        assert raised.value.family == b"no"
        assert raised.value.message.endswith("it has: f")


def test_the_name_of_an_unknown_family_is_told_no_longer_than_a_name_may_be() -> None:
    with pytest.raises(FamilyNotFoundError) as raised:
        check_filter(ColumnPresence(b"z" * 10_000, b"q", present=True), (b"f",), CONFIG)
    assert raised.value.family == b"z" * 128
    assert len(raised.value.message) < 300


def test_qualifier_that_no_column_can_have_is_refused() -> None:
    check_filter(ColumnPresence(b"f", b"1234", present=True), (b"f",), CONFIG)
    with pytest.raises(LimitExceededError):
        check_filter(ColumnPresence(b"f", b"12345", present=True), (b"f",), CONFIG)


def test_operand_that_does_not_fit_its_type_is_refused_before_anything_is_read() -> None:
    with pytest.raises(FilterTypeError) as raised:
        check_filter(ColumnComparison(b"f", b"n", CompareOp.EQUAL, b"5", ValueType.INT64), (b"f",), CONFIG)
    assert (raised.value.family, raised.value.qualifier) == (b"f", b"n")
    assert "column f:n" in raised.value.message


def test_stored_value_that_does_not_fit_is_an_error_naming_row_and_column() -> None:
    with pytest.raises(FilterTypeError) as raised:
        matches_row(NUMBER, b"r", {(b"f", b"n"): b"five"})
    assert (raised.value.row, raised.value.family, raised.value.qualifier) == (b"r", b"f", b"n")
    assert raised.value.message.startswith("column f:n of row 'r' holds b'five', which is not an integer of 2 bytes")
    assert raised.value.message.endswith("an earlier part of the filter")


def test_long_value_is_not_repeated_whole_in_a_message() -> None:
    with pytest.raises(FilterTypeError) as raised:
        matches_row(NUMBER, b"r", {(b"f", b"n"): b"x" * 1_000_000})
    assert len(raised.value.message) < 500


def test_earlier_part_guards_a_later_one() -> None:
    newest = {(b"f", b"n"): b"five", (b"f", b"kind"): b"text"}
    assert not matches_row(AllOf((IS_NUMBER, NUMBER)), b"r", newest)
    assert matches_row(AnyOf((NotOf(IS_NUMBER), NUMBER)), b"r", newest)
    with pytest.raises(FilterTypeError):
        matches_row(AllOf((NUMBER, IS_NUMBER)), b"r", newest)


def test_required_columns_are_those_of_all_parts() -> None:
    row_filter = AllOf((AnyOf((NUMBER, RowPrefix(b"a"))), NotOf(IS_NUMBER), RowComparison(CompareOp.LESS, b"z")))
    assert required_columns(row_filter) == {(b"f", b"n"), (b"f", b"kind")}
    assert required_columns(None) == frozenset()


@pytest.mark.parametrize(
    ("kind", "operand", "problem"),
    [
        (PatternKind.MATCHES, b"(a", "missing ): (a"),
        (PatternKind.MATCHES_TEXT, b"a(?=b)", "invalid perl operator"),
        (PatternKind.MATCHES_TEXT, b"\xff", "it is not UTF-8"),
    ],
)
def test_a_malformed_regular_expression_is_refused_before_anything_is_read(
    kind: PatternKind, operand: bytes, problem: str
) -> None:
    for row_filter in (ColumnPattern(b"f", b"q", kind, operand), NotOf(RowPattern(kind, operand))):
        with pytest.raises(InvalidRequestError, match=re.escape(problem)):
            check_filter(row_filter, (b"f",), CONFIG)


def test_a_long_regular_expression_is_refused() -> None:
    check_filter(RowPattern(PatternKind.MATCHES, b"a" * 1000), (), CONFIG)
    check_filter(RowPattern(PatternKind.CONTAINS, b"a" * 1001), (), CONFIG)
    with pytest.raises(LimitExceededError, match="of 1001 bytes is longer than 1000"):
        check_filter(RowPattern(PatternKind.MATCHES, b"a" * 1001), (), CONFIG)


def test_a_regular_expression_is_of_bytes_or_of_text() -> None:
    newest = {(b"f", b"q"): "ä".encode()}
    one_character = rb"\A.\z"
    assert not matches_row(ColumnPattern(b"f", b"q", PatternKind.MATCHES, one_character), b"r", newest)
    assert matches_row(ColumnPattern(b"f", b"q", PatternKind.MATCHES_TEXT, one_character), b"r", newest)
    assert matches_row(ColumnPattern(b"f", b"q", PatternKind.MATCHES, b"\xa4"), b"r", newest)
    not_text = {(b"f", b"q"): b"\xff"}
    assert not matches_row(ColumnPattern(b"f", b"q", PatternKind.MATCHES_TEXT, b""), b"r", not_text)
    assert matches_row(RowPattern(PatternKind.MATCHES, b"^r"), b"row", {})
    assert required_columns(RowPattern(PatternKind.MATCHES, b"^r")) == frozenset()
