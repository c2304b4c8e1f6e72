"""Gets and puts on rows of very many cells: what they read, and that nothing slow runs on the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import Durability, Family, ReadPoint
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import AnyCell
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnComparison,
    ColumnSelector,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RowMutation,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.mutate import row_state
from rowlock_regionserver.scan import point, row_parts
from rowlock_regionserver.versions.visibility import visible_cells

from tests.waiting import WAIT_S

from .conftest import bulk_batch
from .lone_region import LoneRegion

COLUMNS = 30_000
HOT = 21_000  # the column that is put later
LONG = b"long"


@pytest.fixture
def config(config: Config) -> Config:
    return replace(config, block_cache_bytes=0, request_bytes_max=4 << 20)


def column(number: int) -> bytes:
    return b"%06d" % number


@pytest.fixture(params=["memstore", "bulk", "file"])
def long_row(request: pytest.FixtureRequest, tmp_path: Path, config: Config) -> Iterator[LoneRegion]:
    """A row of COLUMNS columns, of which one was put later, in one kind of source."""
    lone = LoneRegion(tmp_path, config, Clock(), Files(), Durability.OS)
    if request.param == "bulk":
        lone.bulk(bulk_batch(*[(LONG, b"f", column(number), 5, b"v" * 20) for number in range(COLUMNS)]))
    else:
        for first in range(0, COLUMNS, 10_000):
            lone.change(LONG, *[Put(b"f", column(number), b"v" * 20, 5) for number in range(first, first + 10_000)])
    lone.change(LONG, Put(b"f", column(HOT), b"newest"))
    if request.param == "file":
        lone.flush()
    yield lone
    lone.stop()
    assert not lone.fatal


class Touched:
    """Counts the cells that requests read, one by one or in parts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lone: LoneRegion) -> None:
        self.cells = 0
        self._runs = [run for store in lone.parts.stores.all() for file in store.files for run in file.runs]
        self._blocks_before = self._blocks()

        def counted(cells: Sequence[AnyCell], read_point: ReadPoint, family: Family) -> list[AnyCell]:
            self.cells += len(cells)
            return visible_cells(cells, read_point, family)

        monkeypatch.setattr(point, "visible_cells", counted)
        monkeypatch.setattr(row_state, "visible_cells", counted)

        whole = row_parts.row_parts

        def counted_parts(*arguments: object) -> Iterator[object]:
            for part in whole(*arguments):  # type: ignore[arg-type]  # handed on as they came
                self.cells += len(part) if isinstance(part, SortedRun) else len(part.cells)
                yield part

        monkeypatch.setattr(row_parts, "row_parts", counted_parts)

    def _blocks(self) -> int:
        return sum(run.statistics().block_read_count for run in self._runs)

    @property
    def blocks(self) -> int:
        return self._blocks() - self._blocks_before


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch, long_row: LoneRegion) -> Touched:
    return Touched(monkeypatch, long_row)


def options() -> WriteOptions:
    return WriteOptions(time.monotonic() + WAIT_S)


def test_a_get_of_few_columns_touches_few_cells_and_blocks(long_row: LoneRegion, touched: Touched) -> None:
    wanted = (b"", column(0), column(HOT), column(COLUMNS - 1), b"none")
    selection = Selection(tuple(ColumnSelector(b"f", qualifier) for qualifier in wanted))
    answer = long_row.region.get([LONG], selection, may_wait=True)
    assert answer is not None
    assert [(cell[1], cell[3]) for cell in answer[0]] == [
        (column(0), b"v" * 20),
        (column(HOT), b"newest"),
        (column(COLUMNS - 1), b"v" * 20),
    ]
    assert touched.cells <= 5
    assert touched.blocks <= 5 * 6, "of some 20 blocks, and nothing is cached"


def test_a_get_of_few_columns_is_made_at_once_and_one_of_the_row_is_not(long_row: LoneRegion) -> None:
    has_files = long_row.parts.stores.has_files
    few = Selection((ColumnSelector(b"f", column(HOT)),))
    assert (long_row.region.get([LONG], few, may_wait=False) is None) == has_files
    for selection in (
        Selection(),
        Selection((ColumnSelector(b"f"),)),
        Selection(cells=CellFilter(first_key_only=True)),
        Selection(tuple(ColumnSelector(b"f", column(number)) for number in range(2000))),
    ):
        assert long_row.region.get([LONG], selection, may_wait=False) is None
    long_row.change(b"short", Put(b"f", b"q", b"v"))
    assert long_row.region.get([b"short"] * 64, Selection(), may_wait=False) is not None


def test_a_long_row_is_returned_completely(long_row: LoneRegion) -> None:
    cells = long_row.cells(LONG)
    assert [cell[1] for cell in cells] == [column(number) for number in range(COLUMNS)]
    assert {cell[3] for cell in cells} == {b"v" * 20, b"newest"}
    judged = ColumnComparison(b"f", column(HOT), CompareOp.EQUAL, b"newest")
    found = long_row.region.get([LONG, LONG], Selection(where=judged, cells=CellFilter(keys_only=True)), may_wait=True)
    assert found is not None
    assert [len(row) for row in found] == [COLUMNS, COLUMNS]
    other = replace(judged, operand=b"old")
    assert long_row.region.get([LONG], Selection(where=other), may_wait=True) == [[]]


@pytest.mark.parametrize(
    "cells",
    [
        CellFilter(first_key_only=True),
        CellFilter(keys_only=True, cell_offset=3, cell_limit=5),
        CellFilter(qualifier_prefix=b"0210"),
        CellFilter(qualifier_start=column(HOT), qualifier_stop=column(HOT + 10)),
    ],
)
def test_a_page_or_range_of_a_long_row_touches_no_more_than_a_part(
    long_row: LoneRegion, touched: Touched, cells: CellFilter
) -> None:
    answer = long_row.region.get([LONG], Selection(cells=cells), may_wait=True)
    assert answer is not None
    assert len(answer[0]) <= 100
    assert touched.cells < COLUMNS / 3
    assert touched.blocks < 40


def test_a_row_larger_than_an_answer_is_refused_before_it_is_read_completely(
    long_row: LoneRegion, touched: Touched
) -> None:
    for number in range(4):
        long_row.change(LONG, *[Put(b"g", b"%d%06d" % (number, place), b"x" * 500) for place in range(5000)])
    with pytest.raises(LimitExceededError):
        long_row.region.get([LONG], Selection((ColumnSelector(b"g"),)), may_wait=True)
    assert touched.cells < 15_000


@pytest.mark.parametrize("existence", [Existence.ABSENT, Existence.PRESENT])
def test_existence_is_judged_by_the_first_live_cell(
    long_row: LoneRegion, touched: Touched, existence: Existence
) -> None:
    result = long_row.change(LONG, Put(b"g", b"q", b"v"), condition=Condition(existence=existence))
    assert result.condition_met == (existence is Existence.PRESENT)
    assert touched.cells < 5000
    assert touched.blocks <= 8


def test_existence_in_a_long_row_is_judged_by_a_worker(long_row: LoneRegion) -> None:
    create = RowMutation(LONG, (Put(b"g", b"q", b"v"),), Condition(existence=Existence.ABSENT))
    assert not long_row.region.mutate([create], options(), lambda _: None, may_wait=False)
    assert (
        long_row.region.mutate([create._replace(row=b"short")], options(), lambda _: None, may_wait=False)
        or long_row.parts.stores.has_files
    )


def test_a_long_row_of_deleted_cells_does_not_exist(long_row: LoneRegion) -> None:
    long_row.change(LONG, Delete(DeleteKind.ROW))
    assert long_row.change(LONG, Put(b"g", b"q", b"v"), condition=Condition(existence=Existence.ABSENT)).condition_met
    assert long_row.values(LONG) == {b"g:q": b"v"}
    long_row.change(LONG, Put(b"f", column(COLUMNS), b"last"), Delete(DeleteKind.FAMILY, b"g"))
    present = Condition(existence=Existence.PRESENT)
    assert long_row.change(LONG, Put(b"f", b"q", b"v"), condition=present).condition_met


def test_a_counter_in_a_long_row_is_counted_at_once(long_row: LoneRegion) -> None:
    count = RowMutation(LONG, (Increment(b"f", b"counter", 1),))
    is_done = long_row.region.mutate([count], options(), lambda _: None, may_wait=False)
    assert is_done or long_row.parts.stores.has_files


def test_large_values_of_versions_that_are_not_answered_are_not_copied(tmp_path: Path, config: Config) -> None:
    lone = LoneRegion(tmp_path, config, Clock(), Files(), Durability.OS)
    for number in range(20):
        lone.change(b"r", Put(b"f", b"q", b"%02d" % number * 100_000))
        lone.flush()
    files = lone.parts.stores.of(1).files
    assert len(files) == 20
    assert lone.values(b"r") == {b"f:q": b"19" * 100_000}
    # Each version's key was read, with its block; of one the value.
    assert [run.statistics().block_read_count for file in files for run in file.runs] == [2] + [1] * 19
    assert [cell[4] for cell in lone.scan()] == [b"19" * 100_000]
    assert lone.change(b"r", Put(b"f", b"n", b"v"), condition=Condition(existence=Existence.PRESENT)).condition_met
    lone.stop()
