"""Scans that are read row by row: what each source may hide of the others, and where they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    NEWEST,
    PUT,
    Family,
    PastLimits,
    ReadPoint,
)
from rowlock_regionserver.operations import CellFilter, ColumnSelector, FormColumn, ScanPlan, Selection
from rowlock_regionserver.scan import short_scan
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.scan.short_scan import ShortScan, is_short
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import Reading, WouldWaitError

from tests.property.list_source import ListSource, Write

NOW = 1000
AT_NEWEST = ReadPoint(NEWEST, NOW)
F = Family(1, b"f", versions=1)
Rows = list[tuple[bytes, dict[bytes, bytes]]]


def put(row: bytes, qualifier: bytes, value: bytes, timestamp: int = 1, write_number: int = 1) -> Write:
    return Write(row, b"f", qualifier, timestamp, write_number, PUT, value)


def lines(*writes: Write) -> ListSource:
    return ListSource(writes, has_lines=True)


def cells(*writes: Write) -> ListSource:
    return ListSource(writes)


def in_cache() -> Reading:
    return Reading.CACHED


def rows_of(found: NewestRows) -> Rows:
    return [
        (row, dict(zip(found.column_sets[place], values, strict=True)))
        for row, place, values in zip(found.rows, found.sets_of_rows, found.values, strict=True)
    ]


def read(
    *sources: ListSource, family: Family = F, at: ReadPoint = AT_NEWEST, rows_max: int = 100
) -> tuple[Rows, bytes | None]:
    """Returns the rows of sources, given from the newest to the oldest, and the frontier."""
    scan = ShortScan(lambda: [(family, sources)], (), rows_max, [RowsAt((b"", b""), at)], lambda: False, in_cache)
    rows, _ = next(scan.answers())
    return rows_of(rows), scan.rows_at[0].rows[0] if scan.rows_at else None


OLD = lines(put(b"a", b"x", b"1"), put(b"a", b"y", b"2"), put(b"b", b"x", b"3"), put(b"b", b"y", b"4"))
OLD_ROWS = [(b"a", {b"f:x": b"1", b"f:y": b"2"}), (b"b", {b"f:x": b"3", b"f:y": b"4"})]


def test_lines_of_one_source_are_answered_as_they_are() -> None:
    assert read(OLD) == (OLD_ROWS, None)
    assert read(cells(), OLD) == (OLD_ROWS, None)


def test_an_absent_cell_of_a_line_is_no_column_of_its_row() -> None:
    source = lines(put(b"a", b"x", b"1"), put(b"b", b"x", b""), put(b"b", b"y", b"2"))
    assert read(source) == ([(b"a", {b"f:x": b"1"}), (b"b", {b"f:x": b"", b"f:y": b"2"})], None)


@pytest.mark.parametrize("form", [lines, cells])
def test_a_newer_source_replaces_a_column_of_a_row(form: Callable[..., ListSource]) -> None:
    newer = form(put(b"b", b"x", b"new", 2, 2))
    assert read(newer, OLD)[0] == [OLD_ROWS[0], (b"b", {b"f:x": b"new", b"f:y": b"4"})]
    earlier = form(put(b"b", b"x", b"of an earlier time", 0, 2))
    assert read(earlier, OLD)[0] == OLD_ROWS


@pytest.mark.parametrize("form", [lines, cells])
def test_a_write_beyond_the_read_point_is_not_seen(form: Callable[..., ListSource]) -> None:
    later = form(put(b"b", b"x", b"new", 2, 9), put(b"c", b"x", b"new", 2, 9), put(b"0", b"x", b"old", 1, 1))
    assert read(later, OLD, at=ReadPoint(5, NOW))[0] == [(b"0", {b"f:x": b"old"}), *OLD_ROWS]
    assert len(read(later, OLD)[0]) == 4
    alone = form(put(b"c", b"x", b"new", 2, 9), put(b"c", b"y", b"old", 1, 1))
    assert read(alone, at=ReadPoint(5, NOW))[0] == [(b"c", {b"f:y": b"old"})]


def test_a_tombstone_of_another_source_hides_a_row_and_a_column() -> None:
    tombstones = cells(
        Write(b"a", b"f", b"", 1, 2, DELETE_FAMILY, b""), Write(b"b", b"f", b"x", 1, 2, DELETE_COLUMN, b"")
    )
    assert read(tombstones, OLD) == ([(b"b", {b"f:y": b"4"})], None)


@pytest.mark.parametrize("form", [lines, cells])
def test_an_expired_cell_is_not_seen(form: Callable[..., ListSource]) -> None:
    source = form(put(b"a", b"x", b"1", timestamp=100), put(b"b", b"x", b"2", timestamp=900))
    assert read(source, family=Family(1, b"f", time_to_live_ms=500))[0] == [(b"b", {b"f:x": b"2"})]


def test_a_cell_that_an_earlier_time_to_live_has_hidden_does_not_come_back() -> None:
    past = (PastLimits(5, versions=1, time_to_live_ms=10, gone_through=100),)
    source = lines(put(b"a", b"x", b"1", 100, 4), put(b"b", b"x", b"2", 101, 4), put(b"c", b"x", b"3", 100, 6))
    family = Family(1, b"f", past=past)
    assert [row for row, _ in read(source, family=family)[0]] == [b"b", b"c"]


def test_of_the_versions_of_a_column_the_newest_is_answered() -> None:
    source = cells(put(b"a", b"x", b"old", 1, 1), put(b"a", b"x", b"new", 2, 2))
    assert read(source, family=Family(1, b"f", versions=3)) == ([(b"a", {b"f:x": b"new"})], None)


def test_families_follow_one_another_by_name() -> None:
    other = ListSource([Write(b"a", b"e", b"z", 1, 1, PUT, b"e"), Write(b"c", b"e", b"z", 1, 1, PUT, b"c")])
    view = [(F, [OLD]), (Family(2, b"e"), [other])]
    scan = ShortScan(lambda: view, (), 0, [RowsAt((b"", b""), AT_NEWEST)], lambda: False, in_cache)
    [(found, _)] = scan.answers()
    rows = rows_of(found)
    assert rows == [(b"a", {b"e:z": b"e", **OLD_ROWS[0][1]}), OLD_ROWS[1], (b"c", {b"e:z": b"c"})]
    assert list(rows[0][1]) == [b"e:z", b"f:x", b"f:y"]


def selected(view: View, *columns: ColumnSelector) -> tuple[Rows, ShortScan]:
    """Returns the rows of a scan of these columns, and the scan."""
    short = ShortScan(lambda: view, columns, 0, [RowsAt((b"", b""), AT_NEWEST)], lambda: False, in_cache)
    return [row for found, _ in short.answers() for row in rows_of(found)], short


def test_only_selected_columns_are_answered() -> None:
    other = ListSource([Write(b"a", b"e", b"x", 1, 1, PUT, b"e"), Write(b"c", b"e", b"z", 1, 1, PUT, b"c")])
    f_y, f_none, e_x = ColumnSelector(b"f", b"y"), ColumnSelector(b"f", b"none"), ColumnSelector(b"e", b"x")
    newer = cells(put(b"b", b"x", b"n", 2, 2), Write(b"a", b"f", b"", 2, 2, DELETE_FAMILY, b""))
    for of_f, rows_of_f in (([OLD], [b"a", b"b"]), ([newer, OLD], [b"b"])):
        view = [(F, of_f), (Family(2, b"e"), [other])]
        expected = [(row, {b"f:y": b"2" if row == b"a" else b"4"}) for row in rows_of_f]
        assert selected(view, f_y)[0] == expected
        assert selected(view, f_none)[0] == []
        assert [row for row, _ in selected(view, ColumnSelector(b"e"))[0]] == [b"a", b"c"]
        assert dict(selected(view, e_x, f_y)[0])[b"b"] == {b"f:y": b"4"}
        assert dict(selected(view, e_x, f_y)[0])[b"a"] == {b"e:x": b"e"} | dict(expected).get(b"a", {})
    assert selected([(F, [newer])], f_y)[0] == []


def test_where_no_row_has_a_selected_column_the_windows_go_on() -> None:
    rows = [b"%03d" % number for number in range(short_scan.UNLIMITED_ROWS_MAX + 1)]
    source = lines(*(put(row, b"x", b"v") for row in rows[:-1]), put(rows[-1], b"y", b"v"))
    found, short = selected([(F, [source])], ColumnSelector(b"f", b"y"))
    assert found == []
    assert not short.is_at_end
    assert short.rows_at[0].rows[0] == rows[-1]


def test_no_more_rows_are_answered_than_wanted_and_the_frontier_is_the_next_one() -> None:
    newer = cells(put(b"a1", b"x", b"n", 2, 2), put(b"d", b"x", b"n", 2, 2))
    rows, frontier = read(newer, OLD, rows_max=2)
    assert [row for row, _ in rows] == [b"a", b"a1"]
    assert frontier is not None
    assert b"a1" < frontier <= b"b"


def test_rows_behind_what_one_source_has_given_are_not_answered_yet() -> None:
    many = lines(*[put(b"r%d" % number, b"x", b"v") for number in range(9)])
    few = cells(put(b"r0", b"x", b"n", 2, 2), put(b"z", b"x", b"n", 2, 2))
    rows, frontier = read(few, many, rows_max=3)
    assert [row for row, _ in rows] == [b"r0", b"r1", b"r2"]
    assert frontier == b"r3"


def answered(plan: ScanPlan, sources: Sequence[ListSource], reading: Reading) -> list[bool]:
    """Returns of each answer whether its rows were read one by one."""
    rows_at = (RowsAt((b"", b""), AT_NEWEST),)
    answers = list(scan(lambda: [(F, sources)], plan, rows_at, reading=lambda: reading))
    assert sum(answer.row_count for answer in answers) == min(len(OLD_ROWS), plan.row_limit or 2)
    return [isinstance(answer.rows, NewestRows) for answer in answers]


def test_only_scans_that_need_no_more_are_read_row_by_row() -> None:
    assert is_short(ScanPlan(newest_rows=True))
    of_columns = Selection((ColumnSelector(b"f"), ColumnSelector(b"f", b"x")))
    assert is_short(ScanPlan(of_columns, newest_rows=True))
    form = (FormColumn(b"f", b"x"),)
    for other in (
        ScanPlan(),
        ScanPlan(newest_rows=True, reverse=True),
        ScanPlan(newest_rows=True, selection=Selection(versions=2)),
        ScanPlan(newest_rows=True, selection=replace(of_columns, time_stop=9)),
        ScanPlan(newest_rows=True, selection=replace(of_columns, cells=CellFilter(keys_only=True))),
        ScanPlan(newest_rows=True, batch_rows=1),
        ScanPlan(newest_rows=True, batch_bytes=1000),
        ScanPlan(newest_rows=True, row_form=form),
    ):
        assert not is_short(other), other


def test_a_scan_that_goes_on_is_read_by_windows() -> None:
    plan = ScanPlan(newest_rows=True)
    assert answered(plan, [OLD], Reading.CACHED) == [True]
    assert answered(plan, [OLD], Reading.BULK) == [False]


def test_a_source_that_cannot_give_few_rows_is_read_by_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ListSource([put(b"a", b"x", b"1"), put(b"b", b"x", b"22")], away_from=1)
    assert answered(ScanPlan(newest_rows=True), [away], Reading.CACHED) == [False]
    monkeypatch.setattr(short_scan, "UNLIMITED_ROWS_MAX", 1)
    # The first row is answered before the one with the large value.
    assert answered(ScanPlan(newest_rows=True), [away], Reading.CACHED) == [True, False]


def test_many_sources_are_read_by_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_scan, "SOURCES_MAX", 1)
    assert answered(ScanPlan(newest_rows=True), [cells(), OLD], Reading.CACHED) == [False]


def test_on_the_loop_no_source_is_read_after_the_slice() -> None:
    late = ShortScan(
        lambda: [(F, [OLD, OLD])], (), 0, [RowsAt((b"", b""), AT_NEWEST)], lambda: True, lambda: Reading.AT_ONCE
    )
    with pytest.raises(WouldWaitError):
        next(late.answers())


def test_a_limit_ends_the_scan_with_its_last_row() -> None:
    running = scan(
        lambda: [(F, [OLD])],
        ScanPlan(newest_rows=True, row_limit=1),
        (RowsAt((b"", b""), AT_NEWEST),),
        reading=lambda: Reading.AT_ONCE,
    )
    assert not running.is_at_end
    assert next(running).row_count == 1
    assert running.is_at_end
    assert next(running, None) is None


def test_a_scan_without_visible_rows_gives_its_resume_key_when_its_slice_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(short_scan, "UNLIMITED_ROWS_MAX", 1)
    hidden = [Write(row, b"f", b"", 9, 9, DELETE_FAMILY, b"") for row in (b"a", b"b")]
    running = scan(
        lambda: [(F, [cells(*hidden), OLD])],
        ScanPlan(newest_rows=True),
        (RowsAt((b"", b""), AT_NEWEST),),
        is_slice_over=lambda: True,
        reading=lambda: Reading.CACHED,
    )
    answer = next(running)
    assert (answer.row_count, b"a" < answer.resume_key <= b"b") == (0, True)
    assert next(running, None) is None
