"""Runs of files by their sizes alone."""

from __future__ import annotations

import pytest
from rowlock_regionserver.compaction.size_tiers import cheapest_run, similar_run


@pytest.mark.parametrize(
    ("byte_counts", "expected"),
    [
        ([], None),
        ([1, 1, 1], None),  # too few
        ([1, 1, 1, 1], range(4)),
        ([1, 1, 1, 1, 4, 4], range(6)),  # the older tier joins: 4 <= 1.2 * 4, 4 <= 1.2 * 8
        ([1, 1, 1, 1, 5], range(4)),  # 5 > 1.2 * 4
        ([1, 1, 1, 100, 100, 100, 100], range(3, 7)),  # the run need not start at the newest
        ([100, 1, 1, 1], range(4)),  # a large newer file takes small older ones
        ([5, 5, 5, 5, 99, 1, 1, 1, 1], range(4, 9)),  # the longest of several
        ([0, 0, 0, 0], range(4)),
        ([0, 0, 0, 1], None),
    ],
)
def test_the_longest_run_of_similar_files_is_found(byte_counts: list[int], expected: range | None) -> None:
    assert similar_run(byte_counts, files_min=4, size_ratio=1.2, files_max=100) == expected


def test_of_runs_of_the_same_length_the_newest_is_found() -> None:
    assert similar_run([3, 3, 7, 7, 99, 99], files_min=2, size_ratio=1.0, files_max=100) == range(2)


def test_a_run_has_no_more_files_than_allowed() -> None:
    assert similar_run([1] * 1000, files_min=4, size_ratio=1.0, files_max=500) == range(500)


@pytest.mark.parametrize(
    ("byte_counts", "expected"),
    [
        ([], None),
        ([7], None),
        ([7, 7], range(2)),
        ([1, 1, 1, 50, 1], range(3)),  # 3 bytes for two files less; two of them cost 2 for one
        ([100, 1, 10, 100], range(1, 3)),
        ([0, 0, 0], range(2)),
    ],
)
def test_the_cheapest_run_costs_the_fewest_bytes_a_file(byte_counts: list[int], expected: range | None) -> None:
    assert cheapest_run(byte_counts, files_max=100) == expected


def test_the_cheapest_run_has_no_more_files_than_allowed() -> None:
    assert cheapest_run([1, 1, 1, 1], files_max=2) == range(2)
