"""Replay: restores after a crash what only the log has, and skips what store files have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    Append,
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
    RowMutation,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkResult

from .conftest import Engine, bulk_batch

CLIENT = b"c" * 16
EVERYTHING = ScanPlan(Selection(versions=100))


def bulk_rows(count: int, value: bytes = b"v" * 50) -> list[tuple[bytes, bytes, bytes, int | None, bytes | None]]:
    """A batch of 500 rows makes a bulk file; a batch of a few is in its log record."""
    return [(b"bulk-%06d" % i, b"f", b"q", None, value) for i in range(count)]


def test_every_kind_of_change_survives_repeated_crashes(engine: Engine) -> None:
    engine.change(b"a", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"1", 100), Put(b"g", b"q", b"2", 200))
    engine.change(b"a", Increment(b"f", b"n", 5), Append(b"f", b"s", b"text"))
    engine.change(b"b", Put(b"f", b"q", b"gone"), Put(b"g", b"q", b"kept"))
    engine.change(b"b", Delete(DeleteKind.FAMILY, b"f"))
    engine.change(b"c", Put(b"g", b"q", b"3", 300), Put(b"g", b"q", b"4", 400))
    engine.change(b"c", Delete(DeleteKind.VERSION, b"g", b"q"))
    engine.bulk(bulk_batch(*bulk_rows(3)))
    engine.bulk(bulk_batch(*bulk_rows(500, b"w" * 50), (b"a", b"f", b"q", None, None)))
    before = engine.scan(EVERYTHING)
    assert len(before) == 506
    for _ in range(2):
        engine.crash()
        assert engine.scan(EVERYTHING) == before
    engine.change(b"a", Increment(b"f", b"n", 1))
    engine.server.flush("t")
    before = engine.scan(EVERYTHING)
    engine.crash()
    assert engine.scan(EVERYTHING) == before


@pytest.mark.parametrize("count", [3, 500])
def test_a_bulk_request_is_known_after_a_crash(engine: Engine, count: int) -> None:
    request = RequestId(CLIENT, 1, 1)
    first = engine.bulk(bulk_batch(*bulk_rows(count)), request)
    engine.crash()
    engine.change(b"bulk-000001", Put(b"f", b"q", b"newer"))
    again = engine.bulk(bulk_batch(*bulk_rows(count)), request)
    assert isinstance(first, BulkResult)
    assert again == replace(first, repeated_request=True)
    assert engine.values(b"bulk-000001") == {b"f:q": b"newer"}


def test_the_bulk_file_of_a_flushed_batch_is_not_missed(engine: Engine) -> None:
    engine.bulk(bulk_batch(*bulk_rows(500)))
    engine.server.flush("t")
    engine.change(b"a", Put(b"f", b"q", b"v"))
    engine.crash()
    assert engine.server.damaged_regions() == {}
    assert len(engine.scan()) == 501


@pytest.mark.parametrize("damage", ["a flipped bit", "a missing byte", "no file"])
def test_a_damaged_bulk_file_closes_only_its_region(engine: Engine, damage: str) -> None:
    engine.bulk(bulk_batch(*bulk_rows(500)))
    other = engine.server.create_table("other", engine.server.table("t").families)
    region_id = engine.region.region_id
    (path,) = (engine.folder / "bulk").iterdir()
    content = bytearray(path.read_bytes())
    content[content.index(b"v" * 50)] ^= 1
    match damage:
        case "a flipped bit":
            path.write_bytes(content)
        case "a missing byte":
            path.write_bytes(path.read_bytes()[:-1])
        case _:
            path.rename(path.with_suffix(".elsewhere"))
    left = list((engine.folder / "bulk").iterdir())
    engine.crash()
    assert list(engine.server.damaged_regions()) == [region_id]
    with pytest.raises(CorruptionError) as caught:
        engine.server.regions_of("t")
    assert caught.value.path == path
    assert len(engine.server.regions_of(other.name)) == 1
    # What salvage may want stays.
    assert list((engine.folder / "bulk").iterdir()) == left


# A reader may have seen what a write without a record made, before the crash took it.


def test_a_write_number_is_not_handed_out_twice_even_if_the_log_lost_its_record(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(write_numbers_per_leap=4), ManualClock(), Files(), Durability.SKIP)
    for _ in range(10):
        engine.change(b"r", Put(b"f", b"q", b"v"))
    number = engine.region.statistics().mvcc.last_write_number
    engine.crash()
    assert engine.scan() == []
    engine.change(b"r", Put(b"f", b"q", b"v"))
    assert engine.region.statistics().mvcc.last_write_number > number
    engine.server.stop()


def test_a_stamp_is_not_handed_out_twice_even_if_the_log_lost_its_record(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = Engine(tmp_path, Config(stamp_leap_ms=10), clock, Files(), Durability.SKIP)
    started_ms = clock.now_ms()
    for _ in range(10):
        clock.advance(100)
        stamp = engine.change(b"r", Put(b"f", b"q", b"v")).timestamp
    assert stamp == started_ms + 1000
    clock.set_now_ms(started_ms)
    engine.crash()
    assert engine.scan() == []
    assert engine.change(b"r", Put(b"f", b"q", b"v")).timestamp >= stamp
    engine.server.stop()


@pytest.mark.parametrize("config", [Config(write_numbers_per_leap=1 << 32, stamp_leap_ms=24 * 3600 * 1000)])
def test_a_region_with_the_largest_reserved_blocks_survives_many_restarts(engine: Engine) -> None:
    for life in range(5):
        engine.change(b"r", Put(b"f", b"q", b"%d" % life))
        engine.server.flush("t")
        engine.crash()
        assert engine.values(b"r") == {b"f:q": b"%d" % life}


def test_a_log_of_more_than_fits_in_memory_is_flushed_while_it_is_replayed(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(), Clock(), Files(), Durability.OS)
    for start in range(0, 1000, 100):
        engine.mutate(*[RowMutation(b"%06d" % i, (Put(b"f", b"q", b"v" * 4000),)) for i in range(start, start + 100)])
    before = engine.scan()
    engine.config = Config(memstore_bytes_max=3 << 20)
    engine.crash()
    assert engine.region.statistics().store_file_count >= 2
    assert engine.scan() == before
    engine.server.stop()
    assert engine.fatal == []
