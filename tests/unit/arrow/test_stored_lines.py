"""Slices of lines that are in several blocks."""

from __future__ import annotations

from typing import cast

import pytest
from rowlock_regionserver.arrow.stored_lines import BlockSlice, StoredBlock, StoredLines, parts_of


class FakeBlock:
    """A block that is only named."""

    def __init__(self, name: str) -> None:
        self.name = name


def places_of(lines: StoredLines) -> list[tuple[object, int]]:
    """Returns the block and the place in it of each line."""
    assert all(first < stop for _, first, stop in lines.slices)
    return [(block, line) for block, first, stop in lines.slices for line in range(first, stop)]


def test_a_slice_has_the_lines_between_its_bounds() -> None:
    blocks = [cast("StoredBlock", FakeBlock(name)) for name in "abcd"]
    lines = StoredLines(
        tuple(
            [BlockSlice(block, *bounds) for block, bounds in zip(blocks, [(3, 5), (0, 1), (0, 4), (2, 3)], strict=True)]
        )
    )
    every = places_of(lines)
    assert len(every) == lines.line_count == 8
    for start in range(9):
        for stop in range(start, 9):
            found = lines.slice(start, stop - start)
            assert places_of(found) == every[start:stop]
            assert found.line_count == stop - start
            for first in range(stop - start + 1):
                assert places_of(found.slice(first, stop - start - first)) == every[start + first : stop]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1], [[b"abcdef"], [b"xyz"]]),
        ([2, 1], [[b"abcd", b"ef"], [b"xy", b"z"]]),
        ([1, 1, 1], [[b"ab", b"cd", b"ef"], [b"x", b"y", b"z"]]),
    ],
)
def test_parts_of_memory_follow_one_another(counts: list[int], expected: list[list[bytes]]) -> None:
    targets = [memoryview(b"abcdef"), memoryview(b"xyz")]
    assert [list(map(bytes, parts)) for parts in parts_of(targets, counts)] == expected
