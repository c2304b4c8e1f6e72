"""The life cycle of a region: OPENING, SERVING, CLOSED."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import Put, RowResult, ScanPlan, Selection, WriteOptions
from rowlock_regionserver.region.bulk.bulk_load import BulkNumbers
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.new_region import make_region_folder
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.region_parts import open_parts
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.mutation import KIND_ROW, encode_row

from .conftest import bulk_batch
from .lone_region import LoneRegion

ROW, CELL = b"r", (b"q", -1, 0, b"v")
RECORD = encode_row(ROW, [(1, [CELL])], None, RowResult(), {})
TABLE = Table("t", 1, (Family(1, b"f"),))


class Opened:
    """A region without a server, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.config, self.clock, self.files = Config(), ManualClock(), Files()
        self.fatal: list[BaseException] = []
        self.memory = MemoryGauge(Ledger(self.config).memstores, self.config, self.clock, lambda: None)
        self.shared = SharedParts.of(folder, self.config, self.clock, self.files, self.memory, self.fatal.append)
        (folder / "regions").mkdir()
        path = folder / "regions" / "7"
        make_region_folder(self.files, path, 7, TABLE, self.config)
        self.region = Region(open_parts(7, (b"", b""), TABLE, path, self.shared))


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


CALLS: list[Callable[[Region], object]] = [
    lambda region: region.get([ROW], Selection(), may_wait=True),
    lambda region: region.mutate([], WriteOptions(0.0), print, may_wait=True),
    lambda region: region.mutate_each([], WriteOptions(0.0), print),
    lambda region: region.bulk_put(bulk_batch((ROW, b"f", b"q", None, b"v")), None, WriteOptions(0.0), print),
    lambda region: region.scan(ScanPlan()),
    lambda region: region.parts(ScanPlan(), 1),
    lambda region: region.flush(),
    lambda region: region.without_writes(0.0).__enter__(),
]


@pytest.mark.parametrize("call", CALLS)
def test_only_a_serving_region_takes_calls(opened: Opened, call: Callable[[Region], object]) -> None:
    with pytest.raises(NotServingRegionError, match=r"region 7 of table 't'"):
        call(opened.region)
    opened.region.abandon()
    with pytest.raises(NotServingRegionError):
        call(opened.region)


def test_what_replay_brought_is_flushed_while_it_opens(opened: Opened) -> None:
    region = opened.region
    region.replay.apply(1, KIND_ROW, RECORD)
    region.flush_while_opening()
    assert region.memstore_bytes == 0
    assert region.statistics().store_file_cells == 1
    assert region.found.flushed_write_number == 0, "what the folder had"


def test_a_region_that_is_abandoned_releases_its_memory(opened: Opened) -> None:
    opened.region.replay.apply(1, KIND_ROW, RECORD)
    opened.region.abandon()
    assert opened.memory.bytes_held == 0


def test_a_region_begins_to_serve_only_once(lone: LoneRegion) -> None:
    with pytest.raises(AssertionError):
        lone.region.serve(lone.log, BulkNumbers(1))
    with pytest.raises(AssertionError):
        lone.region.abandon()


def test_the_cells_of_a_dropped_family_are_freed(lone: LoneRegion) -> None:
    lone.change(b"r", Put(b"f", b"q", b"v"), Put(b"g", b"q", b"v"))
    active = {store.family.name: weakref.ref(store.memstore.active) for store in lone.parts.stores.all()}
    lone.alter(drop_families=[b"g"])
    gc.collect()
    assert active[b"f"]() is not None
    assert active[b"g"]() is None
