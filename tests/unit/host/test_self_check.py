"""ROWLOCK_VERIFY=1: an intact server passes all checks while it serves, and each broken invariant is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import self_check
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.self_check import SelfCheck, check
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import Put

from tests.unit.region.conftest import WAIT_S, Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path, Config(), Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    engine.change(b"s", Put(b"f", b"q", b"v"))
    yield engine
    engine.server.stop()


def test_all_holds_beside_writes_flushes_and_tables_that_come_and_go(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "PAUSE_S", 0)
    breaches: list[BaseException] = []
    checking = SelfCheck(engine.server, breaches.append)
    checking.start()
    writers = [threading.Thread(target=write, args=(engine, number)) for number in range(2)]
    for writer in writers:
        writer.start()
    for _ in range(5):
        engine.server.flush("t")
        engine.server.create_table("u", [Family(0, b"f")], Durability.OS)
        engine.server.drop_table("u")
    for writer in writers:
        writer.join()
    checking.stop()
    assert breaches == []


def write(engine: Engine, number: int) -> None:
    for turn in range(200):
        engine.change(b"%d" % (turn % 7), Put(b"g", b"q%d" % number, b"v"))


def miscount_ledger(server: RegionServer) -> Callable[[], None]:
    server.ledger.bytes_held += 1
    return lambda: setattr(server.ledger, "bytes_held", server.ledger.bytes_held - 1)


def miscount_cache(server: RegionServer) -> Callable[[], None]:
    server._shared.cache.bytes_held += 1
    return lambda: setattr(server._shared.cache, "bytes_held", server._shared.cache.bytes_held - 1)


def complete_a_number_twice(server: RegionServer) -> Callable[[], None]:
    (region,) = server.regions_of("t")
    completed = region._parts.mvcc._completed
    completed.add(1)
    return lambda: completed.discard(1)


def miscount_cells(server: RegionServer) -> Callable[[], None]:
    (region,) = server.regions_of("t")
    segment = region._parts.stores.all()[0].memstore.active
    assert isinstance(segment, RowSegment)
    segment._cell_count += 1
    return lambda: setattr(segment, "_cell_count", segment._cell_count - 1)


def miscount_the_log(server: RegionServer) -> Callable[[], None]:
    touched = server._log._pending._touched
    ((region_id, last),) = touched.items()
    touched[region_id] = last + 1
    return lambda: touched.update({region_id: last})


@pytest.mark.parametrize(
    "spoil", [miscount_ledger, miscount_cache, complete_a_number_twice, miscount_cells, miscount_the_log]
)
def test_a_broken_invariant_is_found(engine: Engine, spoil: Callable[[RegionServer], Callable[[], None]]) -> None:
    check(engine.server)
    mend = spoil(engine.server)
    found = threading.Event()
    breaches: list[BaseException] = []

    def note(error: BaseException) -> None:
        breaches.append(error)
        found.set()

    checking = SelfCheck(engine.server, note)
    checking.start()
    assert found.wait(WAIT_S)
    checking.stop()
    mend()
    assert [type(error) for error in breaches] == [AssertionError]
    check(engine.server)
