"""Random weights and ranges: the parts cover exactly the ranges, and have about the requested size."""

from __future__ import annotations

import random
from itertools import pairwise

from rowlock_regionserver.row_ranges import RowRange, is_empty
from rowlock_regionserver.scan.ranges import joined
from rowlock_regionserver.scan.split_points import CUT_BYTES_MAX, PARTS_MAX, Part, parts, scaled

from tests.seeds import generator_of

CASES = range(2000)
LONG = b"x" * CUT_BYTES_MAX


def rows(generator: random.Random, count: int) -> list[bytes]:
    """Returns rows; some are long, and differ only beyond the bytes that a cut uses."""
    some = [bytes(generator.choices(b"ab\x00\xff", k=generator.randint(1, 4))) for _ in range(count)]
    return sorted({LONG + row if generator.random() < 0.1 else row for row in some})


def random_ranges(generator: random.Random) -> list[RowRange]:
    bounds = (generator.choice([b"", b"a"]), generator.choice([b"", b"b\xff"]))
    if generator.random() < 0.2:
        return joined([(b"", b"")], bounds)
    edges = rows(generator, generator.choice([2, 6, 40]))
    ends = [generator.choice([*edges, b""]) if generator.random() < 0.3 else edge + b"\x00" for edge in edges]
    return joined(zip(edges, ends, strict=True), bounds)


def test_parts_cover_exactly_the_ranges() -> None:
    counts = [check_parts(case) for case in CASES]
    assert sum(count > 1 for count in counts) > len(CASES) / 10


def check_parts(case: int) -> int:
    generator = generator_of(case)
    ranges = random_ranges(generator)
    sources = [
        [(row, generator.choice([0, 1, 10, 100])) for row in rows(generator, generator.choice([0, 1, 10, 50]))]
        for _ in range(generator.randint(0, 3))
    ]
    part_bytes = generator.choice([1, 30, 200, 1000, 1 << 40])
    made = parts(sources, ranges, part_bytes)
    flat = [row_range for part in made for row_range in part.ranges]
    assert joined(flat, (b"", b"")) == ranges, case
    assert not any(is_empty(row_range) for row_range in flat), case
    assert all(part.ranges for part in made), case
    for (_, stop), (start, _) in pairwise(flat):
        assert stop != b"", case
        assert stop <= start, case
    total = sum(part.byte_count for part in made)
    assert all(part.byte_count for part in made) or len(made) <= 1 or not total, case
    assert total <= sum(weight for source in sources for _, weight in source), case
    if ranges == [(b"", b"")]:
        assert total == sum(weight for source in sources for _, weight in source), case
    return len(made)


def test_parts_of_even_weights_are_about_equal() -> None:
    source = [(b"%06d" % number, 10) for number in range(100_000)]
    made = parts([source, source], [(b"", b"")], 70_000)
    assert len(made) == 29
    assert max(part.byte_count for part in made) <= 70_000
    assert min(part.byte_count for part in made) > 60_000


def test_small_ranges_share_a_part() -> None:
    source = [(b"%03d" % number, 100) for number in range(0, 1000, 10)]
    ranges = [(b"%03d" % number, b"%03d\x00" % number) for number in range(1000)]
    made = parts([source], ranges, 1000)
    # Bytes that several ranges share count once.
    assert [part.byte_count for part in made] == [1000] * 10
    assert [row_range for part in made for row_range in part.ranges] == ranges


def test_bytes_are_charged_to_the_first_range_that_touches_them() -> None:
    source = [(b"a", 100), (b"m", 50)]
    assert parts([source], [(b"c", b"d")], 10) == [Part(((b"c", b"d"),), 100)]
    assert parts([source], [(b"A", b"B")], 10) == [Part(((b"A", b"B"),), 0)]
    assert parts([source], [(b"n", b"")], 10) == [Part(((b"n", b""),), 50)]
    assert parts([], [], 10) == []


def test_the_number_of_parts_and_the_rows_in_them_are_bounded() -> None:
    source = [(LONG + b"%06d" % number, 1) for number in range(10)]
    assert [part.ranges for part in parts([source], [(b"", b"")], 1)] == [((b"", LONG),), ((LONG, b""),)]
    many = [(b"%06d" % number, 1) for number in range(3 * PARTS_MAX)]
    assert len(parts([many], [(b"", b"")], 1)) <= PARTS_MAX + 1


def test_scaled_weights_sum_up_to_the_given_bytes_and_never_shrink() -> None:
    weights = [(b"a", 10), (b"b", 30)]
    assert scaled(weights, 80) == [(b"a", 20), (b"b", 60)]
    assert scaled(weights, 20) == weights
    assert scaled([], 20) == []
