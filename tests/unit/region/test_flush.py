"""Flush: what it writes to store files, what stays readable, and the state after a failure."""

from __future__ import annotations

import errno
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.row_segment import PRUNE_CELLS_MIN
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put, ScanPlan, Selection
from rowlock_regionserver.region import flush
from rowlock_regionserver.region.background_pacing import Permit
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.sources import Source
from rowlock_regionserver.versions.retention import Retention

from tests.unit.scan.whole_scans import all_rows_at
from tests.waiting import WAIT_S

from .conftest import Engine, bulk_batch
from .lone_region import REGION_ID, LoneRegion, Step


def test_a_flush_makes_one_store_file_a_family_and_empties_the_memstore(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"2"))
    result = engine.server.flush("t")
    statistics = engine.region.statistics()
    assert (result.store_file_count, result.cell_count) == (2, 2)
    assert (statistics.store_file_count, statistics.memstore_bytes) == (2, 0)
    assert engine.values(b"r") == {b"f:q": b"1", b"g:q": b"2"}


def test_only_the_list_of_pieces_holds_flushed_cells_when_they_are_freed(lone: LoneRegion) -> None:
    """Else all cells are freed in one stretch, and every other thread waits for that."""
    lone.change(b"r", Put(b"f", b"q", b"1"))
    segments = [weakref.ref(store.memstore.active) for store in lone.parts.stores.all()]
    held: list[bool] = []
    lone.steps.at_next(Step.FREED, lambda: held.extend(segment() is not None for segment in segments))
    lone.flush()
    assert held == [False, False]


def test_a_counter_whose_row_was_deleted_once_stays_short_in_memory_and_in_files(lone: LoneRegion) -> None:
    lone.change(b"r", Delete(DeleteKind.ROW))
    for _ in range(5 * PRUNE_CELLS_MIN):
        lone.change(b"r", Increment(b"f", b"n", 1))
    store = lone.parts.stores.of(lone.table.by_name[b"f"].number)
    assert store.memstore.active.cell_count <= 2 * PRUNE_CELLS_MIN
    lone.flush()
    assert lone.region.statistics().store_file_cells == 1, "more than the counter"
    assert lone.values(b"r") == {b"f:n": (5 * PRUNE_CELLS_MIN).to_bytes(8, "big")}


def test_a_flush_keeps_tombstones_only_if_older_files_may_have_what_they_hide(lone: LoneRegion) -> None:
    lone.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"1"))
    lone.change(b"r", Delete(DeleteKind.FAMILY, b"f"))
    assert lone.flush().cell_count == 1, "more than the put in g"
    lone.change(b"r", Delete(DeleteKind.ROW))
    assert lone.flush().cell_count == 1, "other than the tombstone in g"
    assert lone.scan() == []


def test_a_flush_keeps_tombstones_after_a_registered_read_point(lone: LoneRegion) -> None:
    lone.change(b"r", Put(b"f", b"q", b"1"))
    read_point = lone.region.open_read_point()
    before = lone.scan()
    lone.change(b"r", Delete(DeleteKind.FAMILY, b"f"))
    assert lone.flush().cell_count == 2
    assert lone.scan() == []
    with lone.region.scan(ScanPlan(), all_rows_at(read_point)) as (_, answers):
        assert [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()] == before
    lone.region.close_read_point(read_point)


@pytest.mark.parametrize("min_versions", [0, 1])
def test_a_flush_drops_cells_that_have_expired_for_every_reader(tmp_path: Path, min_versions: int) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, clock=clock)
    lone.alter([Family(0, b"f", versions=2, min_versions=min_versions, time_to_live_ms=1000)])
    lone.change(b"r", Put(b"f", b"q", b"1"))
    read_point = lone.region.open_read_point()
    clock.advance(1000)
    assert lone.flush().cell_count == 1, "the reader sees it"
    lone.region.close_read_point(read_point)
    lone.change(b"s", Put(b"f", b"q", b"2"))
    clock.advance(999)
    lone.change(b"s", Put(b"f", b"p", b"3"))
    clock.advance(1)
    assert lone.flush().cell_count == (2 if min_versions else 1)
    lone.stop()


def test_a_longer_time_to_live_does_not_bring_back_what_was_deleted(tmp_path: Path) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, clock=clock)
    lone.alter([Family(0, b"f", time_to_live_ms=1000)])
    lone.change(b"r", Put(b"f", b"q", b"1"))
    lone.flush()
    lone.change(b"r", Delete(DeleteKind.FAMILY, b"f"))
    clock.advance(2000)
    lone.flush()
    lone.alter([Family(0, b"f")])
    assert lone.scan() == []
    lone.stop()


def test_a_second_flush_of_nothing_makes_no_file(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"1"))
    engine.server.flush("t")
    assert engine.server.flush("t").store_file_count == 0


def test_files_of_several_flushes_are_there_after_a_restart(engine: Engine) -> None:
    for row in (b"a", b"b", b"c"):
        engine.change(row, Put(b"f", b"q", b"1"))
        engine.server.flush("t")
    engine.restart()
    assert engine.region.statistics().store_file_count == 3
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b", b"c"]


def test_an_open_scan_continues_at_its_read_point_during_a_flush(tmp_path: Path) -> None:
    # Windows so small that most of the rows are read after the flush.
    engine = Engine(tmp_path, Config(scan_window_bytes=500), Clock(), Files(), Durability.OS)
    for i in range(100):
        engine.change(b"%03d" % i, Put(b"f", b"q", b"old"))
    with engine.region.scan(ScanPlan(batch_rows=10)) as (_, answers):
        seen = next(answers).table.num_rows
        for i in range(100):
            engine.change(b"%03d" % i, Put(b"f", b"q", b"new"))
        engine.server.flush("t")
        for answer in answers:
            assert set(answer.table.column("value").to_pylist()) == {b"old"}
            seen += answer.table.num_rows
    assert seen == 100
    assert {cell[4] for cell in engine.scan()} == {b"new"}
    engine.server.stop()


def test_a_flush_drops_versions_that_no_reader_can_see(engine: Engine) -> None:
    for i in range(50):
        engine.change(b"r", Put(b"f", b"q", b"%d" % i))
    assert engine.server.flush("t").cell_count == 1


def test_answers_never_depend_on_what_has_been_flushed(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"a", 100))
    engine.server.flush("t")
    engine.change(b"r", Put(b"f", b"q", b"b", 200))
    engine.change(b"r", Delete(DeleteKind.VERSION, b"f", b"q", 200))
    engine.server.flush("t")
    assert engine.values(b"r") == {}
    engine.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"q", 500))
    engine.server.flush("t")
    engine.change(b"r", Put(b"f", b"q", b"c", 50))
    assert engine.values(b"r") == {b"f:q": b"c"}


def test_a_region_that_was_only_opened_is_not_written_again(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(), Clock(), Files(), Durability.OS)
    engine.change(b"a", Put(b"f", b"q", b"1"))
    engine.restart()
    folder = tmp_path / "regions" / str(engine.region.region_id)
    before = sorted(folder.iterdir())
    engine.restart()
    assert sorted(folder.iterdir()) == before
    engine.change(b"b", Put(b"f", b"q", b"2"))
    engine.restart()
    assert sorted(folder.iterdir()) != before
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    engine.crash()
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    engine.change(b"c", Put(b"f", b"q", b"3"))
    engine.crash()  # What the log brought is flushed, though nothing was written since.
    assert engine.server.flush("t").cell_count == 1
    engine.server.stop()


class FullDisk(Files):
    """A disk that refuses renames to these names while it is full."""

    def __init__(self, names: str) -> None:
        self.names = names
        self.is_full = False
        self.full_after: int | None = None  # so many more of these renames

    def rename(self, source: Path, target: Path) -> None:
        if self.full_after is not None and target.match(self.names):
            self.is_full = self.is_full or not self.full_after
            self.full_after -= 1
        if self.is_full and target.match(self.names):
            raise OSError(errno.ENOSPC, "No space left on device")
        super().rename(source, target)


@pytest.mark.parametrize("names", ["*.store", "manifest-*"])
def test_a_flush_without_space_loses_nothing_and_the_next_one_takes_all(tmp_path: Path, names: str) -> None:
    files = FullDisk(names)
    engine = Engine(tmp_path, Config(), Clock(), files, Durability.OS)
    engine.change(b"a", Put(b"f", b"q", b"1"))
    files.is_full = True
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    engine.change(b"b", Put(b"f", b"q", b"2"))
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    files.is_full = False
    assert engine.server.flush("t").cell_count == 2
    engine.restart()
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    engine.server.stop()
    assert engine.fatal == []


@pytest.mark.parametrize("names", ["*.store", "manifest-*"])
def test_flushes_that_fail_again_and_again_leave_one_sealed_segment(tmp_path: Path, names: str) -> None:
    files = FullDisk(names)
    engine = Engine(tmp_path, Config(), Clock(), files, Durability.OS)
    files.is_full = True
    for i in range(20):
        engine.change(b"%02d" % i, Put(b"f", b"q", b"v"), Put(b"g", b"q", b"v"))
        with pytest.raises(DiskFullError):
            engine.server.flush("t")
    assert engine.region.segment_count == 1
    assert len(engine.scan()) == 40
    files.is_full = False
    result = engine.server.flush("t")
    assert (result.store_file_count, result.cell_count) == (4, 40)
    assert engine.region.statistics().memstore_bytes == 0
    before = engine.scan()
    engine.crash()
    assert engine.scan() == before
    engine.server.stop()
    assert engine.fatal == []


def test_what_a_failed_flush_sealed_is_flushed_even_if_the_newer_cells_fail(tmp_path: Path) -> None:
    files = FullDisk("manifest-*")
    engine = Engine(tmp_path, Config(bulk_file_bytes_min=1000), Clock(), files, Durability.OS)
    engine.change(b"a", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"1"))
    files.is_full = True
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    # All of these come later: they may not be taken for what the failed flush had sealed.
    engine.change(b"b", Put(b"f", b"q", b"2"), Put(b"g", b"q", b"2"))
    engine.bulk(bulk_batch(*[(b"c%06d" % i, b"f", b"q", None, b"v" * 50) for i in range(200)]))
    engine.server.alter_table("t", drop_families=[b"g"])
    engine.change(b"d", Put(b"f", b"q", b"4"))
    before = engine.scan()
    files.is_full, files.full_after = False, 1
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    assert engine.region.statistics().store_file_cells == 1
    assert engine.scan() == before
    engine.crash()
    assert engine.scan() == before
    files.is_full, files.full_after = False, None
    assert engine.server.flush("t").cell_count == 202
    assert engine.scan() == before
    engine.server.stop()
    assert engine.fatal == []


@pytest.mark.parametrize("names", ["*.store", "manifest-*"])
def test_after_a_flush_without_space_a_crash_loses_nothing(tmp_path: Path, config: Config, names: str) -> None:
    files = FullDisk(names)
    engine = Engine(tmp_path, config, Clock(), files, Durability.OS)
    engine.change(b"a", Put(b"f", b"q", b"1"))
    engine.bulk(bulk_batch(*[(b"b%06d" % i, b"g", b"q", None, b"v" * 50) for i in range(200)]))
    before = engine.scan()
    files.is_full = True
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    engine.crash()
    assert engine.server.damaged_regions() == {}
    assert engine.scan() == before
    files.is_full = False
    engine.server.stop()


def test_a_region_that_pins_too_much_log_pins_nothing_after_a_flush(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=16 << 10, log_segment_count_max=2))
    assert lone.log.regions_that_pin() == []
    while lone.log.statistics().segment_count <= 2:
        lone.change(b"r", Put(b"f", b"q", b"v" * 1000))
    assert lone.log.regions_that_pin() == [REGION_ID]
    lone.flush()
    assert lone.log.regions_that_pin() == []
    lone.stop()


def test_regions_are_flushed_automatically_when_they_hold_too_much(tmp_path: Path) -> None:
    config = Config(memstore_flush_bytes=50_000)
    engine = Engine(tmp_path, config, Clock(), Files(), Durability.OS)
    deadline = time.monotonic() + WAIT_S
    i = 0
    while engine.region.statistics().store_file_count < 3:
        engine.change(b"%06d" % i, Put(b"f", b"q", b"v" * 500))
        i += 1
        assert time.monotonic() < deadline
    assert len(engine.scan()) == i
    engine.server.stop()


def test_rows_are_never_seen_in_part_while_the_memstore_is_flushed_continuously(engine: Engine) -> None:
    columns = [b"%02d" % i for i in range(10)]
    stop = threading.Event()
    failures: list[object] = []

    def write() -> None:
        for number in range(150):
            value = b"%06d" % number
            engine.change(b"r", *[Put(family, column, value) for family in (b"f", b"g") for column in columns])
        stop.set()

    def read() -> None:
        before = b""
        while not stop.is_set():
            answer = engine.region.get([b"r"], Selection(), may_wait=True)
            assert answer is not None
            values = {cell[3] for cell in answer[0]}
            if len(values) > 1 or (values and min(values) < before) or len(answer[0]) not in (0, 20):
                failures.append((before, answer))
            before = min(values, default=before)

    def flush() -> None:
        while not stop.is_set():
            engine.server.flush("t")

    threads = [threading.Thread(target=target) for target in (write, read, read, flush)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failures


def test_a_flush_after_all_its_cells_were_dropped_writes_nothing(engine: Engine) -> None:
    engine.change(b"r", Put(b"g", b"q", b"v"))
    engine.server.alter_table("t", drop_families=[b"g"])
    assert engine.server.flush("t").store_file_count == 0
    engine.change(b"r", Put(b"f", b"q", b"v"))
    assert engine.server.flush("t").store_file_count == 1


def test_a_flush_reads_windows_of_the_configured_size_and_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    given_way: list[Permit] = []
    monkeypatch.setattr(Permit, "yield_now", lambda turn: given_way.append(turn))

    def recorded(
        sources: Sequence[Source],
        retention: Retention,
        versions: int,
        bytes_max: int,
        merge_bytes_max: int,
        *,
        lines_bytes: int,
        between: Callable[[], None],
    ) -> Iterator[pa.Table | Lines]:
        asked.append((bytes_max, merge_bytes_max, lines_bytes))
        return retained_tables(
            sources, retention, versions, bytes_max, merge_bytes_max, lines_bytes=lines_bytes, between=between
        )

    monkeypatch.setattr(flush, "retained_tables", recorded)
    config = Config(flush_window_bytes=4000, flush_merge_window_bytes=10_000, bulk_file_bytes_min=0)
    engine = Engine(tmp_path, config, Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.bulk(bulk_batch((b"s", b"f", b"q", None, b"v")))
    engine.server.flush("t")
    assert asked[0] == (4000, 10_000, 10_000)
    assert given_way
    assert len(engine.scan()) == 2
    engine.server.stop()
