"""Snapshots: what they see, how long they live, and what ends them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    RegionTooBusyError,
    SnapshotEndedError,
    StoppingError,
    TableNotFoundError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.snapshots import Snapshot, Snapshots
from rowlock_regionserver.memstore.row_segment import CELL_BYTES
from rowlock_regionserver.operations import (
    ColumnSelector,
    Delete,
    DeleteKind,
    Put,
    RowMutation,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.sessions.session import time_text

from tests.unit.region.conftest import Engine, HeldFiles
from tests.unit.region.lone_region import LoneRegion, Step
from tests.waiting import WAIT_S, wait_until

Cells = list[tuple[bytes, bytes, bytes, int, bytes]]

ID = b"snapshot is 16 b"
OTHER_ID = b"another snapshot"
HOUR_MS = 3600 * 1000
CONFIG = Config(
    log_segment_bytes=1 << 20,
    scan_window_bytes=500,
    snapshots_open_max=2,
    snapshot_ids_remembered=3,
    row_lock_wait_ms=30_000,
)


class LookedAtClock(ManualClock):
    """Counts how often the thread that ends snapshots looks at it: at least once whenever it wakes."""

    look_count = 0

    def monotonic(self) -> float:
        if threading.current_thread().name == "snapshots":
            self.look_count += 1
        return super().monotonic()


@pytest.fixture
def clock() -> LookedAtClock:
    return LookedAtClock()


@pytest.fixture
def held(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    """An engine on a clock that stands still."""
    running = Engine(tmp_path, CONFIG, clock, Files(), Durability.OS)
    yield running
    running.server.stop()
    assert not running.fatal


def make(server: RegionServer, snapshot_id: bytes = ID, lease_ms: int = 0, table: str = "t") -> None:
    server.make_snapshot(table, snapshot_id, lease_ms, "")


def seen(engine: Engine, snapshot_id: bytes = ID, plan: ScanPlan | None = None) -> Cells:
    """(row, family, qualifier, timestamp, value) of a scan of the snapshot."""
    with engine.server.region_at(engine.region.region_id, snapshot_id).scan(plan or ScanPlan()) as (_, answers):
        return [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()]


# ---- what it sees


def test_a_snapshot_sees_its_moment_over_pruning_and_flushes(held: Engine) -> None:
    for row in (b"a", b"b", b"c"):
        held.change(row, Put(b"f", b"q", b"old"), Put(b"g", b"q", b"old"))
    held.server.flush("t")
    held.change(b"b", Put(b"f", b"q", b"newer"))
    before = held.scan()
    make(held.server)
    for number in range(200):  # far more than a row has before it is pruned
        held.change(b"b", Put(b"f", b"q", b"%d" % number))
    held.change(b"a", Delete(DeleteKind.ROW))
    held.change(b"d", Put(b"f", b"q", b"late"))
    assert seen(held) == before
    for _ in range(2):
        held.server.flush("t")
        assert seen(held) == before
        held.change(b"b", Put(b"f", b"q", b"last"))
    assert held.scan() != before
    assert seen(held, plan=ScanPlan(ranges=((b"b", b"c"),))) == before[2:4]
    assert seen(held, plan=ScanPlan(reverse=True)) == [*before[4:], *before[2:4], *before[:2]]


def test_time_to_live_is_judged_by_the_moment_of_the_snapshot(held: Engine, clock: ManualClock) -> None:
    held.server.alter_table("t", [Family(0, b"f", time_to_live_ms=1000)])
    held.change(b"r", Put(b"f", b"q", b"1"))
    make(held.server)
    clock.advance(5000)
    held.server.flush("t")
    assert held.scan() == []
    assert [cell[4] for cell in seen(held)] == [b"1"]


def test_acknowledged_writes_are_seen_and_unpublished_ones_are_not(tmp_path: Path) -> None:
    files = HeldFiles()
    engine = Engine(tmp_path, CONFIG, Clock(), files, Durability.FSYNC)
    engine.change(b"a", Put(b"f", b"q", b"1"))
    files.may_sync.clear()
    published = threading.Event()
    mutation = RowMutation(b"b", (Put(b"f", b"q", b"2"),))
    options = WriteOptions(time.monotonic() + WAIT_S)
    engine.region.mutate([mutation], options, lambda _: published.set(), may_wait=True)
    make(engine.server)
    files.may_sync.set()
    assert published.wait(WAIT_S)
    assert [cell[0] for cell in seen(engine)] == [b"a"]
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    engine.server.stop()


def test_an_altered_table_is_read_as_it_is_now(held: Engine) -> None:
    held.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"2"))
    make(held.server)
    held.server.alter_table("t", drop_families=[b"g"])
    assert [cell[1] for cell in seen(held)] == [b"f"]
    with pytest.raises(FamilyNotFoundError):
        seen(held, plan=ScanPlan(Selection(columns=(ColumnSelector(b"g"),))))


def test_a_snapshot_from_before_a_lower_limit_of_versions_answers_the_same_over_flushes(held: Engine) -> None:
    for value in (b"1", b"2", b"3"):
        held.change(b"r", Put(b"g", b"q", value))
    make(held.server)
    held.server.alter_table("t", [Family(0, b"g", versions=1)])
    plan = ScanPlan(Selection(versions=3))
    before = seen(held, plan=plan)
    assert [cell[4] for cell in before] == [b"3"]
    for value in (b"4", b"5"):
        held.change(b"r", Put(b"g", b"q", value))
        held.server.flush("t")
        assert seen(held, plan=plan) == before


# ---- how it is made


@contextlib.contextmanager
def making(
    lone: LoneRegion, snapshots: Snapshots | None = None, threads: int = 1
) -> Iterator[tuple[Future[Snapshot], contextlib.ExitStack]]:
    """A snapshot of a region whose gate a write holds, in other threads: it waits for the gate, or is made already.

    Yields the call, and what leaves the gate when it is closed. The gate is left however the block ends, before the
    threads are waited for: they wait for it.
    """
    snapshots = snapshots or Snapshots(CONFIG, lone.clock)
    waiting = lone.parts.gate.statistics().exclusive_waiting
    with ThreadPoolExecutor(threads) as pool:
        with contextlib.ExitStack() as gate:
            gate.enter_context(lone.held_gate())
            calls = [pool.submit(snapshots.make, ID, lambda: [lone.region]) for _ in range(threads)]
            wait_until(lambda: calls[0].done() or lone.parts.gate.statistics().exclusive_waiting > waiting)
            yield calls[0], gate
        assert len({call.result(WAIT_S) for call in calls if not call.exception(WAIT_S)}) <= 1
    snapshots.stop()


def test_it_waits_for_writes_that_are_under_way_and_keeps_new_ones_out(lone: LoneRegion) -> None:
    with making(lone) as (made, gate):
        is_made, lets_in = made.done(), lone.parts.gate.try_enter()
        gate.close()
        made.result(WAIT_S)
    assert not is_made
    assert not lets_in


def test_no_write_begins_between_the_read_points_of_two_regions(tmp_path: Path) -> None:
    regions = []
    for region_id in (7, 8):
        (tmp_path / str(region_id)).mkdir()
        regions.append(LoneRegion(tmp_path / str(region_id), region_id=region_id))
    let_in: list[bool] = []
    for each in regions:
        each.steps.at_each(Step.READ_POINT, lambda: let_in.extend(region.parts.gate.try_enter() for region in regions))
    snapshots = Snapshots(CONFIG, Clock())
    snapshot = snapshots.make(ID, lambda: [each.region for each in regions])
    assert [region_id for region_id, _ in snapshot.read_points] == [7, 8]
    assert let_in == [False] * 4
    assert all(each.parts.gate.try_enter() for each in regions)
    snapshots.stop()
    for each in regions:
        each.parts.gate.leave()
        each.stop()


def test_no_region_drops_what_expires_after_the_moment_of_the_snapshot(tmp_path: Path) -> None:
    """Time passes while the regions are registered one after the other."""
    clock = ManualClock()
    regions = []
    for region_id in (7, 8):
        (tmp_path / str(region_id)).mkdir()
        regions.append(LoneRegion(tmp_path / str(region_id), clock=clock, region_id=region_id))
        regions[-1].steps.at_each(Step.READ_POINT, lambda: clock.advance(10))
    snapshots = Snapshots(CONFIG, clock)
    snapshot = snapshots.make(ID, lambda: [each.region for each in regions])
    clock.advance(10)
    for each in regions:
        assert each.parts.mvcc.oldest_now_ms() <= snapshot.made_ms
        with snapshots.reading(ID, each.region.region_id) as (_, rows_at, _):
            assert [at.read_point.now_ms for at in rows_at] == [snapshot.made_ms]
    snapshots.stop()
    for each in regions:
        each.stop()


def test_a_gate_that_is_not_left_in_time_changes_nothing(lone: LoneRegion) -> None:
    snapshots = Snapshots(Config(row_lock_wait_ms=0), lone.clock)
    with lone.held_gate(), pytest.raises(DeadlineError):
        snapshots.make(ID, lambda: [lone.region])
    assert snapshots.statistics().open_count == 0


def test_a_repeated_call_makes_no_second_one(held: Engine, clock: ManualClock) -> None:
    held.change(b"r", Put(b"f", b"q", b"1"))
    first = held.server.make_snapshot("t", ID, HOUR_MS, held.server.incarnation_id)
    held.change(b"r", Put(b"f", b"q", b"2"))
    clock.advance(HOUR_MS - 1)
    assert held.server.make_snapshot("t", ID, 5, "") == first
    clock.advance(HOUR_MS - 1)
    assert [cell[4] for cell in seen(held)] == [b"1"]
    assert held.server.statistics().snapshots.made_count == 1
    held.server.create_table("u", [Family(0, b"f")])
    with pytest.raises(InvalidRequestError, match="of table 't'"):
        make(held.server, table="u")


def test_calls_at_the_same_time_make_one(lone: LoneRegion) -> None:
    snapshots = Snapshots(CONFIG, lone.clock)
    with making(lone, snapshots, threads=3) as (made, gate):
        gate.close()
        made.result(WAIT_S)
    assert snapshots.statistics().made_count == 1


def test_there_is_a_bound_for_open_ones(held: Engine) -> None:
    make(held.server)
    make(held.server, OTHER_ID)
    with pytest.raises(RegionTooBusyError, match="snapshots_open_max") as caught:
        make(held.server, b"one more is too ")
    assert caught.value.retry_after_ms
    held.server.snapshots.end(ID)
    make(held.server, b"one more is too ")


@pytest.mark.parametrize("snapshot_id", [b"", b"x" * 15, b"x" * 17])
def test_an_invalid_id_is_refused(held: Engine, snapshot_id: bytes) -> None:
    calls: list[Callable[[], object]] = [
        lambda: make(held.server, snapshot_id),
        lambda: held.server.snapshots.renew(snapshot_id),
        lambda: held.server.snapshots.end(snapshot_id),
        lambda: seen(held, snapshot_id),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError, match="16 random bytes"):
            call()


def test_a_lease_longer_than_allowed_and_an_unknown_table_are_refused(held: Engine) -> None:
    with pytest.raises(LimitExceededError) as caught:
        make(held.server, lease_ms=24 * HOUR_MS + 1)
    assert (caught.value.limit, caught.value.limit_value) == ("snapshot_lease_ms_max", 24 * HOUR_MS)
    with pytest.raises(TableNotFoundError):
        make(held.server, table="nosuch")
    assert held.server.make_snapshot("t", ID, 24 * HOUR_MS, "").lease_ms == 24 * HOUR_MS


# ---- how it ends


def test_an_ended_snapshot_is_reported_as_ended_and_its_id_never_reused(held: Engine) -> None:
    make(held.server)
    held.server.snapshots.end(ID)
    held.server.snapshots.end(ID)
    for call in (make, lambda server: server.snapshots.renew(ID), lambda _: seen(held)):
        with pytest.raises(SnapshotEndedError, match=r"its holder ended it; make a new snapshot\Z") as caught:
            call(held.server)
        assert caught.value.table == "t"
        assert not caught.value.can_retry
    assert held.region.statistics().mvcc.registered_readers == 0


def test_an_end_that_comes_before_the_snapshot_holds(held: Engine) -> None:
    held.server.snapshots.end(ID)
    with pytest.raises(SnapshotEndedError, match=r"ended at .*: its holder ended it"):
        make(held.server)
    assert held.server.statistics().snapshots.open_count == 0


def test_an_end_that_comes_while_it_is_made_holds(lone: LoneRegion) -> None:
    snapshots = Snapshots(CONFIG, lone.clock)
    with making(lone, snapshots) as (made, gate):
        snapshots.end(ID)
        gate.close()
        with pytest.raises(SnapshotEndedError):
            made.result(WAIT_S)
    assert lone.parts.mvcc.statistics().registered_readers == 0


def test_the_oldest_ids_are_forgotten_beyond_a_bound(held: Engine) -> None:
    ids = [b"id %13d" % number for number in range(5)]
    for snapshot_id in ids:
        make(held.server, snapshot_id)
        held.server.snapshots.end(snapshot_id)
    assert held.server.statistics().snapshots.remembered_count == 3
    for snapshot_id in ids[2:]:
        with pytest.raises(SnapshotEndedError):
            make(held.server, snapshot_id)
    make(held.server, ids[0])


def test_an_id_that_was_chosen_before_a_restart_is_not_made(held: Engine) -> None:
    before = held.server.incarnation_id
    make(held.server)
    held.crash()
    with pytest.raises(SnapshotEndedError, match=r"is not available: .*restarted") as caught:
        seen(held)
    assert caught.value.ended_ms == 0
    with pytest.raises(SnapshotEndedError, match="restarted"):
        held.server.make_snapshot("t", ID, 0, before)
    held.server.make_snapshot("t", ID, 0, held.server.incarnation_id)


def test_a_snapshot_that_is_not_used_for_its_lease_ends(held: Engine, clock: LookedAtClock) -> None:
    held.change(b"r", Put(b"f", b"q", b"1"))
    look_count = clock.look_count
    make(held.server, lease_ms=HOUR_MS)
    wait_until(lambda: clock.look_count > look_count)  # From now on the thread sleeps for a real hour.
    for _ in range(3):
        clock.advance(HOUR_MS - 1)
        held.server.snapshots.renew(ID)
        clock.advance(HOUR_MS - 1)
        assert len(seen(held)) == 1
    clock.advance(HOUR_MS)
    ended_ms = clock.now_ms()
    reason = "it was not used for its lease of 3600 s"
    message = f"snapshot {ID.hex()} of table 't' ended at {time_text(ended_ms)}: {reason}; make a new snapshot"
    for call in (make, lambda server: server.snapshots.renew(ID), lambda _: seen(held)):
        with pytest.raises(SnapshotEndedError, match=f"^{re.escape(message)}$") as caught:
            call(held.server)
        assert (caught.value.ended_ms, caught.value.reason) == (ended_ms, reason)
        clock.advance(HOUR_MS)
    assert held.region.statistics().mvcc.registered_readers == 0
    assert held.server.statistics().snapshots.expired_count == 1


def test_a_scan_that_waited_too_long_to_begin_is_refused(held: Engine, clock: ManualClock) -> None:
    make(held.server, lease_ms=1000)
    region = held.server.region_at(held.region.region_id, ID)
    clock.advance(1000)
    with pytest.raises(SnapshotEndedError), region.scan(ScanPlan()):
        pass


def test_while_a_scan_reads_it_does_not_expire(held: Engine, clock: ManualClock) -> None:
    held.change(b"r", Put(b"f", b"q", b"1"))
    make(held.server, lease_ms=1000)
    with held.server.region_at(held.region.region_id, ID).scan(ScanPlan()):
        assert held.server.statistics().snapshots.scan_count == 1
        clock.advance(5000)
        held.server.snapshots.renew(ID)
        clock.advance(5000)
        held.change(b"r", Put(b"f", b"q", b"2"))
        assert [cell[4] for cell in seen(held)] == [b"1"]
    clock.advance(999)
    assert [cell[4] for cell in seen(held)] == [b"1"]
    clock.advance(1000)
    with pytest.raises(SnapshotEndedError):
        seen(held)


def test_a_scan_that_has_begun_goes_on_when_it_ends(held: Engine) -> None:
    for number in range(50):
        held.change(b"%03d" % number, Put(b"f", b"q", b"old"))
    make(held.server)
    with held.server.region_at(held.region.region_id, ID).scan(ScanPlan(batch_rows=10)) as (_, answers):
        count = next(answers).table.num_rows
        held.server.snapshots.end(ID)
        for number in range(50):
            held.change(b"%03d" % number, Put(b"f", b"q", b"new"))
        held.server.flush("t")
        for answer in answers:
            assert set(answer.table.column("value").to_pylist()) == {b"old"}
            count += answer.table.num_rows
    assert count == 50
    assert held.region.statistics().mvcc.registered_readers == 0


def test_the_thread_ends_unused_snapshots(held: Engine, clock: LookedAtClock) -> None:
    """It waits by the machine's clock, and looks at this one when it has."""
    snapshots = held.server.snapshots
    make(held.server, lease_ms=HOUR_MS)
    make(held.server, OTHER_ID, lease_ms=1)  # sooner than the thread's next check
    clock.advance(1)
    wait_until(lambda: snapshots.statistics().open_count == 1)
    assert held.region.statistics().mvcc.registered_readers == 1
    snapshots.end(ID)
    # While a scan reads, the thread has no deadline; the end of the scan wakes it.
    make(held.server, b"held by a scan..", lease_ms=1)
    with held.server.region_at(held.region.region_id, b"held by a scan..").scan(ScanPlan()):
        clock.advance(1)
        look_count = clock.look_count
        snapshots.renew(b"held by a scan..")
        wait_until(lambda: clock.look_count > look_count)
    clock.advance(1)
    wait_until(lambda: snapshots.statistics().open_count == 0)
    assert snapshots.statistics().expired_count == 2


def test_a_flush_drops_cells_that_only_an_ended_snapshot_saw(held: Engine) -> None:
    held.change(b"r", Put(b"f", b"q", b"0"))
    make(held.server)
    held.change(b"r", Put(b"f", b"q", b"1"))
    held.server.snapshots.end(ID)
    assert held.server.flush("t").cell_count == 1


def test_a_counter_stays_short_while_a_snapshot_is_held(held: Engine) -> None:
    held.change(b"r", Put(b"f", b"q", b"old"))
    make(held.server)
    for number in range(1000):
        held.change(b"r", Put(b"f", b"q", b"%d" % number))
    assert held.region.memstore_bytes < 200 * (CELL_BYTES + 10)
    assert held.server.flush("t").cell_count == 2
    assert [cell[4] for cell in seen(held)] == [b"old"]
    assert held.values(b"r") == {b"f:q": b"999"}


@pytest.mark.parametrize("what", ["dropped", "truncated"])
def test_it_ends_with_its_table(held: Engine, what: str) -> None:
    held.server.create_table("u", [Family(0, b"f")])
    held.change(b"r", Put(b"f", b"q", b"1"))
    region = held.region
    make(held.server)
    make(held.server, OTHER_ID, table="u")
    end = held.server.drop_table if what == "dropped" else held.server.truncate_table
    end("t")
    with pytest.raises(SnapshotEndedError, match=f"its table was {what}"):
        held.server.region_at(region.region_id, ID)
    with pytest.raises(SnapshotEndedError if what == "truncated" else TableNotFoundError):
        make(held.server)
    with pytest.raises(SnapshotEndedError, match=f"its table was {what}"):
        held.server.snapshots.renew(ID)
    assert region.statistics().mvcc.registered_readers == 0
    held.server.snapshots.renew(OTHER_ID)


def test_a_region_that_is_not_of_the_snapshot_is_to_be_looked_up_again(held: Engine) -> None:
    held.server.create_table("u", [Family(0, b"f")])
    (other,) = held.server.regions_of("u")
    make(held.server)
    with pytest.raises(NotServingRegionError, match="not among the regions of snapshot"):
        held.server.region_at(other.region_id, ID)


def test_a_region_that_went_before_it_was_made_is_to_be_looked_up_again(held: Engine) -> None:
    gone = held.region.region_id
    held.server.truncate_table("t")
    make(held.server)
    with pytest.raises(NotServingRegionError, match="look the region up again"):
        held.server.region_at(gone, ID)
    with pytest.raises(SnapshotEndedError):
        held.server.region_at(gone, OTHER_ID)


def test_a_table_that_goes_while_its_snapshot_is_made_leaves_none(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path)
    snapshots = Snapshots(CONFIG, lone.clock)

    def drop() -> None:
        lone.region.close_for_removal()
        snapshots.end_those_of(lone.region.table.table_id, "its table was dropped")

    with ThreadPoolExecutor(1) as pool, making(lone, snapshots) as (made, gate):
        dropping = pool.submit(drop)
        wait_until(lambda: dropping.done() or lone.parts.gate.statistics().exclusive_waiting == 2)
        gate.close()
        dropping.result(WAIT_S)
        # Whichever of the two had the gate first.
        failure = made.exception(WAIT_S)
        statistics = snapshots.statistics()
    assert failure is None or isinstance(failure, NotServingRegionError)
    assert (statistics.open_count, statistics.remembered_count) == (0, 0 if failure else 1)
    assert lone.parts.mvcc.statistics().registered_readers == 0
    lone.log.close()


def test_stopping_ends_all_and_makes_no_more(held: Engine) -> None:
    held.change(b"r", Put(b"f", b"q", b"0"))
    make(held.server)
    held.change(b"r", Put(b"f", b"q", b"1"))
    region, server = held.region, held.server
    held.restart()
    assert server.statistics().snapshots.open_count == 0
    assert region.statistics().mvcc.registered_readers == 0
    assert held.region.statistics().store_file_cells == 1, "the last flush kept cells that no reader can see"
    with pytest.raises(SnapshotEndedError, match="stopping"):
        server.snapshots.renew(ID)
    with pytest.raises(StoppingError):
        server.snapshots.make(OTHER_ID, lambda: [held.region])
    Snapshots(CONFIG, Clock()).stop()


def test_after_a_lack_of_threads_snapshots_end_as_before(
    held: Engine, clock: LookedAtClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            make(held.server, lease_ms=1000)
    make(held.server, OTHER_ID, lease_ms=1000)
    clock.advance(1000)
    wait_until(lambda: held.server.snapshots.statistics().open_count == 0)
