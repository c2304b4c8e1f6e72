"""Short scans use the block cache and fill it, wait for no disk on the event loop, and read no block too many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import ColumnSelector, Delete, DeleteKind, Put, RowMutation, ScanPlan, Selection
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.sources import FewWanted, Reading, WouldWaitError
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.wide_run import WideRun

from tests.unit.region.lone_region import LoneRegion

ROW_COUNT = 4000
ROWS = [b"%05d" % number for number in range(ROW_COUNT)]
Cell = tuple[bytes, bytes, bytes]


class ColdFiles(Files):
    """A disk of which the system has nothing in memory, as long as it is cold."""

    is_cold = False

    def pread_into_at_once(self, descriptor: int, buffer: memoryview, offset: int) -> int | None:
        return None if self.is_cold else super().pread_into_at_once(descriptor, buffer, offset)


@pytest.fixture(params=["cells", "lines"])
def lone(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LoneRegion]:
    """A region with one store file of many blocks, of cells or of lines."""
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=1 << 22), files=ColdFiles())

    def puts(row: bytes) -> tuple[Put, ...]:
        # Each row has columns of its own, so that no lines are formed.
        names = (b"a", b"b", b"c") if request.param == "lines" else (row, row + b"x")
        return tuple(Put(b"f", name, row * 30) for name in names)

    for start in range(0, ROW_COUNT, 1000):
        lone.mutate(*[RowMutation(row, puts(row)) for row in ROWS[start : start + 1000]])
    lone.flush()
    kind = WideRun if request.param == "lines" else CellRun
    assert any(isinstance(run, kind) and len(run.row_weights()) > 2 for run in runs_of(lone))
    yield lone
    lone.stop()


def runs_of(lone: LoneRegion) -> list[CellRun | WideRun]:
    return [
        source
        for _, sources in lone.parts.stores.view.values()
        for source in sources
        if isinstance(source, CellRun | WideRun)
    ]


def blocks_read(lone: LoneRegion) -> int:
    return sum(run.statistics().block_read_count for run in runs_of(lone))


def scanned(lone: LoneRegion, plan: ScanPlan, reading: Reading) -> list[Cell]:
    with lone.region.scan(plan, reading=lambda: reading) as (_, answers):
        return [
            (line["row"], line["qualifier"], line["value"]) for answer in answers for line in answer.table.to_pylist()
        ]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 50, 700])
def test_every_way_of_reading_finds_the_same_rows(lone: LoneRegion, limit: int, reverse: bool) -> None:
    plan = ScanPlan(row_limit=limit, ranges=((ROWS[333], ROWS[-333]),), reverse=reverse)
    found = scanned(lone, plan, Reading.BULK)
    assert len({row for row, _, _ in found}) == limit
    assert scanned(lone, plan, Reading.CACHED) == found
    assert scanned(lone, plan, Reading.AT_ONCE) == found


@pytest.mark.parametrize("reverse", [False, True])
def test_a_short_scan_leaves_its_blocks_in_the_cache(lone: LoneRegion, reverse: bool) -> None:
    plan = ScanPlan(row_limit=50, reverse=reverse)
    found = scanned(lone, plan, Reading.CACHED)
    read = blocks_read(lone)
    assert read >= 1
    assert isinstance(lone.files, ColdFiles)
    lone.files.is_cold = True
    for reading in (Reading.CACHED, Reading.AT_ONCE):
        assert scanned(lone, plan, reading) == found
    assert blocks_read(lone) == read
    lone.parts.shared.cache._check()


def test_on_the_loop_no_scan_waits_for_a_disk(lone: LoneRegion) -> None:
    assert isinstance(lone.files, ColdFiles)
    lone.files.is_cold = True
    with pytest.raises(WouldWaitError):
        scanned(lone, ScanPlan(row_limit=1), Reading.AT_ONCE)
    assert blocks_read(lone) == 0
    lone.files.is_cold = False
    assert len({row for row, _, _ in scanned(lone, ScanPlan(row_limit=1), Reading.AT_ONCE)}) == 1
    assert blocks_read(lone) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_with_a_limit_reads_no_more_blocks_than_its_rows_need(lone: LoneRegion, reverse: bool) -> None:
    for limit, blocks_max in ((1, 1), (20, 2)):
        before = blocks_read(lone)
        plan = ScanPlan(row_limit=limit, reverse=reverse)
        assert len({row for row, _, _ in scanned(lone, plan, Reading.CACHED)}) == limit
        assert blocks_read(lone) - before <= blocks_max


def test_the_loop_reads_neither_wide_rows_nor_many_sources(lone: LoneRegion) -> None:
    for number in range(9):
        lone.mutate(RowMutation(b"x%d" % number, (Put(b"f", b"q", b"v"),)))
        lone.flush()
    with pytest.raises(WouldWaitError):
        scanned(lone, ScanPlan(row_limit=1), Reading.AT_ONCE)


def rows_scanned(
    lone: LoneRegion, limit: int, reading: Reading, start: bytes = b"", columns: tuple[ColumnSelector, ...] = ()
) -> list[Cell]:
    """Returns the cells of a scan that is read row by row."""
    plan = ScanPlan(Selection(columns), row_limit=limit, newest_rows=True, ranges=((start, b""),))
    found: list[Cell] = []
    with lone.region.scan(plan, reading=lambda: reading) as (_, answers):
        for answer in answers:
            assert isinstance(answer.rows, NewestRows)
            for row, place, values in zip(answer.rows.rows, answer.rows.sets_of_rows, answer.rows.values, strict=True):
                names = answer.rows.column_sets[place]
                found += [(row, name[2:], value) for name, value in zip(names, values, strict=True)]
    return found


@pytest.mark.parametrize("limit", [1, 50, 700])
def test_rows_that_are_read_one_by_one_are_those_of_the_windows(lone: LoneRegion, limit: int) -> None:
    for number, row in enumerate(ROWS[::3]):
        change = Put(b"f", b"b", b"new") if number % 2 else Delete(DeleteKind.COLUMN, b"f", b"b")
        lone.mutate(RowMutation(row, (change,)))
        if number == 600:
            lone.flush()
    for start in (b"", ROWS[333], ROWS[-20]):
        expected = scanned(lone, ScanPlan(row_limit=limit, ranges=((start, b""),)), Reading.BULK)
        assert rows_scanned(lone, limit, Reading.CACHED, start) == expected
        assert rows_scanned(lone, limit, Reading.AT_ONCE, start) == expected
    lone.parts.shared.cache._check()


def test_rows_that_are_read_one_by_one_come_from_the_cache(lone: LoneRegion) -> None:
    assert isinstance(lone.files, ColdFiles)
    lone.files.is_cold = True
    with pytest.raises(WouldWaitError):
        rows_scanned(lone, 1, Reading.AT_ONCE)
    assert blocks_read(lone) == 0
    lone.files.is_cold = False
    found = rows_scanned(lone, 20, Reading.CACHED)
    read = blocks_read(lone)
    assert 1 <= read <= 2
    lone.files.is_cold = True
    assert rows_scanned(lone, 20, Reading.AT_ONCE) == found
    assert blocks_read(lone) == read
    lone.parts.shared.cache._check()


@pytest.mark.parametrize("lone", ["lines"], indirect=True)
def test_a_scan_of_one_column_keeps_no_other_column_of_its_blocks(lone: LoneRegion) -> None:
    cache = lone.parts.shared.cache
    found = rows_scanned(lone, 50, Reading.CACHED, columns=(ColumnSelector(b"f", b"b"),))
    assert found == [(row, b"b", row * 30) for row in ROWS[:50]]
    of_one = cache.statistics().bytes_held
    assert len(rows_scanned(lone, 50, Reading.CACHED)) == 150
    assert cache.statistics().bytes_held > of_one + 50 * 150


def test_a_row_that_is_too_large_to_be_one_of_few_is_left_to_the_windows(lone: LoneRegion) -> None:
    large = b"v" * 100_000
    lone.mutate(RowMutation(ROWS[5], (Put(b"f", b"large", large),)))
    lone.mutate(RowMutation(ROWS[9], tuple(Put(b"f", b"%05d" % number, b"v") for number in range(2000))))
    for _ in range(2):
        plan = ScanPlan(row_limit=20, newest_rows=True)
        with lone.region.scan(plan, reading=lambda: Reading.CACHED) as (_, answers):
            forms = [(isinstance(answer.rows, NewestRows), answer.row_count) for answer in answers]
        assert sum(count for _, count in forms) == 20
        assert not all(is_short for is_short, _ in forms)
        lone.flush()


@pytest.mark.parametrize("is_flushed", [False, True])
def test_rows_of_long_qualifiers_are_left_to_windows(tmp_path: Path, *, is_flushed: bool) -> None:
    """An answer of many such rows would be far larger than its values."""
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=1 << 22))
    puts = tuple(Put(b"f", b"%03d" % number * 100, b"") for number in range(300))
    lone.mutate(*[RowMutation(b"%d" % number, puts) for number in range(3)])
    if is_flushed:
        lone.flush()
    (source,) = [
        each
        for family, sources in lone.parts.stores.view.values()
        for each in sources
        if family.name == b"f" and each.write_number_max
    ]
    assert source.few_rows(b"", b"", FewWanted(100, 1 << 20, Reading.CACHED)) is None
    with lone.region.scan(ScanPlan(newest_rows=True), reading=lambda: Reading.CACHED) as (_, answers):
        rows = [row for answer in answers for row in answer.table.column("row").to_pylist()]
    assert len(rows) == 900
    lone.stop()
