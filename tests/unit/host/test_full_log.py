"""A log that waits for disk space: which operations wait for it, and which go ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.errors import DiskFullError, UnknownOutcomeError
from rowlock_regionserver.host.bulk_commit import CommitRequest, _Committing, commit_bulk_write, regions_locked
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.snapshot_parts import SnapshotPart
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import RowOutcome
from rowlock_regionserver.wal.log import Log

from tests.unit.host.test_stopping import SEGMENT_BYTES, Serving
from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S, wait_until


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "data")


def held_put(serving: Serving, *full: str) -> list[RowOutcome]:
    """The outcome, when it comes, of a change of table t for which the log has no space. `full`: other folders."""
    serving.fill("log", *full)
    outcomes = serving.begin_put("t", b"late", b"v" * SEGMENT_BYTES)  # needs a segment of its own
    wait_until(lambda: serving.server.statistics().log.is_full)
    return outcomes


def in_time(call: Callable[[], object]) -> None:
    """Fails if it waits for space."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(WAIT_S / 3)
    assert not thread.is_alive(), "it waits for space"


@pytest.mark.parametrize("operation", [RegionServer.drop_table, RegionServer.truncate_table])
def test_a_table_whose_changes_wait_for_space_can_be_removed(
    serving: Serving, operation: Callable[[RegionServer, str], object]
) -> None:
    serving.put("u", b"r")
    waiting = held_put(serving)
    (region,) = serving.server.regions_of("t")
    in_time(lambda: operation(serving.server, "t"))
    assert isinstance(waiting[0], UnknownOutcomeError)
    assert not (serving.disk.root / "regions" / str(region.region_id)).exists()
    in_time(lambda: serving.server.create_table("another", [*serving.server.table("u").families]))
    serving.empty()
    wait_until(lambda: not serving.server.statistics().log.is_full)
    serving.put("u", b"after")  # The log has continued, and completed records without waiting callers too.
    assert len(waiting) == 1
    assert serving.stop() == []
    assert serving.fatal == []
    again = serving.opened(serving.disk.root)
    assert serving.has(again, "u", b"after")
    regions = [each for table in again.tables() for each in again.regions_of(table.name)]
    assert region.region_id not in {each.region_id for each in regions}
    assert again.stop() == []


def test_a_table_is_removed_although_its_flush_had_begun_to_wait_for_the_log(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has space when the flush and the removal begin to wait, and lacks it later."""
    lacks_space, polled = threading.Event(), threading.Semaphore(0)

    def waits_for_space(_: object) -> bool:
        polled.release()
        return lacks_space.is_set()

    def flush() -> None:
        with pytest.raises(DiskFullError):
            serving.server.flush("t")

    waiting = held_put(serving)
    monkeypatch.setattr(Log, "waits_for_space", property(waits_for_space))
    flushing = threading.Thread(target=flush, daemon=True)
    flushing.start()
    assert polled.acquire(timeout=WAIT_S)
    removing = threading.Thread(target=serving.server.drop_table, args=["t"], daemon=True)
    removing.start()
    lacks_space.set()
    removing.join(WAIT_S / 3)
    flushing.join(WAIT_S / 3)
    assert not removing.is_alive()
    assert not flushing.is_alive()
    assert isinstance(waiting[0], UnknownOutcomeError)
    serving.empty()
    assert serving.stop() == []
    assert serving.fatal == []


def test_a_region_whose_changes_wait_for_space_does_not_hold_up_the_flushes_of_others(tmp_path: Path) -> None:
    serving = Serving(tmp_path / "data", flushes_all=True)
    server = serving.server
    (t,), (u,) = server.regions_of("t"), server.regions_of("u")
    serving.fill("regions")
    serving.put("u", b"r")
    waiting = held_put(serving, "regions")
    with pytest.raises(DiskFullError, match="no disk space for the log"):
        server.flush("t")
    assert u.memstore_bytes
    serving.fill("log")
    wait_until(lambda: u.memstore_bytes == 0)
    assert waiting == []
    # The change's own: who gave up is not told.
    wait_until(lambda: t.statistics().mvcc.waiters == 1)
    serving.empty()
    wait_until(lambda: t.memstore_bytes == 0)
    assert not isinstance(waiting[0], Exception)
    assert serving.stop() == []
    assert serving.fatal == []


def test_a_bulk_commit_does_not_wait_for_space_of_the_log(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait with the catalog's lock held, and no table could be dropped to make space."""
    server = serving.server
    ref = server.clients.sessions.open("job", "ana").ref
    server.bulk_writes.open(ref, server.table("t"))
    (region,) = server.regions_of("t")
    server.bulk_writes.stage(ref, region, bulk_batch((b"a", b"f", b"q", None, b"v")), None)
    request = CommitRequest(ref, "t")
    checked = _Committing._check_unchanged

    def fill(committing: _Committing, since: Sequence[SnapshotPart]) -> None:
        """After the commit has found space in the log, a put of another table meets the full disk."""
        serving.fill("log")
        serving.begin_put("u", b"late", b"v" * SEGMENT_BYTES)
        wait_until(lambda: server.statistics().log.is_full)
        checked(committing, since)

    def commit() -> None:
        with pytest.raises(DiskFullError, match="nothing was committed"):
            commit_bulk_write(server, request, Caller("ana", ref), regions_locked(server, request))

    monkeypatch.setattr(_Committing, "_check_unchanged", fill)
    in_time(commit)
    in_time(lambda: server.drop_table("u"))
    assert not serving.has(server, "t", b"a")
    monkeypatch.undo()
    serving.empty()
    wait_until(lambda: not server.statistics().log.is_full)
    assert commit_bulk_write(server, request, Caller("ana", ref), regions_locked(server, request)).row_count == 1
    assert serving.has(server, "t", b"a")
    assert serving.stop() == []
    assert serving.fatal == []
    again = serving.opened(serving.disk.root)
    assert serving.has(again, "t", b"a")
    assert again.stop() == []
