"""Sessions and locks of a region server: what operations take, what ends with a session, and tables in use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.job import State
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    InvalidRequestError,
    LockUnavailableError,
    SessionEndedError,
    SnapshotEndedError,
    TableInUseError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.compaction_requests import request_compactions
from rowlock_regionserver.host.session_lock import SessionLock
from rowlock_regionserver.host.session_snapshots import implicit_sessions
from rowlock_regionserver.locks.lock import LockKey, Mode
from rowlock_regionserver.locks.lock_matrix import MATRIX, Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import Put
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.sessions.session import SessionRef

from tests.unit.region.conftest import Engine, bulk_batch
from tests.waiting import WAIT_S, wait_until

ID = b"snapshot is 16 b"
NO_WAIT = Caller("ana", wait_ms=0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def held(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    """An engine on a clock that stands still."""
    running = Engine(tmp_path, Config(log_segment_bytes=1 << 20), clock, Files(), Durability.OS)
    yield running
    running.server.stop()
    assert not running.fatal


@pytest.fixture
def clients(held: Engine) -> ClientState:
    return held.server.clients


@pytest.fixture
def ref(clients: ClientState) -> SessionRef:
    return clients.sessions.open("job", "kim").ref


def take(
    clients: ClientState, ref: SessionRef, table: str, mode: Mode, lock_id: str = "lock", wait_ms: int = 0
) -> SessionLock:
    return asyncio.run(clients.take_lock(ref, lock_id, [(LockKey(table), mode)], wait_ms, "", lambda: None))


def callers(operation: Operation, held: Engine, caller: Caller) -> None:
    """Calls the operation of the region server, if there is one for it."""
    server = held.server
    if operation is Operation.CREATE:
        server.create_table("t", [Family(0, b"f")], Durability.OS, {}, caller)
    elif operation is Operation.ALTER:
        server.alter_table("t", [Family(0, b"h")], (), None, {}, (), {}, caller)
    elif operation is Operation.TRUNCATE:
        server.truncate_table("t", caller)
    elif operation is Operation.DROP:
        server.drop_table("t", caller, force=False)
    elif operation is Operation.SNAPSHOT:
        server.make_snapshot("t", ID, 0, "", caller)


@pytest.mark.parametrize(
    "operation", [Operation.CREATE, Operation.ALTER, Operation.TRUNCATE, Operation.DROP, Operation.SNAPSHOT]
)
def test_an_operation_takes_the_locks_of_the_matrix(held: Engine, clients: ClientState, operation: Operation) -> None:
    with clients.locked(Operation.TRUNCATE, "t", NO_WAIT), pytest.raises(LockUnavailableError):
        callers(operation, held, NO_WAIT)
    with clients.locked(Operation.SNAPSHOT, "t", NO_WAIT):
        if MATRIX[operation].table is Mode.EXCLUSIVE:
            with pytest.raises(LockUnavailableError):
                callers(operation, held, NO_WAIT)
        else:
            callers(operation, held, NO_WAIT)
    assert clients.locks.infos() == []


def test_the_own_session_s_lock_does_not_exclude_its_operation(
    held: Engine, clients: ClientState, ref: SessionRef
) -> None:
    take(clients, ref, "t", Mode.EXCLUSIVE)
    with pytest.raises(LockUnavailableError) as caught:
        held.server.truncate_table("t", NO_WAIT)
    assert caught.value.holders == ("job",)
    held.server.truncate_table("t", Caller("kim", ref, 0))
    with pytest.raises(SessionEndedError):
        held.server.truncate_table("t", Caller("kim", SessionRef("nosuch", 1), 0))


def test_reading_and_changing_rows_takes_no_lock(held: Engine, clients: ClientState, ref: SessionRef) -> None:
    take(clients, ref, "t", Mode.EXCLUSIVE)
    held.change(b"r", Put(b"f", b"q", b"1"))
    assert len(held.scan()) == 1
    held.server.flush("t")


def test_bulk_batches_staging_and_compactions_take_no_lock(held: Engine, clients: ClientState, ref: SessionRef) -> None:
    server, writing = held.server, clients.sessions.open("writing", "ana").ref
    server.bulk_writes.open(writing, server.table("t"))
    take(clients, ref, "t", Mode.EXCLUSIVE)
    for row in (b"a", b"b"):
        outcome = held.bulk(bulk_batch((row, b"f", b"q", None, b"1")))
        assert isinstance(outcome, BulkResult), outcome
        server.flush("t")
    staged = server.bulk_writes.stage(writing, held.region, bulk_batch((b"c", b"f", b"q", None, b"1")), None)
    assert staged.row_count == 1
    ids = request_compactions(server, "t", [b"f"], is_major=True)
    wait_until(lambda: all(job.state.is_over for job in server.compactions.jobs_of_ids(ids)))
    assert [job.state for job in server.compactions.jobs_of_ids(ids)] == [State.SUCCEEDED]
    assert held.region.statistics().store_file_count == 1
    assert [row for row, *_ in held.scan()] == [b"a", b"b"]
    [info] = clients.locks.infos()
    assert info.holder.holder_id == "job"
    request = CommitRequest(writing, "t")
    with pytest.raises(LockUnavailableError):  # Only the commit takes one.
        commit_bulk_write(server, request, Caller("ana", writing, 0), regions_locked(server, request))


def test_a_lock_is_released_with_its_session(clients: ClientState, ref: SessionRef, clock: ManualClock) -> None:
    first = take(clients, ref, "t", Mode.EXCLUSIVE)
    assert take(clients, ref, "t", Mode.EXCLUSIVE) is first  # The same id.
    with pytest.raises(InvalidRequestError, match="is that of t; choose another id"):
        take(clients, ref, "t", Mode.SHARED)
    [info] = clients.sessions.infos()
    assert [item.text for item in info.held] == ["exclusive lock of t"]
    clock.advance(300_000)
    with pytest.raises(SessionEndedError):
        clients.sessions.heartbeat(ref)
    with clients.locked(Operation.TRUNCATE, "t", Caller("ana", wait_ms=int(WAIT_S * 1000))):
        pass
    second = clients.sessions.open("job", "kim").ref
    assert take(clients, second, "t", Mode.SHARED).request.number > first.request.number


def test_a_lock_that_is_released_is_taken_by_others_and_releasing_twice_is_no_error(
    clients: ClientState, ref: SessionRef
) -> None:
    take(clients, ref, "t", Mode.EXCLUSIVE)
    clients.release_lock(ref, "lock")
    clients.release_lock(ref, "lock")
    with clients.locked(Operation.TRUNCATE, "t", NO_WAIT):
        pass
    assert clients.sessions.infos()[0].held == ()


def test_a_session_that_ends_while_it_waits_is_not_granted(clients: ClientState, ref: SessionRef) -> None:
    other = clients.sessions.open("other", "ana").ref
    take(clients, other, "t", Mode.EXCLUSIVE)

    async def test() -> None:
        waiting = asyncio.create_task(
            clients.take_lock(ref, "lock", [(LockKey("t"), Mode.SHARED)], 600_000, "", lambda: None)
        )
        await asyncio.sleep(0)
        [info] = [each for each in clients.sessions.infos() if each.ref == ref]
        assert [(item.text, item.is_waiting) for item in info.held] == [("shared lock of t (waits)", True)]
        clients.sessions.end(ref, "an operator ended it")
        with pytest.raises(SessionEndedError, match="an operator ended it"):
            await waiting

    asyncio.run(test())
    assert [info.holder.holder_id for info in clients.locks.infos()] == ["other"]


def test_a_lock_of_a_table_that_is_dropped_meanwhile_is_not_granted(clients: ClientState, ref: SessionRef) -> None:
    def check() -> None:
        raise InvalidRequestError("gone")

    with pytest.raises(InvalidRequestError, match="gone"):
        asyncio.run(clients.take_lock(ref, "lock", [(LockKey("t"), Mode.SHARED)], 0, "", check))
    assert clients.locks.infos() == []
    assert clients.sessions.infos()[0].held == ()


def test_switched_off_locks_hold_nobody_up_and_cannot_be_taken(tmp_path: Path) -> None:
    clients = ClientState(Config(locks=0), ManualClock(), 1, lambda _: None)
    with clients.locked(Operation.DROP, "t", NO_WAIT), clients.locked(Operation.DROP, "t", NO_WAIT):
        pass
    ref = clients.sessions.open("job", "kim").ref
    with pytest.raises(InvalidRequestError, match="locks are switched off in this server"):
        take(clients, ref, "t", Mode.SHARED)
    clients.sessions.stop()


# ---- tables in use


def test_a_table_in_use_is_not_dropped_and_its_users_are_named(
    held: Engine, clients: ClientState, ref: SessionRef
) -> None:
    held.server.make_snapshot("t", ID, 0, "", Caller("kim", ref))
    with pytest.raises(TableInUseError, match=r"job of kim \(snapshot of t\); nothing was changed") as caught:
        held.server.drop_table("t", NO_WAIT)
    assert caught.value.holders == ("job",)
    held.server.drop_table("t", NO_WAIT, force=True)
    with pytest.raises(SessionEndedError, match="its table 't' was dropped by ana"):
        clients.sessions.check(ref)


def test_the_own_session_and_snapshots_without_a_session_keep_nobody_from_dropping(
    held: Engine, clients: ClientState, ref: SessionRef
) -> None:
    held.server.make_snapshot("t", ID, 0, "", Caller("eve"))
    take(clients, ref, "t", Mode.EXCLUSIVE)
    held.server.drop_table("t", Caller("kim", ref, 0))
    clients.sessions.check(ref)


# ---- snapshots


def test_a_snapshot_of_a_session_lives_as_long_as_it(
    held: Engine, clients: ClientState, ref: SessionRef, clock: ManualClock
) -> None:
    snapshots = held.server.snapshots
    held.server.make_snapshot("t", ID, 1000, "", Caller("kim", ref))
    assert implicit_sessions(snapshots) == []
    for _ in range(5):
        clock.advance(200_000)
        clients.sessions.heartbeat(ref)
        snapshots.check(ID)
    clients.sessions.end(ref, "over")
    with pytest.raises(SnapshotEndedError, match="its session ended: over"):
        snapshots.check(ID)
    assert held.region.statistics().mvcc.registered_readers == 0


def test_a_snapshot_that_ends_is_no_longer_held_by_its_session(
    held: Engine, clients: ClientState, ref: SessionRef
) -> None:
    held.server.make_snapshot("t", ID, 0, "", Caller("kim", ref))
    held.server.make_snapshot("t", ID, 0, "", Caller("kim", ref))
    assert len(clients.sessions.infos()[0].held) == 1
    held.server.truncate_table("t")
    assert clients.sessions.infos()[0].held == ()


def test_a_snapshot_without_a_session_is_listed_as_one(held: Engine, clock: ManualClock) -> None:
    held.server.make_snapshot("t", ID, 5000, "", Caller("eve"))
    [info] = implicit_sessions(held.server.snapshots)
    assert (info.session_id, info.owner, info.idle_ms, info.is_implicit) == (f"snapshot-{ID.hex()}", "eve", 5000, True)
    assert [item.text for item in info.held] == ["snapshot of t"]


# ---- restarts


def test_numbers_go_on_after_a_restart(held: Engine, ref: SessionRef) -> None:
    held.crash()
    with pytest.raises(SessionEndedError, match="or was restarted since"):
        held.server.clients.sessions.check(ref)
    assert held.server.clients.sessions.open("job", "kim").number > ref.number
    held.restart()
    assert held.server.clients.sessions.open("job", "kim").number > ref.number + 1


def test_a_server_that_stops_ends_its_sessions(held: Engine, ref: SessionRef) -> None:
    clients = held.server.clients
    take(clients, ref, "t", Mode.EXCLUSIVE)
    held.restart()
    assert clients.locks.infos() == []
    assert clients.sessions.infos() == []
