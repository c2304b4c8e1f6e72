from __future__ import annotations

import datetime
import decimal
import operator
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from rowlock import Mapping
from rowlock._codec.keys import encoded_keys
from rowlock._core.scan_plan import RowRange
from rowlock.spark.decoding import bytes_of
from rowlock.spark.key_ranges import ALL_ROWS, RANGES_MAX, Op, PartCondition, intersected, row_ranges

from tests.seeds import generator_of

_HOLDS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQUAL: operator.eq,
    Op.LESS: operator.lt,
    Op.LESS_OR_EQUAL: operator.le,
    Op.GREATER: operator.gt,
    Op.GREATER_OR_EQUAL: operator.ge,
    Op.STARTS_WITH: lambda stored, prefix: stored.startswith(prefix),
}


def _is_in(row: bytes, ranges: tuple[RowRange, ...]) -> bool:
    return any(start <= row and (not stop or row < stop) for start, stop in ranges)


def _holds(conditions: list[PartCondition], key: tuple[Any, ...]) -> bool:
    return all(any(_HOLDS[item.op](key[item.part], value) for value in item.values) for item in conditions)


def _text(rng: random.Random) -> str:
    return "".join(rng.choice("ab\0ÿ") for _ in range(rng.randrange(3)))


def _integer(bits: int) -> Callable[[random.Random], int]:
    edges = [-(1 << bits - 1), (1 << bits - 1) - 1, -1, 0, 1, 255, -256 if bits > 8 else -100]
    return lambda rng: rng.choice(edges) if rng.random() < 0.7 else rng.randrange(-100, 100)


def _date(rng: random.Random) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=rng.randrange(-3, 3))


def _time(rng: random.Random) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=rng.randrange(-3, 3))


# Parts of keys for which every comparison is exact, and generators of their values.
_PARTS: dict[str, Callable[[random.Random], Any]] = {
    "TINYINT {} ordered": lambda rng: rng.choice([-128, -1, 0, 1, 127]),
    "TINYINT {} binary": lambda rng: rng.choice([-128, -1, 0, 1, 127]),
    "INT {} ordered": _integer(32),
    "INT {} binary": _integer(32),
    "BIGINT {} ordered": _integer(64),
    "BIGINT {} binary": _integer(64),
    "DATE {} ordered": _date,
    "DATE {} binary": _date,
    "TIMESTAMP {} ordered": _time,
    "TIMESTAMP {} binary": _time,
    "DECIMAL(9,2) {} ordered": lambda rng: decimal.Decimal(rng.randrange(-3, 3)) / 4,
    "STRING {} ordered": _text,
}
_SEPARATED = {"STRING {} text": _text}


def _cases(parts: dict[str, Callable[[random.Random], Any]], seed: int, always_exact: bool) -> None:
    rng = generator_of(seed)
    for _ in range(300):
        words = [rng.choice(list(parts)) for _ in range(rng.randrange(1, 4))]
        text = ", ".join(f"k{place} {word.format(':key')}" for place, word in enumerate(words))
        mapping = Mapping(text + ", v INT f:v")
        make = [parts[word] for word in words]
        keys = [tuple(one(rng) for one in make) for _ in range(40)]
        # A key of nothing is refused when it is written.
        keys = [key for key in keys if key != ("",)]
        arrays = [pa.array([key[place] for key in keys], part.codec.arrow) for place, part in enumerate(mapping.keys)]
        rows = bytes_of(encoded_keys(mapping, arrays))
        conditions = []
        for place in range(len(words)):
            for _ in range(rng.randrange(3)):
                is_text = "STRING" in words[place]
                op = rng.choice([item for item in Op if is_text or item is not Op.STARTS_WITH])
                values = tuple(make[place](rng) for _ in range(rng.randrange(1, 4) if op is Op.EQUAL else 1))
                conditions.append(PartCondition(place, op, values))
        ranges, exact = row_ranges(mapping, conditions)
        checked = [conditions[place] for place in sorted(exact)]
        for key, row in zip(keys, rows, strict=True):
            assert _is_in(row, ranges) == _holds(checked, key), (seed, text, key, row, checked, ranges)
        if always_exact:
            first = [place for place, item in enumerate(conditions) if item.part == 0]
            empty = [p for p in first if conditions[p].values[0] == "" and conditions[p].op is not Op.EQUAL]
            assert set(first) - set(empty) <= exact, (seed, text, conditions, exact)


@pytest.mark.parametrize("seed", range(4))
def test_ranges_contain_exactly_the_rows_that_match_the_exact_conditions(seed: int) -> None:
    _cases(_PARTS, seed, True)


@pytest.mark.parametrize("seed", range(4))
def test_parts_with_a_separator_are_exact_only_for_equality_and_prefixes(seed: int) -> None:
    _cases({**_PARTS, **_SEPARATED}, seed, False)


def _ranges(mapping: str, *conditions: PartCondition) -> tuple[tuple[RowRange, ...], set[int]]:
    return row_ranges(Mapping(mapping), conditions)


def test_the_example_of_the_module_holds() -> None:
    ranges, exact = _ranges(
        "carrier STRING :key, day INT :key ordered",
        PartCondition(0, Op.EQUAL, ("UA", "AA")),
        PartCondition(1, Op.GREATER_OR_EQUAL, (0,)),
    )
    assert exact == {0, 1}
    assert ranges == ((b"AA|\x80\0\0\0", b"AA}"), (b"UA|\x80\0\0\0", b"UA}"))


def test_a_part_after_one_without_equality_remains() -> None:
    mapping = "carrier STRING :key, flight INT :key ordered"
    assert _ranges(mapping, PartCondition(1, Op.EQUAL, (5,))) == (ALL_ROWS, set())
    ranges, exact = _ranges(mapping, PartCondition(0, Op.STARTS_WITH, ("U",)), PartCondition(1, Op.EQUAL, (5,)))
    assert (ranges, exact) == (((b"U", b"V"),), {0})


@pytest.mark.parametrize(
    "part",
    ["INT :key", "DOUBLE :key ordered", "BOOLEAN :key ordered", "DATE :key", "DOUBLE :key binary", "DATE :key millis"],
)
def test_parts_with_several_spellings_or_another_order_remain(part: str) -> None:
    value: Any = datetime.date(2013, 1, 1) if part.startswith("DATE") else True if "BOOL" in part else 1
    assert _ranges(f"k {part}", PartCondition(0, Op.EQUAL, (value,))) == (ALL_ROWS, set())


def test_decimals_of_many_digits_are_exact() -> None:
    value = decimal.Decimal(10**37 + 1)
    [(start, stop)], exact = _ranges("k DECIMAL(38,0) :key ordered", PartCondition(0, Op.EQUAL, (value,)))
    assert exact == {0}
    assert stop == start + b"\0"
    assert int.from_bytes(start, "big") == 10**37 + 1 + (1 << 127)


def test_values_that_no_key_can_contain_remain() -> None:
    assert _ranges("a STRING :key, b STRING :key", PartCondition(0, Op.EQUAL, ("x|y",))) == (ALL_ROWS, set())
    assert _ranges("a STRING :key, b STRING :key", PartCondition(0, Op.STARTS_WITH, ("x|",))) == (ALL_ROWS, set())
    assert _ranges("a INT :key ordered", PartCondition(0, Op.LESS, ("text",))) == (ALL_ROWS, set())
    assert _ranges("a STRING :key", PartCondition(0, Op.EQUAL, ("x" * 40_000,))) == (ALL_ROWS, set())
    assert _ranges("a STRING :key", PartCondition(0, Op.LESS, ("",))) == (ALL_ROWS, set())


def test_a_condition_that_needs_too_many_ranges_remains() -> None:
    many = tuple(range(0, 2 * RANGES_MAX + 2, 2))
    mapping = "a INT :key ordered, b STRING :key"
    assert _ranges(mapping, PartCondition(0, Op.EQUAL, many)) == (ALL_ROWS, set())
    ranges, exact = _ranges(mapping, PartCondition(0, Op.EQUAL, many[1:]))
    assert (len(ranges), exact) == (RANGES_MAX, {0})
    # Values without others between them are one range.
    assert _ranges(mapping, PartCondition(0, Op.EQUAL, tuple(range(RANGES_MAX + 1))))[1] == {0}
    several = "a STRING :key, b INT :key ordered"
    ranges, exact = _ranges(several, PartCondition(0, Op.EQUAL, ("x", "y")), PartCondition(1, Op.EQUAL, many[1:]))
    assert (ranges, exact) == (((b"x|", b"x}"), (b"y|", b"y}")), {0})


def test_a_condition_that_needs_too_many_prefixes_remains() -> None:
    many = tuple(map(str, range(RANGES_MAX // 2)))
    mapping = "a STRING :key, b STRING :key, c STRING :key"
    ranges, exact = _ranges(mapping, *(PartCondition(place, Op.EQUAL, many) for place in range(3)))
    assert exact == {0}
    assert len(ranges) == len(many)


def test_conditions_that_exclude_each_other_leave_no_rows() -> None:
    ranges, exact = _ranges("a STRING :key", PartCondition(0, Op.EQUAL, ("x",)), PartCondition(0, Op.GREATER, ("x",)))
    assert (ranges, exact) == ((), {0, 1})


def test_open_ranges_are_intersected() -> None:
    assert intersected(ALL_ROWS, [(b"a", b"b"), (b"c", b"")]) == ((b"a", b"b"), (b"c", b""))
    assert intersected([(b"a", b"c"), (b"d", b"")], [(b"b", b"e")]) == ((b"b", b"c"), (b"d", b"e"))
    assert intersected([(b"a", b"b")], [(b"b", b"")]) == ()
