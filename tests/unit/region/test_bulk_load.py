"""Bulk batches: arranged, applied atomically at one write number, and still there after a restart."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.memstore.row_segment import PRUNE_CELLS_MIN
from rowlock_regionserver.operations import Put, RequestId, RowMutation, ScanPlan, WriteOptions
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome, BulkResult

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

from .conftest import Engine, HeldFiles, bulk_batch
from .lone_region import LoneRegion, Step

Cell = tuple[bytes, bytes, bytes, int | None, bytes | None]
CLIENT = b"c" * 16


def many(count: int, value: bytes = b"v" * 50) -> list[Cell]:
    """Returns enough cells for a bulk file."""
    return [(b"%06d" % i, b"f", b"q", None, value) for i in range(count)]


@pytest.mark.parametrize("count", [3, 500])
def test_a_batch_is_one_write_and_is_read_back(engine: Engine, count: int) -> None:
    before = engine.region.statistics().read_point
    outcome = engine.bulk(bulk_batch(*many(count)))
    assert isinstance(outcome, BulkResult)
    assert (outcome.cell_count, outcome.row_count) == (count, count)
    assert engine.region.statistics().read_point == before + 1
    assert len(engine.scan()) == count
    assert engine.values(b"000002") == {b"f:q": b"v" * 50}


@pytest.mark.parametrize("count", [3, 500])
@pytest.mark.parametrize("ended", ["stopped", "flushed", "crashed"])
def test_a_batch_is_there_after_a_restart(engine: Engine, count: int, ended: str) -> None:
    engine.bulk(bulk_batch(*many(count)))
    scanned = engine.scan()
    if ended == "flushed":
        engine.server.flush("t")
    if ended == "stopped":
        engine.restart()
    else:
        engine.crash()
    assert engine.scan() == scanned


def test_a_put_after_a_deleting_batch_outlives_pruning_whatever_its_timestamp(engine: Engine) -> None:
    """The batch's tombstones are in another segment, where pruning of the active one does not see them."""
    row = b"000002"
    engine.change(row, Put(b"f", b"old", b"deleted", 2000))
    engine.bulk(bulk_batch((row, b"f", b"old", 2100, None), *many(500)))
    engine.change(row, Put(b"f", b"old", b"kept", 1000))
    engine.change(row, *(Put(b"f", b"%d" % i, b"v") for i in range(2 * PRUNE_CELLS_MIN)))
    assert engine.values(row)[b"f:old"] == b"kept"
    engine.crash()
    assert engine.values(row)[b"f:old"] == b"kept"


def test_a_bulk_file_goes_when_its_cells_are_in_store_files(engine: Engine) -> None:
    engine.bulk(bulk_batch(*many(500)))
    assert len(list((engine.folder / "bulk").iterdir())) == 1
    engine.server.flush("t")
    assert list((engine.folder / "bulk").iterdir()) == []


def test_a_batch_in_a_bulk_file_survives_crash_after_crash(engine: Engine, tmp_path: Path) -> None:
    """A copied folder is what a kill leaves: nothing is flushed. A restart once removed files that the log named."""
    engine.bulk(bulk_batch(*many(500)))
    for life in range(2):
        folder = tmp_path / f"life-{life}"
        shutil.copytree(engine.folder, folder, ignore=shutil.ignore_patterns("life-*", "again-*"))
        server = RegionServer.open(folder, engine.config, Clock(), Files(), engine.fatal.append)
        again = tmp_path / f"again-{life}"
        shutil.copytree(folder, again)
        server.stop()
        server = RegionServer.open(again, engine.config, Clock(), Files(), engine.fatal.append)
        assert server.damaged_regions() == {}
        assert rows_of(server) == 500
        server.stop()


def rows_of(server: RegionServer) -> int:
    (region,) = server.regions_of("t")
    with region.scan(ScanPlan()) as (_, answers):
        return sum(answer.row_count for answer in answers)


@pytest.mark.parametrize("durability", [Durability.ASYNC, Durability.OS, Durability.FSYNC])
def test_a_bulk_file_is_durable_before_a_later_sync_makes_its_record_so(tmp_path: Path, durability: Durability) -> None:
    disk = SimulatedFiles(tmp_path / "data")
    engine = Engine(disk.root, Config(bulk_file_bytes_min=4096), Clock(), disk, Durability.ASYNC)
    engine.mutate(RowMutation(b"a", (Put(b"f", b"q", b"v"),)), durability=Durability.FSYNC)
    engine.bulk(bulk_batch(*many(500)), durability=durability)
    engine.mutate(RowMutation(b"z", (Put(b"f", b"q", b"v"),)), durability=Durability.FSYNC)
    image = disk.power_failure(tmp_path / "image", Loss.ALL)
    engine.server.stop()
    server = RegionServer.open(image, Config(), Clock(), Files(), engine.fatal.append)
    assert server.damaged_regions() == {}
    assert rows_of(server) == 502
    server.stop()


@pytest.mark.parametrize("count", [3, 500])
def test_a_batch_that_is_not_logged_touches_no_file(tmp_path: Path, config: Config, count: int) -> None:
    disk = SimulatedFiles(tmp_path / "data")
    engine = Engine(disk.root, config, Clock(), disk, Durability.SKIP)
    calls: list[Call] = []
    disk.before_call = calls.append
    logged = engine.server.statistics().log.appended_records
    assert isinstance(engine.bulk(bulk_batch(*many(count))), BulkResult)
    assert [call for call in calls if "bulk" in call.path.relative_to(disk.root).parts] == []
    assert engine.server.statistics().log.appended_records == logged
    assert len(engine.scan()) == count
    engine.server.flush("t")
    engine.crash()
    assert len(engine.scan()) == count
    engine.server.stop()
    assert engine.fatal == []


def test_a_batch_that_is_not_logged_and_its_repetition_are_one(tmp_path: Path, config: Config) -> None:
    engine = Engine(tmp_path, config, Clock(), Files(), Durability.SKIP)
    batch, request = bulk_batch(*many(500)), RequestId(CLIENT, 1, 1)
    first = engine.bulk(batch, request)
    held = engine.region.statistics().memstore_bytes
    again = engine.bulk(batch, request)
    assert isinstance(first, BulkResult)
    assert isinstance(again, BulkResult)
    assert (first.repeated_request, again.repeated_request) == (False, True)
    assert first.timestamp == again.timestamp
    assert engine.region.statistics().memstore_bytes == held
    engine.server.stop()


def test_the_later_of_two_cells_with_one_key_and_timestamp_wins(engine: Engine) -> None:
    engine.bulk(bulk_batch((b"r", b"f", b"q", 5, b"a"), (b"r", b"f", b"q", 5, b"b"), (b"r", b"f", b"q", 4, b"c")))
    assert engine.values(b"r") == {b"f:q": b"b"}


@pytest.mark.parametrize("count", [2, 200])
def test_a_batch_is_put_in_order_by_its_stamp_and_not_by_a_clock_behind_it(
    tmp_path: Path, config: Config, count: int
) -> None:
    engine = Engine(tmp_path, config, ManualClock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.crash()  # Stamps go on past what was reserved, ahead of the clock.
    stamp = engine.change(b"r", Put(b"f", b"q", b"v")).timestamp
    assert stamp > engine.clock.now_ms()
    cells: list[Cell] = [(b"s", b"f", b"q", stamp, b"a"), (b"s", b"f", b"q", None, b"b")]
    for number in range(count):
        cells += [(b"%03d" % number, b"f", b"q", stamp, b"v" * 50), (b"%03d" % number, b"f", b"q", None, None)]
    engine.bulk(bulk_batch(*cells))
    assert [(row, value) for row, *_, value in engine.scan()] == [(b"r", b"v"), (b"s", b"b")]
    engine.server.stop()


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_is_in_order_for_a_stamp_that_it_gets_much_later(tmp_path: Path, config: Config, count: int) -> None:
    """Cells with a timestamp of their own, which passes while the batch is written and waits for the gate."""
    clock = ManualClock()
    lone = LoneRegion(tmp_path, config, clock, Files(), Durability.OS)
    now_ms = lone.change(b"before", Put(b"f", b"q", b"v")).timestamp
    clock.set_now_ms(now_ms)
    cells: list[Cell] = []
    for number in range(count):
        deleted, at_once, passed, met = (b"%03d %d" % (number, kind) for kind in range(4))
        cells += [(deleted, b"g", b"q", now_ms + 10, b"v" * 50), (deleted, b"g", b"q", None, None)]
        cells += [(at_once, b"g", b"q", now_ms, b"older"), (at_once, b"g", b"q", None, b"newer")]
        cells += [(passed, b"g", b"q", now_ms + 10, b"older"), (passed, b"g", b"q", None, b"newer")]
        cells += [(met, b"g", b"q", now_ms + 30, b"first"), (met, b"g", b"q", None, b"second")]
    lone.steps.at_next(Step.ALONE, lambda: clock.advance(30))
    outcome = lone.bulk(bulk_batch(*cells))
    stamp = now_ms + 30
    assert outcome == BulkResult(cell_count=6 * count, row_count=4 * count, timestamp=stamp)
    assert len(list((lone.folder / "bulk").iterdir())) == (count > 1)
    expected = {
        b"000 0": [],
        b"000 1": [(b"g", b"q", stamp, b"newer"), (b"g", b"q", now_ms, b"older")],
        b"000 2": [(b"g", b"q", stamp, b"newer"), (b"g", b"q", now_ms + 10, b"older")],
        b"000 3": [(b"g", b"q", stamp, b"second")],
    }
    assert {row: lone.cells(row, versions=3) for row in expected} == expected
    lone.crash()
    assert {row: lone.cells(row, versions=3) for row in expected} == expected
    lone.stop()


def test_a_batch_that_is_never_in_order_for_its_stamp_fails_at_its_deadline(tmp_path: Path, config: Config) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, config, clock, Files(), Durability.OS)
    lone.steps.at_each(Step.ALONE, lambda: clock.advance(30_000))
    until_ms = int(WAIT_S) * 1000 + 60_000
    ahead: list[Cell] = [(b"r", b"f", b"q", clock.now_ms() + ms, b"v") for ms in range(0, until_ms, 10_000)]
    with pytest.raises(DeadlineError):
        lone.bulk(bulk_batch(*ahead, (b"r", b"f", b"q", None, b"v" * config.bulk_file_bytes_min)))
    assert lone.scan() == []
    assert list((lone.folder / "bulk").iterdir()) == []
    lone.stop()


def test_cells_ahead_of_the_stamp_in_columns_where_all_have_timestamps_keep_no_batch_waiting(
    tmp_path: Path, config: Config
) -> None:
    """For example a forecast with some stamped cells: the stamp passes one of its timestamps each millisecond."""
    clock = ManualClock()
    lone = LoneRegion(tmp_path, config, clock, Files(), Durability.OS)
    lone.steps.at_each(Step.ALONE, lambda: clock.advance(1))
    first_ms = clock.now_ms()
    ahead: list[Cell] = [(b"r", b"f", b"t", first_ms + ms, b"v") for ms in range(1, 400)]
    outcome = lone.bulk(bulk_batch(*ahead, (b"r", b"f", b"q", None, b"v"), (b"r", b"g", b"t", None, b"v")))
    assert outcome == BulkResult(cell_count=401, row_count=1, timestamp=first_ms + 1)
    lone.stop()


def test_a_null_value_deletes_what_came_before_it_in_the_batch_and_in_the_table(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"old"))
    engine.change(b"s", Put(b"f", b"q", b"old"))
    engine.bulk(
        bulk_batch(
            (b"r", b"f", b"q", None, b"a"),
            (b"r", b"f", b"q", None, None),
            (b"s", b"f", b"q", None, None),
            (b"s", b"f", b"q", None, b"b"),
        )
    )
    assert engine.values(b"r") == {}
    assert engine.values(b"s") == {b"f:q": b"b"}


def test_random_batches_do_what_their_cells_do_one_by_one(tmp_path: Path) -> None:
    seed = drawn_seed()
    choice = random.Random(seed)
    config = Config(bulk_file_bytes_min=600)
    bulk = Engine(_made(tmp_path / "bulk"), config, Clock(), Files(), Durability.OS)
    model: dict[tuple[bytes, bytes, bytes], dict[int, bytes]] = {}
    for _ in range(60):
        cells: list[Cell] = [
            (
                choice.choice([b"a", b"ab", b"b"]),
                choice.choice([b"f", b"g"]),
                choice.choice([b"", b"q", b"r"]),
                choice.randrange(1, 6),
                choice.choice([None, b"v%d" % choice.randrange(1000)]),
            )
            for _ in range(choice.randrange(1, 30))
        ]
        bulk.bulk(bulk_batch(*cells))
        # The batch is one write: first its deletes, then the puts that no later delete of it covers.
        for i, (row, family, qualifier, timestamp, value) in enumerate(cells):
            versions = model.setdefault((row, family, qualifier), {})
            assert timestamp is not None
            if value is None:
                for old in [old for old in versions if old <= timestamp]:
                    del versions[old]
            assert i >= 0
        _put_all(model, cells)
        assert {cell[:3]: cell[4] for cell in bulk.scan()} == {
            key: versions[max(versions)] for key, versions in model.items() if versions
        }, cells
        if choice.random() < 0.2:
            bulk.server.flush("t")
        if choice.random() < 0.1:
            bulk.restart()
    bulk.server.stop()


def _put_all(model: dict[tuple[bytes, bytes, bytes], dict[int, bytes]], cells: list[Cell]) -> None:
    limits = {b"f": 1, b"g": 3}
    touched = set()
    for i, (row, family, qualifier, timestamp, value) in enumerate(cells):
        assert timestamp is not None
        covered = any(
            later[:3] == (row, family, qualifier)
            and later[4] is None
            and later[3] is not None
            and later[3] >= timestamp
            for later in cells[i + 1 :]
        )
        if value is not None and not covered:
            model[row, family, qualifier][timestamp] = value
            touched.add((row, family, qualifier))
    for key in touched:
        versions = model[key]
        for timestamp in sorted(versions)[: -limits[key[1]]]:
            del versions[timestamp]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("ended", ["", "flushed", "crashed"])
@pytest.mark.parametrize("count", [6, 500])
def test_a_part_of_a_batch_that_was_applied_is_not_applied_again(engine: Engine, count: int, ended: str) -> None:
    """Another client overwrites a row in between: the part must not undo it."""
    whole = RequestId(CLIENT, 1, 1)
    assert isinstance(engine.bulk(bulk_batch(*many(count)), request=whole), BulkResult)
    engine.change(b"000004", Put(b"f", b"q", b"later"))
    if ended == "flushed":
        engine.server.flush("t")
    if ended:
        engine.crash()
    read_point = engine.region.statistics().read_point
    for sequence, parts_of in ((2, (1,)), (3, (9, 1))):
        part = RequestId(CLIENT, sequence, 1, 5, parts_of)
        outcome = engine.bulk(bulk_batch(*many(count)[3:]), request=part)
        assert isinstance(outcome, BulkResult)
        assert outcome.repeated_request
    assert engine.region.statistics().read_point == read_point
    assert engine.values(b"000004") == {b"f:q": b"later"}


def test_a_part_of_a_batch_that_was_not_applied_is_applied_once_and_so_are_the_others(engine: Engine) -> None:
    """Also if the region of the other part has been merged into this one: the whole is not there, but a part is."""
    first, second = RequestId(CLIENT, 2, 1, 5, (1,)), RequestId(CLIENT, 3, 1, 5, (1,))
    for request, cells in ((first, many(6)[:3]), (second, many(6)[3:])):
        for is_repeated in (False, True):
            outcome = engine.bulk(bulk_batch(*cells), request=request)
            assert isinstance(outcome, BulkResult)
            assert outcome.repeated_request == is_repeated
    assert len(engine.scan()) == 6


def test_a_part_of_a_batch_whose_answer_was_forgotten_is_refused(engine: Engine) -> None:
    engine.bulk(bulk_batch(*many(3)), request=RequestId(CLIENT, 5, 5))
    outcome = engine.bulk(bulk_batch(*many(3)), request=RequestId(CLIENT, 6, 5, 5, (4,)))
    assert isinstance(outcome, UnknownOutcomeError)
    assert "request 4 is below its client's floor 5" in outcome.message


def test_a_repeated_bulk_request_is_applied_once(engine: Engine) -> None:
    request = RequestId(CLIENT, 1, 1)
    first = engine.bulk(bulk_batch(*many(500)), request)
    engine.change(b"000001", Put(b"f", b"q", b"newer"))
    again = engine.bulk(bulk_batch(*many(500)), request)
    assert isinstance(first, BulkResult)
    assert isinstance(again, BulkResult)
    assert again.repeated_request
    assert (again.cell_count, again.timestamp) == (first.cell_count, first.timestamp)
    assert engine.values(b"000001") == {b"f:q": b"newer"}
    assert len(list((engine.folder / "bulk").iterdir())) == 1


@pytest.mark.parametrize("count", [3, 500])
def test_a_batch_and_its_repetition_are_answered_when_they_are_published(
    tmp_path: Path, config: Config, count: int
) -> None:
    files = HeldFiles()
    lone = LoneRegion(tmp_path, config, Clock(), files, Durability.FSYNC)
    # The batch fills its bulk file before it meets the held log.
    files.may_sync.clear()
    told: list[BulkOutcome] = []
    for _ in range(2):
        options = WriteOptions(time.monotonic() + WAIT_S)
        lone.region.bulk_put(bulk_batch(*many(count)), RequestId(CLIENT, 1, 1), options, told.append)
    assert lone.scan() == []
    assert told == []
    files.may_sync.set()
    lone.log.sync()
    assert [isinstance(outcome, BulkResult) and outcome.repeated_request for outcome in told] == [False, True]
    assert len(lone.scan()) == count
    lone.stop()


@pytest.mark.parametrize("count", [3, 500])
def test_a_batch_that_the_log_refuses_leaves_an_empty_number_and_no_file(lone: LoneRegion, count: int) -> None:
    held = lone.memory.bytes_held

    lone.log.refuses = True
    with pytest.raises(StoppingError):
        lone.bulk(bulk_batch(*many(count)))
    lone.log.refuses = False
    # Else the next write would wait for ever.
    assert lone.region.statistics().mvcc.open_writes == 0
    assert lone.scan() == []
    assert lone.memory.bytes_held == held
    assert list((lone.folder / "bulk").iterdir()) == []
    lone.bulk(bulk_batch(*many(count)))
    assert len(lone.scan()) == count


@pytest.mark.parametrize("count", [3, 500])
def test_a_batch_that_meets_an_alter_is_checked_against_the_new_families(lone: LoneRegion, count: int) -> None:
    lone.steps.at_next(Step.ALONE, lambda: lone.alter(drop_families=[b"g"]))
    with pytest.raises(FamilyNotFoundError):
        lone.bulk(bulk_batch(*many(count), (b"r", b"g", b"q", None, b"v")))
    assert lone.scan() == []
    lone.bulk(bulk_batch(*many(count)))
    lone.crash()
    assert len(lone.scan()) == count


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ((b"", b"f", b"q", None, b"v"), InvalidRequestError),
        ((b"r" * 40_000, b"f", b"q", None, b"v"), LimitExceededError),
        ((b"r", b"nofam", b"q", None, b"v"), FamilyNotFoundError),
        ((b"r", b"f", b"q" * 40_000, None, b"v"), LimitExceededError),
        ((b"r", b"f", b"q", -1, b"v"), InvalidRequestError),
        ((b"r", b"f", b"q", 1 << 62, b"v"), LimitExceededError),
    ],
)
def test_a_batch_with_one_bad_cell_is_refused_entirely(engine: Engine, cell: Cell, error: type[Exception]) -> None:
    with pytest.raises(error):
        engine.bulk(bulk_batch(*many(3), cell))
    assert engine.scan() == []


def test_an_empty_batch_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequestError):
        engine.bulk(bulk_batch((b"r", b"f", b"q", None, b"v")).slice(0, 0))


def test_a_closed_region_takes_no_batch(engine: Engine) -> None:
    region = engine.region
    engine.server.truncate_table("t")
    assert engine.scan() == []
    with pytest.raises(NotServingRegionError):
        region.bulk_put(bulk_batch(*many(3)), None, None, lambda _: None)  # type: ignore[arg-type]
