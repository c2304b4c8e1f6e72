"""Folders in which an earlier version had taken timestamps that it read for stamps, and spread them over all tables.

What such a server leaves is what one with a clock that far ahead leaves, but for what its manifests don't say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.stamps import LEFT_OUT_EVERY_MS
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put, RowMutation, WriteOptions
from rowlock_regionserver.region import manifest

from tests.unit.region.conftest import Engine, abandon, bulk_batch

HOUR_MS = 3600 * 1000
BLOCK_MS = Config().stamp_leap_ms


def as_earlier_versions_wrote_it(folder: Path) -> None:
    """Removes from a region's manifest the fields that they did not write."""
    number, body = generations.read_newest(Files(), folder, manifest.NAME, version_max=manifest.FORMAT_VERSION)
    fields = json.loads(body)
    for name in ("answers_files", "forgotten_ms_ago", "stamps_are_own"):
        del fields[name]
    generations.write(Files(), folder, manifest.NAME, number + 1, json.dumps(fields).encode())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["in memory", "in files"])
def affected(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Tables `t`, whose row `old` was written 20 hours ahead of the clock, and `idle`, which has only stamps."""
    engine = Engine(tmp_path, Config(log_segment_bytes=1 << 20), clock, Files(), Durability.OS)
    engine.server.create_table("idle", [Family(0, b"f")], Durability.OS)
    clock.advance(20 * HOUR_MS)
    engine.change(b"old", Put(b"f", b"q", b"old"), Put(b"g", b"n", bytes(8)))
    engine.server.timestamp_range("idle", 500)
    if request.param == "in files":
        engine.server.flush("t")
    clock.advance(-20 * HOUR_MS)
    abandon(engine.server)
    for folder in (tmp_path / "regions").iterdir():
        as_earlier_versions_wrote_it(folder)
    engine.server = engine.open()
    yield engine
    engine.server.stop()
    assert not engine.fatal


def test_a_table_that_was_not_written_is_back_at_the_clock_for_good(affected: Engine, clock: ManualClock) -> None:
    for _ in range(3):
        assert affected.server.timestamp_range("idle").now_ms == clock.now_ms()
        affected.crash()
    (idle,) = affected.server.regions_of("idle")
    options = WriteOptions(clock.monotonic() + 60)
    idle.mutate([RowMutation(b"r", (Put(b"f", b"q", b"v"),))], options, lambda _: None, may_wait=True)
    for end in (affected.crash, affected.restart, affected.crash):
        affected.server.flush("idle")
        end()
        assert affected.server.timestamp_range("idle").now_ms < clock.now_ms() + BLOCK_MS


def test_rows_that_were_not_written_are_stamped_by_the_clock(affected: Engine, clock: ManualClock) -> None:
    for end in (affected.crash, affected.restart, affected.crash):
        assert affected.change(b"new", Put(b"f", b"q", b"v")).timestamp == clock.now_ms()
        affected.change(b"new", Put(b"f", b"q", b"by the client", clock.now_ms() + 1))
        assert affected.values(b"new") == {b"f:q": b"by the client"}
        end()
        clock.advance(2)


def test_the_new_cells_of_a_row_do_not_lie_behind_its_old_ones(affected: Engine, clock: ManualClock) -> None:
    """By any kind of change, over restarts, and each millisecond makes a version of its own."""
    stamps = [affected.change(b"old", Put(b"g", b"q", b"put")).timestamp]
    assert stamps[0] > clock.now_ms() + 19 * HOUR_MS
    for value in (b"1", b"2", b"3"):
        clock.advance(1)
        stamps.append(affected.change(b"old", Put(b"g", b"q", value), Put(b"f", b"q", value)).timestamp)
        assert affected.values(b"old")[b"g:q"] == affected.values(b"old")[b"f:q"] == value
    affected.crash()
    stamps.append(affected.change(b"old", Increment(b"g", b"n", 1), Put(b"g", b"q", b"4")).timestamp)
    assert affected.values(b"old")[b"g:n"] == (1).to_bytes(8, "big")
    assert stamps == sorted(set(stamps))
    versions = [value for _, qualifier, _, value in affected.cells(b"old", versions=9) if qualifier == b"q"]
    assert versions == [b"3", b"4", b"3", b"2"], "one of f, three of g"
    affected.change(b"old", Delete(DeleteKind.ROW))
    assert affected.values(b"old") == {}


def test_changes_of_one_millisecond_share_a_timestamp_and_a_hot_row_does_not_run_away(
    affected: Engine, clock: ManualClock
) -> None:
    first = affected.change(b"old", Increment(b"g", b"n", 1)).results[0][2]
    started_ms = clock.now_ms()
    for _ in range(50):
        for _ in range(10):
            affected.change(b"old", Increment(b"g", b"n", 1))
        clock.advance(1)
    last = affected.change(b"old", Increment(b"g", b"n", 1)).results[0][2]
    assert 40 < last - first < clock.now_ms() - started_ms


@pytest.mark.parametrize("way", ["bulk", "job"])
def test_a_write_that_reads_no_rows_is_later_than_all_old_cells_and_so_are_all_later_writes(
    affected: Engine, clock: ManualClock, way: str
) -> None:
    time = affected.server.timestamp_range("t", 500) if way == "job" else None
    affected.bulk(bulk_batch((b"old", b"f", b"q", time.now_ms if time else None, b"bulk")))
    assert affected.values(b"old")[b"f:q"] == b"bulk"
    for _ in range(2):
        affected.change(b"old", Put(b"f", b"q", b"point"))
        assert affected.values(b"old")[b"f:q"] == b"point"
        assert affected.change(b"new", Put(b"f", b"q", b"v")).timestamp > clock.now_ms() + 19 * HOUR_MS
        affected.server.timestamp_range()
    assert affected.server.timestamp_range("idle").now_ms <= clock.now_ms() + 1


def test_a_job_that_writes_on_after_a_restart_hides_no_later_put(affected: Engine, clock: ManualClock) -> None:
    """Its timestamps are beyond all cells, and no cell has one of them yet."""
    time = affected.server.timestamp_range("t", 500)
    for _ in range(3):
        affected.crash()
        affected.change(b"of the job", Put(b"f", b"q", b"job", time.now_ms + time.reserved_ms))
        affected.change(b"of the job", Put(b"f", b"q", b"later"))
        assert affected.values(b"of the job")[b"f:q"] == b"later"
        assert affected.change(b"new", Put(b"f", b"q", b"v")).timestamp < clock.now_ms() + BLOCK_MS


def test_when_the_clock_has_come_up_all_is_as_ever(affected: Engine, clock: ManualClock) -> None:
    affected.change(b"old", Put(b"f", b"q", b"v"))
    clock.advance(20 * HOUR_MS + 100)
    assert affected.change(b"old", Put(b"f", b"q", b"v")).timestamp == clock.now_ms()
    affected.server.flush("t")
    affected.crash()
    assert affected.server.timestamp_range("t").now_ms < clock.now_ms() + BLOCK_MS


@pytest.mark.parametrize("cells", ["no cells", "cells"])
def test_a_reservation_of_this_version_is_believed_whatever_the_clock_does(
    tmp_path: Path, clock: ManualClock, cells: str
) -> None:
    engine = Engine(tmp_path, Config(), clock, Files(), Durability.SKIP if cells == "no cells" else Durability.OS)
    clock.advance(20 * HOUR_MS)
    stamp = engine.change(b"r", Put(b"f", b"q", b"seen by a reader")).timestamp
    clock.advance(-20 * HOUR_MS)
    for _ in range(2):
        engine.crash()
        later = engine.change(b"s", Put(b"f", b"q", b"v")).timestamp
        assert later > stamp
        stamp = later
    engine.server.stop()


def test_a_stamp_that_reaches_the_newest_old_cell_is_not_given_to_its_row_again(
    affected: Engine, clock: ManualClock
) -> None:
    newest = affected.region.newest_stamp
    assert newest % LEFT_OUT_EVERY_MS, "that millisecond gives no stamp"
    affected.change(b"old", Put(b"g", b"q", b"1", newest))
    clock.advance(newest - clock.now_ms())
    after = affected.change(b"old", Put(b"g", b"q", b"2")).timestamp
    assert after > newest
    assert affected.change(b"old", Put(b"g", b"q", b"2")).timestamp == after, "in the same millisecond"
    assert [cell[3] for cell in affected.cells(b"old", versions=9) if cell[:2] == (b"g", b"q")] == [b"2", b"1"]
