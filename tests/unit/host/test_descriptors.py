"""A server without a free descriptor, and files that are removed while they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DiskFullError,
    FamilyNotFoundError,
    NotServingRegionError,
    TableNotFoundError,
    TooManyOpenFilesError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    ColumnSelector,
    Put,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.read_path import ReadPath
from rowlock_regionserver.wal.segment import PREALLOCATED_NAME

from tests.unit.region.conftest import Engine, bulk_batch
from tests.unit.region.lone_region import LoneRegion, Step
from tests.waiting import WAIT_S, wait_until

T = TypeVar("T")
SEGMENT_BYTES = 1 << 16
# The time limit for a thread that was not woken, as in a broken build.
_WOKEN_SECONDS = 30.0


class ScarceFiles(Files):
    """A system that has no descriptor for these calls while `is_scarce`."""

    def __init__(self) -> None:
        self.is_scarce = False
        self.refused_count = 0
        self.may_make_segment = threading.Event()
        self.may_make_segment.set()

    def with_descriptor(self, path: Path, call: Callable[[], T]) -> T:
        if path.name == PREALLOCATED_NAME:
            assert self.may_make_segment.wait(WAIT_S)
        if self.is_scarce:
            self.refused_count += 1
            raise TooManyOpenFilesError(f"no descriptor for {path}", retry_after_ms=1)
        return super().with_descriptor(path, call)


@pytest.fixture
def files() -> ScarceFiles:
    return ScarceFiles()


@pytest.fixture
def engine(tmp_path: Path, files: ScarceFiles) -> Iterator[Engine]:
    config = Config(
        log_segment_bytes=SEGMENT_BYTES,
        bulk_file_bytes_min=4096,
        open_store_files_max=1,
        block_cache_bytes=0,
        block_cache_bytes_max=0,
        scan_window_bytes=500,
    )
    running = Engine(tmp_path, config, Clock(), files, Durability.OS)
    yield running
    files.is_scarce = False
    files.may_make_segment.set()
    running.server.stop()
    assert not running.fatal


def filled(engine: Engine, count: int = 40) -> None:
    for row in range(count):
        engine.change(b"%03d" % row, Put(b"f", b"q", b"v" * 100), Put(b"g", b"q", b"w" * 100))
    engine.server.flush("t")


def store_files(engine: Engine) -> list[str]:
    return sorted(path.name for path in (engine.folder / "regions").rglob("*.store"))


def test_a_flush_without_a_descriptor_changes_nothing_and_is_tried_again(engine: Engine, files: ScarceFiles) -> None:
    engine.change(b"r", Put(b"f", b"q", b"v"))
    files.is_scarce = True
    for _ in range(3):
        with pytest.raises(TooManyOpenFilesError):
            engine.server.flush("t")
    assert engine.values(b"r") == {b"f:q": b"v"}
    assert store_files(engine) == []
    files.is_scarce = False
    assert engine.server.flush("t").store_file_count == 1
    engine.crash()
    assert engine.values(b"r") == {b"f:q": b"v"}


def test_the_flush_thread_goes_on_when_there_are_descriptors(tmp_path: Path, files: ScarceFiles) -> None:
    engine = Engine(tmp_path, Config(memstore_flush_bytes=20_000), Clock(), files, Durability.OS)
    files.is_scarce = True
    for row in range(100):
        engine.change(b"%03d" % row, Put(b"f", b"q", b"v" * 100))
    wait_until(lambda: files.refused_count > 2)
    files.is_scarce = False
    engine.change(b"more", Put(b"f", b"q", b"v" * 20_000))
    wait_until(lambda: bool(store_files(engine)))
    assert not engine.fatal
    engine.server.stop()


@pytest.fixture
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock_regionserver.wal.preallocated.RETRY_SECONDS", 0.01)


@pytest.mark.usefixtures("_retry_soon")
def test_a_log_that_can_not_open_its_next_segment_refuses_writes_until_it_can(
    engine: Engine, files: ScarceFiles
) -> None:
    """The log tries when its segment is half full. Until it has tried, it takes writes, so the test waits for that."""
    files.is_scarce = True
    engine.change(b"first", Put(b"f", b"q", b"v" * (SEGMENT_BYTES * 3 // 4)))
    wait_until(lambda: engine.server.statistics().log.is_full)
    with pytest.raises(DiskFullError):
        engine.change(b"refused", Put(b"f", b"q", b"v"))
    assert [row for row, *_ in engine.scan()] == [b"first"]
    files.is_scarce = False
    wait_until(lambda: not engine.server.statistics().log.is_full)
    engine.change(b"taken", Put(b"f", b"q", b"v" * SEGMENT_BYTES))
    assert not engine.fatal


@pytest.mark.usefixtures("_retry_soon")
def test_a_write_taken_before_the_log_finds_no_descriptor_waits_for_one_and_completes(
    engine: Engine, files: ScarceFiles
) -> None:
    """Writes reach the end of the segment before the thread that makes the next one has made its first try."""
    files.is_scarce = True
    files.may_make_segment.clear()
    outcomes: list[RowOutcome] = []
    mutation = RowMutation(b"r", (Put(b"f", b"q", b"v" * SEGMENT_BYTES),))  # needs a segment of its own
    options = WriteOptions(engine.clock.monotonic() + WAIT_S)
    assert engine.region.mutate([mutation], options, outcomes.extend, may_wait=True)
    assert not engine.server.statistics().log.is_full
    files.may_make_segment.set()
    wait_until(lambda: engine.server.statistics().log.is_full or bool(engine.fatal))
    assert not engine.fatal
    with pytest.raises(DiskFullError):
        engine.change(b"refused", Put(b"f", b"q", b"v"))
    refused_count = files.refused_count
    wait_until(lambda: files.refused_count > refused_count, _WOKEN_SECONDS)
    assert outcomes == []
    files.is_scarce = False
    wait_until(lambda: bool(outcomes), _WOKEN_SECONDS)
    assert isinstance(outcomes[0], RowResult)
    assert [row for row, *_ in engine.scan()] == [b"r"]


def test_table_operations_without_a_descriptor_change_nothing(engine: Engine, files: ScarceFiles) -> None:
    filled(engine, 1)
    files.is_scarce = True
    operations: list[Callable[[], object]] = [
        lambda: engine.server.create_table("u", [Family(0, b"f")]),
        lambda: engine.server.drop_table("t"),
        lambda: engine.server.truncate_table("t"),
        lambda: engine.server.alter_table("t", [Family(0, b"h")], [b"g"]),
    ]
    for operation in operations:
        with pytest.raises(TooManyOpenFilesError):
            operation()
    files.is_scarce = False
    with pytest.raises(TableNotFoundError):
        engine.server.table("u")
    assert [family.name for family in engine.server.table("t").families] == [b"f", b"g"]
    assert len(engine.scan()) == 2
    engine.restart()
    assert len(engine.scan()) == 2
    engine.server.create_table("u", [Family(0, b"f")])


def test_reads_and_bulk_batches_without_a_descriptor_can_be_tried_again(engine: Engine, files: ScarceFiles) -> None:
    filled(engine)
    files.close_idle()
    files.is_scarce = True
    for attempt in (lambda: engine.values(b"001"), engine.scan):
        with pytest.raises(TooManyOpenFilesError):
            attempt()
    with pytest.raises(TooManyOpenFilesError):
        engine.bulk(bulk_batch((b"r", b"f", b"q", None, b"v" * 5000)))
    files.is_scarce = False
    assert engine.values(b"001")
    assert len(engine.scan()) == 80


def test_a_rename_is_synced_also_after_a_wait_for_a_descriptor(engine: Engine, files: ScarceFiles) -> None:
    filled(engine)
    calls = 0

    def scarce_for_folders(path: Path, call: Callable[[], T]) -> T:
        nonlocal calls
        if path.is_dir() and calls < 5:
            calls += 1
            raise TooManyOpenFilesError("no descriptor")
        return call()

    files.with_descriptor = scarce_for_folders  # type: ignore[method-assign]  # for this one
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    assert calls == 5


@pytest.mark.parametrize("operation", ["drop", "truncate"])
def test_a_scan_reads_a_removed_table_to_its_end_and_then_its_files_go(engine: Engine, operation: str) -> None:
    filled(engine)
    before = store_files(engine)
    region = engine.region
    with region.scan(ScanPlan(batch_rows=1)) as (_, answers):
        next(answers)
        if operation == "drop":
            engine.server.drop_table("t")
        else:
            engine.server.truncate_table("t")
        assert store_files(engine) == before
        assert sum(answer.row_count for answer in answers) == 39
    assert store_files(engine) == []
    assert len(list((engine.folder / "regions").iterdir())) == (operation == "truncate")
    with pytest.raises(NotServingRegionError):
        region.scan(ScanPlan())


def test_a_removed_region_is_never_read_as_an_empty_one(tmp_path: Path) -> None:
    """By whom was let in just before: the region is closed, and what it served is gone."""
    lone = LoneRegion(tmp_path)
    lone.change(b"001", Put(b"f", b"q", b"v"))
    lone.flush()
    reads = ReadPath(lone.parts)
    scan = reads.scan(ScanPlan())
    lone.region.close_for_removal()
    lone.region.discard()
    with pytest.raises(NotServingRegionError):
        reads.get([b"001"], ScanPlan().selection, may_wait=True)
    with pytest.raises(NotServingRegionError), scan as (_, answers):
        list(answers)
    lone.log.close()


def test_a_scan_that_reads_all_goes_on_without_a_dropped_family_and_its_files_go(engine: Engine) -> None:
    filled(engine)
    with engine.region.scan(ScanPlan(batch_rows=1)) as (_, answers):
        assert next(answers).table.num_rows == 2
        engine.server.alter_table("t", drop_families=[b"g"])
        rest = [answer.table.column("family").to_pylist() for answer in answers]
        assert rest[-1] == [b"f"]
        assert len(rest) == 39
    assert [name[:2] for name in store_files(engine)] == ["1-"]
    engine.restart()
    assert len(engine.scan()) == 40


def test_a_dropped_table_without_readers_leaves_no_file(engine: Engine) -> None:
    filled(engine)
    engine.server.drop_table("t")
    assert list((engine.folder / "regions").iterdir()) == []
    with pytest.raises(TableNotFoundError):
        engine.server.table("t")
    engine.server.create_table("t", [Family(0, b"f"), Family(0, b"g")])


def test_a_get_is_answered_by_the_families_that_it_was_judged_by(lone: LoneRegion) -> None:
    """An alter comes between the two: the get is refused, and not answered as if the family were empty."""
    lone.change(b"001", Put(b"f", b"q", b"v"), Put(b"g", b"q", b"w"))
    lone.steps.at_next(Step.READ_POINT, lambda: lone.alter(drop_families=[b"g"]))
    with pytest.raises(FamilyNotFoundError):
        lone.region.get([b"001"], Selection((ColumnSelector(b"g"),)), may_wait=True)
    assert lone.values(b"001") == {b"f:q": b"v"}


def test_descriptors_that_are_read_from_stay_open_beside_a_flood_of_others(engine: Engine) -> None:
    for _ in range(6):
        filled(engine, 10)
    wrong: list[int] = []

    def read() -> None:
        for _ in range(10):
            if len(engine.scan()) != 20:
                wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert engine.server.statistics().open_files.open_count <= 1
