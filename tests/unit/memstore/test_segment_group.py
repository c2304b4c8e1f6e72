"""Groups of segments find each segment that has a row, and few others."""

from __future__ import annotations

import random

from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import Cell
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.memstore import BulkSegment
from rowlock_regionserver.memstore.segment_group import SegmentGroup, grouped

from tests.seeds import drawn_seed

CELL: Cell = (b"q", -1, -1, 0, b"value")


def segment(rows: list[bytes], *, is_of_lines: bool = True) -> BulkSegment:
    table = cells_table(sorted(rows), [[CELL]] * len(rows))
    lines, _ = lines_of(table) if is_of_lines else (None, None)
    return ArrowSegment(table) if lines is None else LinesSegment(lines)


def segments_of(generator: random.Random, count: int) -> dict[BulkSegment, list[bytes]]:
    """Some have many rows and some have few, so that their filters have different sizes."""
    found = {}
    for number in range(count):
        rows = [generator.randbytes(12) for _ in range(generator.choice((1, 30, 100, 300)))]
        found[segment(rows, is_of_lines=number % 3 > 0)] = rows
    return found


def test_every_segment_that_has_a_row_is_found_and_few_others() -> None:
    generator = random.Random(drawn_seed())
    segments = {segment(rows): rows for rows in ([generator.randbytes(12) for _ in range(200)] for _ in range(16))}
    groups = grouped(segments)
    assert len(groups) == 2
    for each, rows in segments.items():
        assert all(each in SegmentGroup.candidates(groups, row) for row in rows)
    # A place has a row with a probability of 200 / 2048, and its quarter with a fourth of that: 800 are expected.
    others = [len(SegmentGroup.candidates(groups, generator.randbytes(13))) for _ in range(2000)]
    assert sum(others) < 1200


def test_segments_of_any_sizes_are_found() -> None:
    generator = random.Random(drawn_seed())
    segments = segments_of(generator, 50)
    groups = grouped(segments)
    in_groups = [each for group in groups for each in group.segments]
    rest = segments.keys() - in_groups
    assert len(in_groups) == len(set(in_groups)) == 48
    assert len(rest) == 2
    assert max(each.filter.place_count for each in rest) <= min(each.filter.place_count for each in in_groups)
    for each, rows in segments.items():
        assert each in rest or all(each in SegmentGroup.candidates(groups, row) for row in rows)


def test_a_group_is_kept_until_one_of_its_segments_is_gone() -> None:
    generator = random.Random(drawn_seed())
    segments = list(segments_of(generator, 24))
    groups = grouped(segments)
    assert grouped([segment([b"r"]), *segments], groups) == groups
    gone = groups[1].segments[3]
    left = [each for each in segments if each is not gone]
    assert grouped(left, groups) == [groups[0], groups[2]]


def test_the_memory_of_a_group_is_counted_by_its_segments() -> None:
    generator = random.Random(drawn_seed())
    for group in grouped(segments_of(generator, 16)):
        own = sum(each.filter.place_count for each in group.segments)
        assert own + len(group._bits) <= sum(each.filter.byte_count for each in group.segments)
