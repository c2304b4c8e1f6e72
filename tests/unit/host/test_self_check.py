"""ROWLOCK_VERIFY=1: an intact server passes all checks while it serves, and each broken invariant is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Cell, Durability, Family, ProtectedReadPoints
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import self_check
from rowlock_regionserver.host.self_check import SelfCheck, check
from rowlock_regionserver.memstore.memstore import Memstore
from rowlock_regionserver.operations import Put
from rowlock_regionserver.storefile.block import Block
from rowlock_regionserver.storefile.cache import BlockCache

from tests.unit.region.conftest import Engine, abandon
from tests.waiting import WAIT_S


def written(folder: Path) -> Engine:
    """Row r is in a store file, and row s in memory."""
    engine = Engine(folder, Config(), Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    engine.change(b"s", Put(b"f", b"q", b"v"))
    return engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = written(tmp_path)
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


def miscount_ledger(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.server.ledger.bytes_held += 1


def miscount_cache(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    put = BlockCache.put

    def put_and_miscount(cache: BlockCache, reader: int, number: int, block: Block) -> None:
        put(cache, reader, number, block)
        cache.bytes_held += 1

    monkeypatch.setattr(BlockCache, "put", put_and_miscount)
    assert engine.values(b"r"), "it is in a file"


def complete_a_number_twice(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.region._parts.mvcc._completed.add(1)


def apply_cells_out_of_order(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Memstore.apply

    def apply_reversed(
        memstore: Memstore, row: bytes, cells: Sequence[Cell], protected_read_points: Callable[[], ProtectedReadPoints]
    ) -> int:
        return apply(memstore, row, cells[::-1], protected_read_points)

    monkeypatch.setattr(Memstore, "apply", apply_reversed)
    engine.change(b"t", Put(b"f", b"p", b"v"), Put(b"f", b"q", b"v"))


def miscount_the_log(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = engine.server._log._pending._touched
    ((region_id, last),) = touched.items()
    touched[region_id] = last + 1


@pytest.mark.parametrize(
    "spoil", [miscount_ledger, miscount_cache, complete_a_number_twice, apply_cells_out_of_order, miscount_the_log]
)
def test_a_broken_invariant_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Engine, pytest.MonkeyPatch], None]
) -> None:
    engine = written(tmp_path)
    check(engine.server)
    found = threading.Event()
    breaches: list[BaseException] = []

    def note(error: BaseException) -> None:
        breaches.append(error)
        found.set()

    checking = SelfCheck(engine.server, note)
    checking.start()
    spoil(engine, monkeypatch)
    assert found.wait(WAIT_S)
    checking.stop()
    assert [type(error) for error in breaches] == [AssertionError]
    abandon(engine.server)
