"""The option filter: its grammar, and the conditions that the server evaluates."""

from __future__ import annotations

import datetime
import decimal

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
from rowlock.errors import InvalidArgumentError
from rowlock.spark.frame import Frame, mapped_frame, plain_frame
from rowlock.spark.options import read_options
from rowlock.spark.pushdown import Rows, rows_of
from rowlock.spark.sql_filter import parse_filter

_MAPPING = (
    "id STRING :key, n INT f:n, x DOUBLE f:x, f FLOAT f:f, s STRING f:s, b BINARY f:b, yes BOOLEAN f:yes, "
    "day DATE f:day, at TIMESTAMP f:at, price DECIMAL(38,2) f:price, `a b``c` INT f:odd"
)
_UTC = datetime.UTC


def _frame() -> Frame:
    return mapped_frame(Mapping(_MAPPING), ("n",), False)


def _filters(text: str) -> list[Filter]:
    return [each for one in parse_filter(text, _frame()) for each in one.filters]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 5", [EqualTo(("n",), 5)]),
        ("N == -5", [EqualTo(("n",), -5)]),
        ("n <=> NULL", [EqualNullSafe(("n",), None)]),
        ("n<>5", [Not(EqualTo(("n",), 5))]),
        ("n != +5", [Not(EqualTo(("n",), 5))]),
        ("n < 5 and n <= 6", [LessThan(("n",), 5), LessThanOrEqual(("n",), 6)]),
        ("n > 1 And n >= 2.0", [GreaterThan(("n",), 1), GreaterThanOrEqual(("n",), 2)]),
        ("n IN (1, 2,3)", [In(("n",), (1, 2, 3))]),
        ("n not in (1)", [Not(In(("n",), (1,)))]),
        ("n BETWEEN -1 AND 1", [GreaterThanOrEqual(("n",), -1), LessThanOrEqual(("n",), 1)]),
        ("n is null", [IsNull(("n",))]),
        ("`n` IS NOT NULL", [IsNotNull(("n",))]),
        ("n_timestamp IS NULL", [IsNull(("n_timestamp",))]),
        ("`a b``c` = 1", [EqualTo(("a b`c",), 1)]),
        ("s LIKE 'x%'", [StringStartsWith(("s",), "x")]),
        ("s LIKE '%x'", [StringEndsWith(("s",), "x")]),
        ("s NOT LIKE '%x y%'", [Not(StringContains(("s",), "x y"))]),
        ("s LIKE 'x'", [EqualTo(("s",), "x")]),
        (r"s LIKE '50\% of\_%'", [StringStartsWith(("s",), "50% of_")]),
        ("s = 'it''s' AND s <> \"a\"", [EqualTo(("s",), "it's"), Not(EqualTo(("s",), "a"))]),
        (r"s = 'a\'b\\c\n' and s < ''", [EqualTo(("s",), "a'b\\c\n"), LessThan(("s",), "")]),
        ("s = 'x AND n = 5'", [EqualTo(("s",), "x AND n = 5")]),
        ("b = X'00ff'", [EqualTo(("b",), b"\0\xff")]),
        ("yes = TRUE AND yes = false", [EqualTo(("yes",), True), EqualTo(("yes",), False)]),
        ("x < 1e3 AND x = .5", [LessThan(("x",), 1000.0), EqualTo(("x",), 0.5)]),
        ("f = 0.5 AND x = 0.1", [EqualTo(("f",), 0.5), EqualTo(("x",), 0.1)]),
        (f"price > {10**35 + 1}.25", [GreaterThan(("price",), decimal.Decimal(f"{10**35 + 1}.25"))]),
        ("day = DATE'2013-01-31'", [EqualTo(("day",), datetime.date(2013, 1, 31))]),
        ("day > '2013-01-01'", [GreaterThan(("day",), datetime.date(2013, 1, 1))]),
        (
            "at >= TIMESTAMP'2013-01-31 05:00:00+02:00'",
            [GreaterThanOrEqual(("at",), datetime.datetime(2013, 1, 31, 3, tzinfo=_UTC))],
        ),
    ],
)
def test_conditions_are_parsed_as_spark_parses_them(text: str, expected: list[Filter]) -> None:
    assert _filters(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "can't be parsed at its end: it takes comparisons"),
        ("n = 5 OR n = 6", r"can't be parsed at 'OR n = 6': .*\.where\(\) on the DataFrame"),
        ("(n = 5)", r"at '\(n = 5\)'"),
        ("NOT n = 5", "at 'NOT n = 5'"),
        ("n = 5 AND", "at its end"),
        ("n = ", "at its end"),
        ("n 5", "at '5'"),
        ("n NOT = 5", "at '= 5'"),
        ("n IS 5", "at '5'"),
        ("n = s", "compares 'n', which is INT, with s"),
        ("n IN 5", "at '5'"),
        ("n IN (5", "at its end"),
        ("n BETWEEN 5", "at its end"),
        ("upper(s) = 'X'", "names the column 'upper', which does not exist; the columns are id, n,"),
        ("delay = 5", "names the column 'delay', which does not exist"),
        ("n = NULL", "compares 'n' with NULL, which matches no row; write IS NULL"),
        ("n IN (1, NULL)", "write IS NULL"),
        ("n = '5'", "compares 'n', which is INT, with '5'"),
        ("n = 5.5", "compares 'n', which is INT, with 5.5"),
        ("s = 5", "compares 's', which is STRING, with 5"),
        ("s = X'00'", "which is STRING, with X'00'"),
        ("b = X'0'", "which is BINARY, with X'0': non-hexadecimal"),
        ("yes = 1", "which is BOOLEAN, with 1"),
        ("day = '2013-02-30'", "which is DATE, with '2013-02-30': day is out of range"),
        ("at = TIMESTAMP'2013-01-31 05:00:00'", "give the timestamp a zone"),
        ("n_timestamp = 5", "'n_timestamp', which is TIMESTAMP, with 5: it can only be tested with IS "),
        (r"s = 'a\q'", r"unknown escape \\q"),
        ("s LIKE 'a%b'", "it takes 'text%', '%text' and '%text%'"),
        ("s LIKE 'a_'", "it takes 'text%'"),
        ("x = 1e400", "which is DOUBLE, with 1e400: the number is too large"),
        ("f = 1e39", "which is FLOAT, with 1e39"),
        ("f <= 0.1", r"which is FLOAT, with 0.1: no FLOAT equals that number exactly, .*use .where"),
        ("n = 1e999999999", "which is INT, with 1e999999999: the number is too large"),
        ("price = 1e999999999", "with 1e999999999: the number is too large"),
        ("n LIKE 5", "it takes 'text%', '%text' and '%text%' with a text"),
        ("s = 'x", 'at "\'x"'),
    ],
)
def test_an_invalid_condition_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_filter(text, _frame())


def _rows(text: str, frame: Frame | None = None, **options: str) -> Rows:
    given = read_options({"server": "h:1", "table": "t", "mapping": _MAPPING, "filter": text, **options})
    return rows_of(frame or _frame(), given)


def test_a_filter_is_combined_with_the_other_options() -> None:
    rows = _rows("id >= 'b' AND n = 5", prefix="", start="a", stop="c", where="f:s = x")
    assert rows.ranges == ((b"b", b"c"),)
    assert rows.where is not None
    expected = (rowlock.column("f:s") == b"x") & (rowlock.column("f:n", "int") == 5)
    assert rows.where.message == expected.message
    assert _rows("row = X'78'", plain_frame()) == Rows(((b"x", b"x\0"),), None)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("n = 5 and x > 1.5", "x > 1.5"),
        ("price = 1.5", "price = 1.5"),
        ("id LIKE '%x' and n IS NULL", "id LIKE '%x'"),
        ("n  =  3000000000", "n  =  3000000000"),
        ("n = 5 and price BETWEEN 1 AND 2", "price BETWEEN 1 AND 2"),
    ],
)
def test_a_condition_that_only_spark_can_evaluate_is_refused_with_advice(text: str, condition: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        _rows(text)
    assert f"can't evaluate {condition!r} of the option filter exactly as Spark does" in str(refused.value)
    assert f".where({condition!r})" in str(refused.value)


def test_a_filter_on_bytes_that_may_be_malformed_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="can't evaluate 'n = 5'"):
        _rows("n = 5", malformed="null")
