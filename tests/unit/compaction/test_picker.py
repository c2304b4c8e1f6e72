"""Which compaction is due, rule by rule; tests/property has random stores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rowlock_regionserver.compaction.picker import FileFacts, Kind, Plan, pick, pick_requested
from rowlock_regionserver.compaction.settings import CompactionSettings, parse

from tests.unit.compaction.store_facts import DAY_MS, MIB, base, delta

SETTINGS = CompactionSettings()


def minor(*inputs: int, why: str) -> Plan:
    return Plan(Kind.MINOR, inputs, why, groups=(inputs,))


def major(*inputs: int, why: str) -> Plan:
    return Plan(Kind.MAJOR, inputs, why, groups=(inputs,))


def test_a_store_without_files_is_idle() -> None:
    assert pick([], SETTINGS) is None
    assert pick_requested([], SETTINGS, major=True) is None
    assert pick_requested([], SETTINGS, major=False) is None


def test_nothing_is_due_while_automatic_compaction_is_off() -> None:
    files = [delta(number) for number in range(100)]
    off = replace(SETTINGS, automatic=False)
    assert pick(files, off) is None
    assert pick_requested(files, off, major=True) is not None


def test_a_single_base_with_nothing_to_drop_is_never_rewritten() -> None:
    files = [base(1, age_ms=1000 * DAY_MS)]
    assert pick(files, SETTINGS) is None
    assert pick_requested(files, SETTINGS, major=True) is None
    assert pick_requested(files, SETTINGS, major=False) is None


# Major.


def test_deltas_that_are_a_share_of_the_base_lead_to_a_major_compaction() -> None:
    assert pick([delta(2, 99 * MIB), base(1)], SETTINGS) is None
    assert pick([delta(2, 100 * MIB), base(1)], SETTINGS) == major(2, 1, why="deltas are 10% of the bases")


def test_without_a_base_three_deltas_become_one() -> None:
    assert pick([delta(number) for number in (2, 1)], SETTINGS) is None
    files = [delta(number) for number in (3, 2, 1)]
    assert pick(files, SETTINGS) == major(3, 2, 1, why="deltas are 200% of the oldest file")


def test_without_a_base_a_large_oldest_delta_is_not_rewritten_for_tiny_ones() -> None:
    files = [*(delta(number) for number in (5, 4, 3, 2)), delta(1, 1000 * MIB)]
    assert pick(files[1:], SETTINGS) is None
    assert pick(files, SETTINGS) == minor(5, 4, 3, 2, why="4 deltas of similar size")


def test_many_deltas_are_compacted_with_the_base_if_they_are_a_part_of_its_share() -> None:
    deltas = [delta(20 - index, MIB << index) for index in range(10)]
    assert pick([*deltas, base(1, 102_300 * MIB)], SETTINGS) == major(*range(20, 10, -1), 1, why="10 deltas")
    assert pick([*deltas[1:], base(1, 102_300 * MIB)], SETTINGS) is None


def test_a_base_is_not_rewritten_for_deltas_that_are_many_and_tiny() -> None:
    deltas = [delta(20 - index, MIB << 2 * index) for index in range(10)]
    plan = pick([*deltas, base(1, 100_000_000 * MIB)], SETTINGS)
    assert plan == minor(20, 19, why="2 deltas of 10, the cheapest to compact")


def test_deleted_cells_lead_to_a_major_compaction() -> None:
    def files(tombstones: int) -> list[FileFacts]:
        return [delta(2, 1000, cell_count=tombstones, tombstone_count=tombstones), base(1, cell_count=1000)]

    # Each hides one cell: 2 * 111 of 1111.
    assert pick(files(110), SETTINGS) is None
    assert pick(files(112), SETTINGS) == major(2, 1, why="20% of the cells are deleted or expired")


def test_a_tombstone_of_a_family_counts_as_many_cells_as_a_row_has() -> None:
    deleted = delta(2, 1000, cell_count=20, tombstone_count=20, family_tombstone_count=20, row_count=0)
    wide = base(1, cell_count=1000, row_count=100)
    assert pick([deleted, wide], SETTINGS) == major(2, 1, why="22% of the cells are deleted or expired")
    assert pick([replace(deleted, family_tombstone_count=0), wide], SETTINGS) is None


def test_expired_cells_lead_to_a_major_compaction_of_a_single_base() -> None:
    assert pick([base(1, expired_count=199)], SETTINGS) is None
    assert pick([base(1, expired_count=200)], SETTINGS) == major(1, why="20% of the cells are deleted or expired")


def test_a_single_delta_of_tombstones_is_compacted() -> None:
    assert pick([delta(1, tombstone_count=1000)], SETTINGS) == major(1, why="100% of the cells are deleted or expired")


def test_tombstones_that_a_reader_protects_lead_to_no_compaction_until_it_ends() -> None:
    files = [base(1, tombstone_count=900, is_protected=True, age_ms=30 * DAY_MS)]
    assert pick(files, SETTINGS) is None
    assert pick_requested(files, SETTINGS, major=True) is None
    assert pick([replace(files[0], is_protected=False)], SETTINGS) is not None
    delta_of_tombstones = delta(2, 1, tombstone_count=900, is_protected=True)
    assert pick([delta_of_tombstones, base(1)], SETTINGS) is None
    assert pick([replace(delta_of_tombstones, is_protected=False), base(1)], SETTINGS) is not None


def test_deltas_and_deleted_cells_of_a_base_do_not_stay_longer_than_the_age() -> None:
    assert pick([delta(2, age_ms=7 * DAY_MS - 1), base(1)], SETTINGS) is None
    why = "a file is 7.0 days old"
    assert pick([delta(2, age_ms=7 * DAY_MS), base(1)], SETTINGS) == major(2, 1, why=why)
    assert pick([base(1, age_ms=7 * DAY_MS, tombstone_count=1)], SETTINGS) == major(1, why=why)
    assert pick([base(1, age_ms=7 * DAY_MS, has_surplus_versions=True)], SETTINGS) == major(1, why=why)
    assert pick([base(1, age_ms=7 * DAY_MS, expired_count=1)], SETTINGS) is None


def test_0_switches_each_reason_for_a_major_compaction_off() -> None:
    files = [
        *(delta(20 - index, MIB << 2 * index, age_ms=9 * DAY_MS, expired_count=1000) for index in range(10)),
        base(1),
    ]
    reasons = ("major_delta_share", "major_deltas", "major_dropped_share", "major_age_ms")
    for count in range(4):
        off = parse({f"compaction.{reason}": "0" for reason in reasons[:count]})
        plan = pick(files, off)
        assert plan is not None
        assert plan.kind is Kind.MAJOR
    assert pick(files, parse({f"compaction.{reason}": "0" for reason in reasons})) is None


# Groups of a major compaction.


def test_a_file_whose_rows_no_other_input_has_is_moved() -> None:
    files = [
        delta(4, 200 * MIB, first_row=b"a", last_row=b"b"),
        delta(3, 200 * MIB, first_row=b"x", last_row=b"z"),
        base(2, 900 * MIB, first_row=b"a", last_row=b"c"),
        base(1, 100 * MIB, first_row=b"d", last_row=b"e"),
    ]
    plan = pick(files, SETTINGS)
    why = "deltas are 40% of the bases"
    assert plan == Plan(Kind.MAJOR, (4, 3, 2, 1), why, groups=((4, 2),), moved=(3, 1))


@pytest.mark.parametrize("what", [{"tombstone_count": 1}, {"expired_count": 1}, {"has_surplus_versions": True}])
def test_a_file_with_something_to_drop_is_rewritten_even_if_it_is_alone(what: dict[str, int]) -> None:
    files = [delta(2, 200 * MIB, first_row=b"x"), base(1, last_row=b"c", **what)]
    plan = pick(files, SETTINGS)
    assert plan == Plan(Kind.MAJOR, (2, 1), "deltas are 20% of the bases", groups=((1,),), moved=(2,))


def test_small_files_are_combined_and_a_single_one_is_moved() -> None:
    rows = [bytes([row]) for row in range(4)]
    files = [delta(9 - index, 3 * MIB, first_row=row, last_row=row) for index, row in enumerate(rows)]
    plan = pick(files, replace(SETTINGS, move_bytes_min=9 * MIB))
    assert plan == Plan(Kind.MAJOR, (9, 8, 7, 6), "deltas are 300% of the oldest file", groups=((9, 8, 7),), moved=(6,))


def test_a_requested_major_compaction_makes_bases_of_all_files_and_drops_expired_ones_unread() -> None:
    files = [delta(4), delta(3, is_all_expired=True), delta(2), base(1, is_all_expired=True)]
    plan = pick_requested(files, SETTINGS, major=True)
    assert plan == Plan(Kind.MAJOR, (4, 3, 2, 1), "requested", groups=((4, 2),), dropped=(3, 1))


def test_a_requested_major_compaction_moves_a_single_delta() -> None:
    assert pick_requested([delta(1)], SETTINGS, major=True) == Plan(Kind.MAJOR, (1,), "requested", moved=(1,))


# Too many files.


def test_a_major_compaction_of_too_many_deltas_starts_with_the_oldest() -> None:
    files = [delta(number) for number in range(9, 0, -1)]
    plan = pick(files, replace(SETTINGS, files_max=5))
    assert plan == major(5, 4, 3, 2, 1, why="deltas are 800% of the oldest file")
    plan = pick_requested(files, replace(SETTINGS, files_max=5), major=True)
    assert plan == replace(major(5, 4, 3, 2, 1, why="requested"), is_continued=True)


def test_the_base_waits_until_the_deltas_are_few_enough() -> None:
    files = [*(delta(number, 100 * MIB) for number in range(9, 1, -1)), base(1)]
    plan = pick(files, replace(SETTINGS, files_max=5))
    assert plan == minor(6, 5, 4, 3, 2, why="deltas are 80% of the bases; first 5 of 9 files")
    plan = pick_requested(files, replace(SETTINGS, files_max=5), major=True)
    assert plan == replace(minor(6, 5, 4, 3, 2, why="requested; first 5 of 9 files"), is_continued=True)


# Minor.


def test_deltas_of_similar_size_become_one_beside_a_large_base() -> None:
    assert pick([*(delta(number) for number in (4, 3, 2)), base(1)], SETTINGS) is None
    files = [*(delta(number) for number in (5, 4, 3, 2)), base(1)]
    assert pick(files, SETTINGS) == minor(5, 4, 3, 2, why="4 deltas of similar size")


def test_a_large_delta_is_left_out_of_a_minor_compaction() -> None:
    files = [*(delta(number) for number in (6, 5, 4, 3)), delta(2, 90 * MIB), base(1)]
    assert pick(files, SETTINGS) == minor(6, 5, 4, 3, why="4 deltas of similar size")


def test_a_requested_minor_compaction_makes_one_delta_of_all() -> None:
    files = [delta(3), delta(2, 90 * MIB), base(1)]
    assert pick_requested(files, SETTINGS, major=False) == minor(3, 2, why="requested")
    assert pick_requested(files[1:], SETTINGS, major=False) is None


def test_a_requested_minor_compaction_of_too_many_files_is_continued() -> None:
    files = [delta(number) for number in (5, 4, 3, 2, 1)]
    plan = pick_requested(files, replace(SETTINGS, files_max=4, minor_files_min=2), major=False)
    assert plan == replace(minor(4, 3, 2, 1, why="requested"), is_continued=True)


# Files of which nothing is left.


def test_files_whose_every_cell_has_expired_are_dropped_first() -> None:
    files = [
        delta(6),
        delta(5, is_all_expired=True),
        delta(4),
        delta(3, is_all_expired=True),
        base(2, is_all_expired=True),
    ]
    why = "all cells have expired"
    dropped = Plan(Kind.MINOR, (3, 2), why, dropped=(3, 2))
    assert pick(files, SETTINGS) == dropped
    assert pick_requested(files, SETTINGS, major=False) == replace(dropped, is_continued=True)
    assert pick(files[:3], SETTINGS) == Plan(Kind.MINOR, (5,), why, dropped=(5,))


# Clipped files.


def test_clipped_files_are_rewritten_when_nothing_else_is_due() -> None:
    why = "1 file has rows of other regions, after a split"
    assert pick([base(1, is_clipped=True)], SETTINGS) == major(1, why=why)
    assert pick([delta(1, is_clipped=True)], SETTINGS) == minor(1, why=why)
    assert pick([base(1, is_clipped=True)], replace(SETTINGS, automatic=False)) is None
    files = [delta(number, is_clipped=True) for number in (3, 2, 1)]
    assert pick(files, SETTINGS) == major(3, 2, 1, why="deltas are 200% of the oldest file")


def test_clipped_deltas_are_rewritten_without_the_base() -> None:
    files = [delta(5), delta(4, is_clipped=True), delta(3, is_clipped=True), base(2), base(1)]
    why = "2 files have rows of other regions, after a split"
    assert pick(files, SETTINGS) == minor(4, 3, why=why)
    assert pick(files, replace(SETTINGS, files_max=2, minor_files_min=2)) is not None
    apart = [delta(5, is_clipped=True), delta(4, 100 * MIB), delta(3, 1000, is_clipped=True), base(1, 100_000 * MIB)]
    assert pick(apart, SETTINGS) == minor(5, why=why), "the newest of runs of the same length"


def test_a_clipped_base_is_rewritten_and_other_bases_are_moved() -> None:
    files = [
        base(2, first_row=b"a", last_row=b"f"),
        base(1, first_row=b"g", last_row=b"z", is_clipped=True),
    ]
    plan = pick(files, SETTINGS)
    why = "1 file has rows of other regions, after a split"
    assert plan == Plan(Kind.MAJOR, (2, 1), why, groups=((1,),), moved=(2,))
    assert pick_requested(files, SETTINGS, major=True) == replace(plan, why="requested")
