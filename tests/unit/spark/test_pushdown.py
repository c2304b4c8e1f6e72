from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
import rowlock
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from rowlock import Mapping
from rowlock.spark.frame import mapped_frame, plain_frame
from rowlock.spark.key_ranges import ALL_ROWS
from rowlock.spark.pushdown import Pushed, both, pushed

_MAPPING = Mapping(
    "id STRING :key, n INT f:n, big BIGINT f:big, x DOUBLE f:x, s STRING f:s, b BINARY f:b, yes BOOLEAN f:yes, "
    "day DATE f:day, at TIMESTAMP f:at, price DECIMAL(9,2) f:price, text INT f:text text, ms TIMESTAMP f:ms millis"
)
_UTC = datetime.UTC


def _pushed(*filters: Filter, malformed_is_null: bool = False) -> Pushed:
    return pushed(mapped_frame(_MAPPING, ("n",), malformed_is_null), filters, malformed_is_null)


def _where(*filters: Filter) -> rowlock.Filter | None:
    found = _pushed(*filters)
    assert found.remaining == ()
    assert found.ranges == ALL_ROWS
    return found.where


_N = rowlock.column("f:n", "int")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("n",), 5), _N == 5),
        (EqualNullSafe(("n",), 5), _N == 5),
        (EqualNullSafe(("n",), None), _N.is_absent()),
        (LessThan(("n",), 5), _N < 5),
        (LessThanOrEqual(("n",), 5), _N <= 5),
        (GreaterThan(("n",), 5), _N > 5),
        (GreaterThanOrEqual(("n",), 5), _N >= 5),
        (In(("n",), (5, None, 6)), _N.is_in([5, 6])),
        (IsNull(("n",)), _N.is_absent()),
        (IsNotNull(("n",)), _N.is_present()),
        (Not(EqualTo(("n",), 5)), ~(_N == 5) & _N.is_present()),
        (Not(EqualNullSafe(("n",), 5)), ~(_N == 5)),
        (Not(IsNull(("n",))), ~_N.is_absent()),
        (Not(IsNotNull(("n",))), ~_N.is_present()),
        (Not(In(("n",), (5, 6))), ~_N.is_in([5, 6]) & _N.is_present()),
        (EqualTo(("big",), -1), rowlock.column("f:big", int) == -1),
        (LessThan(("x",), 1.5), rowlock.column("f:x", float) < 1.5),
        (EqualTo(("yes",), True), rowlock.column("f:yes", bool) == True),  # noqa: E712
        (LessThan(("s",), "ä"), rowlock.column("f:s", str) < "ä"),
        (GreaterThan(("b",), b"\xff"), rowlock.column("f:b") > b"\xff"),
        (StringStartsWith(("s",), "a"), rowlock.column("f:s", str).starts_with("a")),
        (StringEndsWith(("s",), "a"), rowlock.column("f:s", str).ends_with("a")),
        (StringContains(("s",), "a"), rowlock.column("f:s", str).contains("a")),
        (EqualTo(("day",), datetime.date(1970, 1, 3)), rowlock.column("f:day", "int") == 2),
        (
            GreaterThan(("at",), datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=_UTC)),
            rowlock.column("f:at", "bigint") > 1_000_000,
        ),
        (IsNull(("n_timestamp",)), _N.is_absent()),
    ],
    ids=repr,
)
def test_conditions_that_the_server_evaluates_as_spark_does_are_pushed(given: Filter, expected: rowlock.Filter) -> None:
    found = _where(given)
    assert found is not None
    assert found.message == expected.message


_KEPT: list[Filter] = [
    # NaN is greater than everything in Spark.
    GreaterThan(("x",), 1.5),
    GreaterThanOrEqual(("x",), 1.5),
    EqualTo(("x",), float("nan")),
    In(("x",), (0.0,)),
    # Several spellings of one number; a scale; units between which a value may lie.
    EqualTo(("text",), 5),
    EqualTo(("price",), decimal.Decimal("1.50")),
    EqualTo(("ms",), datetime.datetime(1970, 1, 1, tzinfo=_UTC)),
    # Null for every row.
    Not(In(("n",), (5, None))),
    EqualTo(("n",), None),
    In(("n",), (None,)),
    # Not what the column can hold.
    EqualTo(("n",), 1 << 40),
    EqualTo(("at",), datetime.datetime(1970, 1, 1)),
    LessThan(("yes",), True),
    EqualTo(("n_timestamp",), datetime.datetime(1970, 1, 1, tzinfo=_UTC)),
    # No column of the DataFrame, or a part of one.
    EqualTo(("nothing",), 5),
    EqualTo(("s", "t"), 5),
    # Of the key: nothing that ranges can tell.
    StringEndsWith(("id",), "a"),
    StringContains(("id",), "a"),
    IsNull(("id",)),
    Not(StringStartsWith(("id",), "a")),
]


@pytest.mark.parametrize("given", _KEPT, ids=repr)
def test_conditions_that_the_server_might_evaluate_otherwise_remain(given: Filter) -> None:
    assert _pushed(given) == Pushed(ALL_ROWS, None, (given,))


def test_filters_on_the_key_become_ranges() -> None:
    found = _pushed(IsNotNull(("id",)), GreaterThanOrEqual(("id",), "b"), LessThan(("id",), "c"))
    assert found == Pushed(((b"b", b"c"),), None, ())
    assert _pushed(In(("id",), ("x", "a"))).ranges == ((b"a", b"a\0"), (b"x", b"x\0"))
    assert _pushed(StringStartsWith(("id",), "ab")).ranges == ((b"ab", b"ac"),)
    other = _pushed(Not(EqualTo(("id",), "b")))
    assert other.remaining == ()
    assert other.where is not None
    assert other.where.message == (rowlock.row_key() != "b").message


def test_remaining_filters_are_the_same_objects() -> None:
    given = [GreaterThan(("x",), 1.5), EqualTo(("n",), 5)]
    [remaining] = _pushed(*given).remaining
    assert remaining is given[0]


def test_several_filters_all_have_to_match() -> None:
    found = _where(EqualTo(("n",), 5), LessThan(("s",), "z"))
    assert found is not None
    assert len(found.message.all.filters) == 2


def test_with_malformed_null_only_conditions_that_it_does_not_affect_are_pushed() -> None:
    remaining: list[Filter] = [
        EqualTo(("n",), 5),
        IsNull(("n",)),
        IsNotNull(("s",)),
        LessThan(("s",), "x"),
        GreaterThan(("id",), "a"),
        IsNotNull(("id",)),
        Not(EqualTo(("id",), "b")),
    ]
    exact: list[Filter] = [EqualTo(("b",), b"x"), IsNull(("b",)), IsNotNull(("n_timestamp",))]
    found = _pushed(*remaining, *exact, malformed_is_null=True)
    assert found.remaining == tuple(remaining)
    # The range is read, and Spark drops what has no key.
    assert found.ranges == ((b"a\0", b""),)


def test_a_condition_on_a_map_of_columns_remains() -> None:
    given: list[Any] = [IsNotNull(("columns",)), EqualTo(("row",), b"x")]
    found = pushed(plain_frame(), given, False)
    assert found == Pushed(((b"x", b"x\0"),), None, (given[0],))


def test_two_filters_are_combined_and_none_matches_all_rows() -> None:
    first, second = rowlock.row_key() > b"a", rowlock.row_key() < b"b"
    assert both(None, None) is None
    assert both(first, None) is first
    assert both(None, second) is second
    joined = both(first, second)
    assert joined is not None
    assert joined.message == (first & second).message
