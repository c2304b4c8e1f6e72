"""Gets of rows that are a line of one store file or of one batch: the answer is the same, by a shorter way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.memstore import memstore
from rowlock_regionserver.operations import (
    EVERYTHING,
    ColumnPresence,
    ColumnSelector,
    Delete,
    DeleteKind,
    Put,
    Selection,
)
from rowlock_regionserver.region import read_path
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.stores import INLINE_CELLS_MAX
from rowlock_regionserver.row_line import RowLine

from tests.seeds import drawn_seed

from .conftest import Engine
from .lone_region import LoneRegion
from .row_batches import Row, row_batch

COLUMNS = (b"a", b"b", b"c")


def puts(value: bytes, columns: tuple[bytes, ...] = COLUMNS) -> list[Put]:
    return [Put(b"f", column, value + column) for column in columns]


def got(lone: LoneRegion | Engine, row: bytes) -> object:
    """The answer of a get on the event loop, where the block of each file is in memory."""
    assert lone.region.get([row], EVERYTHING, may_wait=True) is not None
    answer = lone.region.get([row], EVERYTHING, may_wait=False)
    assert answer is not None
    return answer[0]


def put_batch(values: Mapping[bytes, bytes], columns: tuple[bytes, ...] = COLUMNS) -> PutBatch:
    """Puts in columns that write what `puts` does."""
    rows: list[Row] = [(row, None, [value + column for column in columns]) for row, value in values.items()]
    return PutBatch(row_batch([(b"f", column) for column in columns], rows))


def write_rows(lone: LoneRegion, source: str) -> None:
    """Writes rows r0 to r8, each of them a line of the source, which is a file or a batch."""
    values = {b"r%d" % number: b"%d" % number for number in range(9)}
    if source == "batch":
        lone.put_rows(put_batch(values))
    else:
        for row, value in values.items():
            lone.change(row, *puts(value))
        lone.flush()


in_each_source = pytest.mark.parametrize("source", ["file", "batch"])


@pytest.fixture(params=["file", "batch"])
def written(request: pytest.FixtureRequest, lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> LoneRegion:
    """Has rows r0 to r8, each of them a line. A busy machine may take long to load their block."""
    monkeypatch.setattr(read_path, "_LOADING_SECONDS_MAX", 60)
    write_rows(lone, request.param)
    return lone


def test_a_row_that_is_one_line_is_answered_as_one(written: LoneRegion) -> None:
    line = got(written, b"r3")
    assert isinstance(line, RowLine)
    assert line == written.cells(b"r3")
    assert line[0] == written.cells(b"r3")[0]
    assert line[1:] == written.cells(b"r3")[1:]
    assert line.byte_count == len(b"fa3afb3bfc3c")
    assert got(written, b"r33") == []


def test_what_is_newer_in_memory_or_in_a_file_is_seen(written: LoneRegion) -> None:
    written.change(b"r3", Put(b"f", b"b", b"memory"))
    assert not isinstance(got(written, b"r3"), RowLine)
    assert [cell[3] for cell in written.cells(b"r3")] == [b"3a", b"memory", b"3c"]
    assert got(written, b"r3") == written.cells(b"r3")
    assert isinstance(got(written, b"r4"), RowLine), "another row is in memory"
    written.flush()
    assert got(written, b"r3") == written.cells(b"r3")
    written.change(b"r4", Delete(DeleteKind.ROW))
    assert got(written, b"r4") == []
    written.flush()
    assert got(written, b"r4") == []


def test_a_row_with_cells_in_two_families_has_both(written: LoneRegion) -> None:
    written.change(b"r5", Put(b"g", b"a", b"of g"))
    assert got(written, b"r5") == written.cells(b"r5")
    written.flush()
    assert got(written, b"r5") == written.cells(b"r5")
    assert len(written.cells(b"r5")) == 4


def test_a_row_with_several_versions_in_a_file_has_the_newest(lone: LoneRegion) -> None:
    for value in (b"old", b"new"):
        for row in (b"r1", b"r2", b"r3"):
            lone.change(row, *[Put(b"g", column, value) for column in COLUMNS])
    lone.flush()
    assert [cell[3] for cell in lone.cells(b"r2")] == [b"new"] * 3
    assert got(lone, b"r2") == lone.cells(b"r2")


def test_rows_without_some_of_the_columns_have_no_others(lone: LoneRegion) -> None:
    for number in range(9):
        lone.change(b"r%d" % number, *puts(b"v", COLUMNS if number % 2 else COLUMNS[1:]))
    lone.flush()
    assert [cell[1] for cell in lone.cells(b"r2")] == [b"b", b"c"]
    assert got(lone, b"r2") == lone.cells(b"r2")


def test_only_what_a_get_selects_is_answered(written: LoneRegion) -> None:
    for selection in (
        Selection(columns=(ColumnSelector(b"f", b"b"),)),
        Selection(columns=(ColumnSelector(b"g", None),)),
        Selection(time_stop=1),
        Selection(versions=2),
        Selection(where=ColumnPresence(b"f", b"absent", present=True)),
    ):
        expected = written.region.get([b"r3"], selection, may_wait=True)
        assert written.region.get([b"r3"], selection, may_wait=False) == expected
    assert expected == [[]]


def test_lines_of_too_many_cells_are_left_to_a_worker(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, clock=ManualClock())
    columns = tuple(b"%03d" % number for number in range(INLINE_CELLS_MAX * 2 // 5))
    for number in range(9):
        lone.change(b"r%d" % number, *puts(b"v", columns))
    lone.flush()
    assert isinstance(got(lone, b"r3"), RowLine)
    assert lone.region.get([b"r3"] * 2, EVERYTHING, may_wait=False) is not None
    assert lone.region.get([b"r3"] * 3, EVERYTHING, may_wait=False) is None
    lone.stop()


def test_a_get_of_many_rows_holds_what_one_of_them_needs(written: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, bytes]] = []

    def noting(name: str) -> None:
        call = getattr(read_path, name)

        def noted(view: object, row: bytes, *arguments: object) -> object:
            steps.append((name, row))
            return call(view, row, *arguments)

        monkeypatch.setattr(read_path, name, noted)

    noting("view_in_memory")
    noting("read_line")
    rows = [b"r3", b"r4", b"r5"]
    assert written.region.get(rows, EVERYTHING, may_wait=False) is not None
    assert steps == [(name, row) for row in rows for name in ("view_in_memory", "read_line")]


def test_an_answer_of_lines_has_the_same_limit(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, config=Config(request_bytes_max=1000), clock=ManualClock())
    for number in range(9):
        lone.change(b"r%d" % number, *puts(bytes(50)))
    lone.flush()
    assert isinstance(got(lone, b"r3"), RowLine)
    assert lone.region.get([b"r3"] * 6, EVERYTHING, may_wait=False) is not None
    with pytest.raises(LimitExceededError):
        lone.region.get([b"r3"] * 7, EVERYTHING, may_wait=False)
    lone.stop()


def test_a_line_that_was_written_after_the_read_point_is_not_seen(
    written: LoneRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A get takes its read point, and then come a put of a whole row, a flush, and the view."""
    usual = Mvcc.open_read_point

    def open_and_write(mvcc: Mvcc) -> ReadPoint:
        at = usual(mvcc)
        monkeypatch.undo()
        written.change(b"r99", *puts(b"later"))
        written.flush()
        return at

    assert got(written, b"r99") == []
    monkeypatch.setattr(type(written.parts.mvcc), "open_read_point", open_and_write)
    assert written.region.get([b"r99"], EVERYTHING, may_wait=False) in ([[]], None)
    assert isinstance(got(written, b"r99"), RowLine)


@in_each_source
def test_a_line_that_has_expired_is_not_seen(tmp_path: Path, source: str) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, clock=clock)
    lone.alter([Family(1, b"f", time_to_live_ms=1000)])
    write_rows(lone, source)
    clock.advance(999)
    assert len(lone.cells(b"r3")) == 3
    clock.advance(1)
    assert got(lone, b"r3") == []
    # Nor is it when nothing expires any more.
    lone.alter([Family(1, b"f")])
    assert got(lone, b"r3") == []
    lone.stop()


def test_gets_on_the_event_loop_answer_as_others_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random puts, batches, deletes and flushes; each row is read on the loop and by a worker's way of reading.

    Batches are not merged, so that there are enough for groups.
    """
    monkeypatch.setattr(memstore, "MERGED_COUNT_MIN", 1000)
    generator = random.Random(drawn_seed())
    kinds: Counter[str] = Counter()
    rows = [b"%02d" % number for number in range(30)]
    most_segments = 0
    for turn in range(12):
        columns = COLUMNS if not turn or generator.random() < 0.6 else tuple(sorted(generator.sample(COLUMNS, 2)))
        for row in rows:
            chance = generator.random()
            if chance < 0.6:
                engine.change(row, *puts(b"%d" % generator.randrange(100), columns))
            elif chance < 0.65 and turn:
                engine.change(row, Delete(DeleteKind.ROW))
        for _ in range(generator.randrange(12)):
            some = sorted(generator.sample(rows, generator.randint(1, 20)))
            engine.put_rows(put_batch({row: b"%d" % generator.randrange(100) for row in some}, columns))
            most_segments = max(most_segments, engine.region.segment_count)
        if not turn or generator.random() < 0.3:
            engine.server.flush("t")
        for row in rows:
            answer = got(engine, row)
            kinds[type(answer).__name__] += 1
            assert answer == engine.cells(row)
    assert kinds["RowLine"], kinds
    assert kinds["list"], kinds
    assert most_segments > 8
