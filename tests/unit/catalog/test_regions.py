"""The regions of a table as entries: splits of a new table, a split, a merge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock_regionserver.catalog.catalog import CatalogState, decode, encode
from rowlock_regionserver.catalog.regions import RegionEntry, check_regions, checked_splits, new_regions, region_of_row
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    TableNotFoundError,
)


def new_table(splits: Sequence[bytes] = (), name: str = "t", state: CatalogState | None = None) -> CatalogState:
    state = CatalogState() if state is None else state
    return state.with_new_table(name, [Family(0, b"f")], Durability.FSYNC, splits=splits)


def regions_of(state: CatalogState, name: str = "t") -> tuple[RegionEntry, ...]:
    return state.entry(name).regions


def test_a_table_without_splits_has_one_region_of_all_rows() -> None:
    assert regions_of(new_table()) == (RegionEntry(1, b"", b""),)


def test_splits_are_the_first_rows_of_all_regions_but_the_first_in_any_order() -> None:
    state = new_table([b"t", b"d", b"m"])
    assert regions_of(state) == (
        RegionEntry(1, b"", b"d"),
        RegionEntry(2, b"d", b"m"),
        RegionEntry(3, b"m", b"t"),
        RegionEntry(4, b"t", b""),
    )
    assert state.next_region_id == 5
    assert decode(encode(state)) == state
    assert [region.region_id for region in regions_of(new_table((), "u", state), "u")] == [5]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([b"b", b""], "a split of table 't' is the empty row, with which the first region begins anyway; leave it out"),
        ([b"b", b"a", b"b"], "the split 'b' of table 't' is named twice; name each row once"),
    ],
)
def test_impossible_splits_are_refused(splits: Sequence[bytes], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        new_table(splits)


def test_too_many_and_too_long_splits_are_refused() -> None:
    limits = Config(regions_per_table_max=3, row_bytes_max=4)
    assert checked_splits("t", [b"bbbb", b"a"], limits) == [b"a", b"bbbb"]
    with pytest.raises(LimitExceededError, match="would have 4 regions, more than regions_per_table_max = 3") as many:
        checked_splits("t", [b"a", b"b", b"c"], limits)
    assert (many.value.limit, many.value.limit_value, many.value.found) == ("regions_per_table_max", 3, 4)
    with pytest.raises(LimitExceededError, match=r"has 5 bytes, more than row_bytes_max = 4; .* 'bbbbb'") as long:
        checked_splits("t", [b"bbbbb"], limits)
    assert (long.value.limit, long.value.limit_value, long.value.found) == ("row_bytes_max", 4, 5)


def test_reserved_ids_are_never_given_to_another_region() -> None:
    state, ids = new_table([b"m"]).with_reserved_regions(2)
    assert ids == (3, 4)
    state, more = decode(encode(state)).with_reserved_regions(1)
    assert more == (5,)
    assert [region.region_id for region in regions_of(new_table([b"x"], "u", state), "u")] == [6, 7]


def test_a_split_puts_two_regions_in_the_place_of_one() -> None:
    state, daughters = new_table([b"m"]).with_reserved_regions(2)
    assert daughters == (3, 4)
    split = state.with_split_region("t", 1, b"d", (3, 4))
    assert regions_of(split) == (RegionEntry(3, b"", b"d"), RegionEntry(4, b"d", b"m"), RegionEntry(2, b"m", b""))
    assert regions_of(state.with_split_region("t", 2, b"x", (3, 4)))[1:] == (
        RegionEntry(3, b"m", b"x"),
        RegionEntry(4, b"x", b""),
    )
    assert decode(encode(split)) == split
    assert split.entry("t").table == state.entry("t").table


@pytest.mark.parametrize(
    ("region_id", "row", "error", "message"),
    [
        (9, b"d", NotServingRegionError, "table 't' has no region 9: it was split, merged or truncated"),
        (2, b"m", InvalidRequestError, "row 'm' is the first row of region 2 of table 't' already; nothing was split"),
        (1, b"", InvalidRequestError, "row '' is the first row of region 1"),
        (1, b"m", InvalidRequestError, "row 'm' is not in region 1 of table 't', which has the rows from the first"),
        (2, b"a", InvalidRequestError, "row 'a' is not in region 2 of table 't', which has the rows from 'm' to the"),
    ],
)
def test_an_impossible_split_is_refused(region_id: int, row: bytes, error: type[Exception], message: str) -> None:
    state, daughters = new_table([b"m"]).with_reserved_regions(2)
    assert len(daughters) == 2
    with pytest.raises(error, match=re.escape(message)):
        state.with_split_region("t", region_id, row, (3, 4))


def test_a_merge_puts_one_region_in_the_place_of_two_neighbours() -> None:
    state, (merged,) = new_table([b"d", b"m"]).with_reserved_regions(1)
    assert regions_of(state.with_merged_regions("t", 1, 2, merged)) == (
        RegionEntry(4, b"", b"m"),
        RegionEntry(3, b"m", b""),
    )
    assert regions_of(state.with_merged_regions("t", 2, 3, merged)) == (
        RegionEntry(1, b"", b"d"),
        RegionEntry(4, b"d", b""),
    )


@pytest.mark.parametrize(
    ("left", "right", "error", "message"),
    [
        (1, 9, NotServingRegionError, "table 't' has no region 9"),
        (9, 1, NotServingRegionError, "table 't' has no region 9"),
        (2, 2, InvalidRequestError, "region 2 of table 't' can't be merged with itself; name its neighbour"),
        (1, 3, InvalidRequestError, "region 3 of table 't' does not begin where region 1 stops"),
        (2, 1, InvalidRequestError, "region 1 of table 't' does not begin where region 2 stops"),
        # The open ends of a table are no border between two regions.
        (3, 1, InvalidRequestError, "region 1 of table 't' does not begin where region 3 stops"),
    ],
)
def test_an_impossible_merge_is_refused(left: int, right: int, error: type[Exception], message: str) -> None:
    state, (merged,) = new_table([b"d", b"m"]).with_reserved_regions(1)
    with pytest.raises(error, match=re.escape(message)):
        state.with_merged_regions("t", left, right, merged)


def test_splits_and_merges_of_a_table_that_is_not_there_are_refused() -> None:
    state, (first, second) = CatalogState().with_reserved_regions(2)
    with pytest.raises(TableNotFoundError):
        state.with_split_region("t", 1, b"m", (first, second))
    with pytest.raises(TableNotFoundError):
        state.with_merged_regions("t", 1, 2, first)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.with_split_region("t", 1, b"d", (3, 4)),
        lambda state: state.with_merged_regions("t", 1, 2, 3),
    ],
)
def test_ids_that_are_not_reserved_are_a_bug(change: Callable[[CatalogState], object]) -> None:
    with pytest.raises(AssertionError, match="is not reserved"):
        change(new_table([b"m"]))


def test_regions_with_a_gap_an_overlap_or_an_id_twice_are_a_bug() -> None:
    whole = regions_of(new_table([b"d", b"m"]))
    check_regions(whole)
    for broken in (
        (),
        whole[1:],
        whole[:-1],
        (whole[0], whole[2]),
        (whole[0], replace(whole[1], start=b"c"), whole[2]),
        (whole[0], replace(whole[1], stop=b"n"), whole[2]),
        (whole[0], replace(whole[1], region_id=1), whole[2]),
        (replace(whole[0], stop=b""), replace(whole[1], start=b""), whole[2]),
    ):
        with pytest.raises(AssertionError):
            check_regions(broken)


ROWS = st.binary(min_size=1, max_size=2)
STEPS = st.lists(st.tuples(st.booleans(), ROWS), max_size=12)


@given(st.sets(ROWS, max_size=5), STEPS)
def test_regions_of_a_table_cover_all_rows_without_overlap_after_any_splits_and_merges(
    splits: set[bytes], steps: list[tuple[bool, bytes]]
) -> None:
    state = new_table(list(splits))
    borders = set(splits)
    used = {region.region_id for region in regions_of(state)}
    for is_split, row in steps:
        regions = regions_of(state)
        region = region_of_row(regions, row)
        if is_split and row not in borders:
            state, (lower, upper) = state.with_reserved_regions(2)
            state = state.with_split_region("t", region.region_id, row, (lower, upper))
            borders.add(row)
        elif not is_split and region.start:
            left = regions[regions.index(region) - 1]
            state, (merged,) = state.with_reserved_regions(1)
            state = state.with_merged_regions("t", left.region_id, region.region_id, merged)
            borders.remove(region.start)
        new = {each.region_id for each in regions_of(state)} - {each.region_id for each in regions}
        assert not new & used, "a region has an id that was used before"
        used |= new
        check_regions(regions_of(state))
        assert [each.start for each in regions_of(state)] == [b"", *sorted(borders)]
        assert sum(each.holds(row) for each in regions_of(state)) == 1
    assert decode(encode(state)) == state


@given(st.sets(ROWS, max_size=6), ROWS, st.binary(max_size=2))
def test_regions_that_overlap_a_range_are_those_that_hold_one_of_its_rows(
    splits: set[bytes], start: bytes, stop: bytes
) -> None:
    regions = new_regions(sorted(splits), 1)
    rows = [bytes([first, second]) for first in range(0, 256, 5) for second in (0, 128)] + [start, *splits]
    inside = [row for row in rows if start <= row and (not stop or row < stop)]
    overlapping = [region for region in regions if region.overlaps(start, stop)]
    assert {region_of_row(regions, row) for row in inside} <= set(overlapping)
    if inside:
        assert overlapping == sorted(overlapping, key=lambda region: region.start)
