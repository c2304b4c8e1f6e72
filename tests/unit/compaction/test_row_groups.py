"""Which files of a major compaction become one file each."""

from __future__ import annotations

from rowlock_regionserver.compaction.row_groups import RowSpan, row_groups


def spans(*rows: str, byte_count: int = 10, rewritten: str = "") -> list[RowSpan]:
    """Spans such as "ac", from row a to row c; those in `rewritten` have something to drop."""
    return [RowSpan(pair[0].encode(), pair[1].encode(), byte_count, pair in rewritten.split()) for pair in rows]


def test_files_without_a_common_row_stay_apart() -> None:
    assert row_groups(spans("ef", "cd", "ab"), enough_bytes=10) == [[2], [1], [0]]


def test_files_that_share_one_row_are_one_group() -> None:
    assert row_groups(spans("bc", "ab"), enough_bytes=1) == [[0, 1]]


def test_files_that_overlap_through_a_third_are_one_group_newest_first() -> None:
    assert row_groups(spans("ad", "xy", "cf", "eh"), enough_bytes=1) == [[0, 2, 3], [1]]


def test_a_file_inside_another_does_not_end_the_group() -> None:
    assert row_groups(spans("az", "bc", "xy"), enough_bytes=1) == [[0, 1, 2]]


def test_small_neighbours_are_combined_until_they_are_large_enough() -> None:
    assert row_groups(spans("ab", "cd", "ef", "gh", "ij"), enough_bytes=20) == [[0, 1], [2, 3], [4]]


def test_a_large_file_is_not_rewritten_for_its_small_neighbours() -> None:
    small = spans("ab", "ef", "gh")
    large = RowSpan(b"c", b"d", 1000, must_rewrite=False)
    assert row_groups([*small, large], enough_bytes=20) == [[0], [3], [1, 2]]


def test_what_is_rewritten_anyway_takes_its_small_neighbour_along() -> None:
    large = RowSpan(b"c", b"d", 1000, must_rewrite=True)
    assert row_groups([*spans("ab", "ef"), large], enough_bytes=20) == [[0, 2], [1]]


def test_no_files_are_no_groups() -> None:
    assert row_groups([], enough_bytes=1) == []
