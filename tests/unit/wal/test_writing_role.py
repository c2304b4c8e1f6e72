"""The writing role: a caller writes its own records, and no record is ever left without a thread that will write it.

The first half steps `Pending` by hand: one thread runs the writer's `wait`, and the test acts as the caller that claims
the role and as all other threads. The second half uses a whole log on a simulated disk.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.wal import writer
from rowlock_regionserver.wal.opening import BegunSegment
from rowlock_regionserver.wal.pending import Holder, Pending
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import SegmentHeader

from tests.crash.simulated_files import Call, SimulatedFiles
from tests.unit.wal.log_case import Change, LogCase, read_all, small_config
from tests.waiting import WAIT_S, wait_until
from tests.watched import Watched

IDLE_MS = 3_600_000
# The writer does not wake up for a marker: it must be woken.
_NEVER_IDLE = {"log_idle_marker_ms": IDLE_MS, "log_quick_sync_us": IDLE_MS * 1000}
_MUCH = 1 << 20
# The time limit for a thread that was not woken, as in a broken build.
_WOKEN_SECONDS = 10.0


@dataclass
class Steps:
    """A `Pending` whose writer waits in a thread of its own."""

    pending: Pending
    condition: Watched
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    completed: list[str] = field(default_factory=list)

    def writer_waits(self) -> Future[bool | None]:
        """Lets the writer wait, and returns when it does."""
        found = self.threads.submit(self.pending.wait, IDLE_MS)
        wait_until(lambda: self.condition.waiting_count == 1)
        return found

    def append(self, name: str, durability: Durability = Durability.OS, size: int = 10) -> None:
        with self.pending.order:
            number = self.pending.appended_records + 1
            self.pending.append(1, number, 1, bytes(size), durability, lambda: self.completed.append(name))

    def marked(self) -> None:
        """Makes the end of the log a marker's, so that the writer waits for no other."""
        self.pending._marker_end = self.pending.end()

    def look(self) -> None:
        with self.pending.order:
            self.pending._check()


@pytest.fixture
def steps() -> Iterator[Steps]:
    conditions: list[Watched] = []

    def watched(lock: threading.Lock) -> Watched:
        conditions.append(Watched(lock))
        return conditions[0]

    begun = BegunSegment(SegmentHeader(1, bytes(16), 0, 0), 0, 64, 64, _MUCH)
    pending = Pending(begun, Recovered(bytes(16)), _MUCH, ManualClock(), watched)
    (condition,) = conditions
    steps = Steps(pending, condition)
    yield steps
    steps.pending.fail(StoppingError("the test is over"))
    if steps.pending._holder is Holder.CALLER:
        steps.pending.release()
    steps.threads.shutdown()


def test_a_caller_takes_its_record_and_wakes_nobody(steps: Steps) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own")
    batch = steps.pending.take_claimed(_MUCH, _MUCH)
    assert batch is not None
    assert len(batch.completes) == 1
    steps.pending.release()
    assert steps.condition.notified_count == 0, "the writer was woken for nothing"
    assert not waiting.done()
    steps.look()


@pytest.mark.parametrize("durability", list(Durability))
def test_a_record_of_another_thread_that_the_caller_leaves_wakes_the_writer_at_the_release(
    steps: Steps, durability: Durability
) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own")
    assert steps.pending.take_claimed(_MUCH, _MUCH) is not None
    steps.append("another's", durability)
    assert steps.condition.notified_count == 0, "the writer was woken while a caller writes"
    steps.pending.release()
    steps.look()
    assert steps.condition.notified_count == 1, "nobody will write the record"
    assert waiting.result(_WOKEN_SECONDS)
    (batch,) = steps.pending.take()
    batch.completes[0]()
    assert steps.completed == ["another's"]


def test_a_note_of_another_thread_wakes_the_writer_at_the_release(steps: Steps) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    with steps.pending.order:
        steps.pending.note_catalog(2)
    assert steps.pending.take_claimed(_MUCH, _MUCH) is None, "a caller would have to sync"
    steps.pending.release()
    assert steps.condition.notified_count == 1
    assert waiting.result(_WOKEN_SECONDS)


def test_the_role_is_not_claimed_while_records_are_pending(steps: Steps) -> None:
    steps.pending._holder = Holder.NO_THREAD  # as after a wake-up, before the writer's thread has run
    steps.append("earlier")
    assert not steps.pending.claim()


def test_the_role_has_one_holder(steps: Steps) -> None:
    assert not steps.pending.claim(), "the writer has not begun to wait"
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    assert not steps.pending.claim()
    steps.append("own", Durability.FSYNC)
    steps.pending.release()
    assert waiting.result(_WOKEN_SECONDS)
    steps.pending.take()
    assert not steps.pending.claim(), "the writer writes"


def test_the_writer_that_wakes_during_a_claim_waits_for_its_end(steps: Steps) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own", Durability.FSYNC)
    with steps.pending.order:
        steps.condition.notify()  # as a spurious wake-up, or the time for a marker
    wait_until(lambda: len(steps.condition.timeouts) == 2)
    wait_until(lambda: steps.condition.waiting_count == 1)
    assert not waiting.done()
    steps.pending.release()
    assert waiting.result(_WOKEN_SECONDS)


def test_after_a_failure_during_a_claim_the_writer_ends_only_when_the_role_is_released(steps: Steps) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own")
    steps.pending.fail(OSError(errno.EIO, "broken"))
    wait_until(lambda: len(steps.condition.timeouts) == 2)
    wait_until(lambda: steps.condition.waiting_count == 1)
    assert not waiting.done(), "the writer would close a file that a caller writes"
    assert steps.pending.take_claimed(_MUCH, _MUCH) is None, "the log has failed"
    steps.pending.release()
    assert isinstance(waiting.exception(_WOKEN_SECONDS), OSError)
    assert not steps.pending.claim()
    assert steps.completed == []


@pytest.mark.parametrize("is_failure", [True, False])
def test_a_log_that_ends_during_a_claim_ends_its_writer_when_the_role_is_released(
    steps: Steps, *, is_failure: bool
) -> None:
    """Also if nothing is pending, and no marker is due."""
    steps.marked()
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    if is_failure:
        steps.pending.fail(OSError(errno.EIO, "broken"))
    else:
        with steps.pending.order:
            steps.pending.close()
    wait_until(lambda: len(steps.condition.timeouts) == 2)
    wait_until(lambda: steps.condition.waiting_count == 1)
    assert not waiting.done()
    steps.pending.release()
    if is_failure:
        assert isinstance(waiting.exception(_WOKEN_SECONDS), OSError)
    else:
        assert waiting.result(_WOKEN_SECONDS) is None
    assert not steps.pending.claim()


def test_a_caller_writes_its_record_although_the_log_is_closed_meanwhile(steps: Steps) -> None:
    waiting = steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own")
    with steps.pending.order:
        steps.pending.close()
    assert steps.pending.take_claimed(_MUCH, _MUCH) is not None
    steps.pending.release()
    assert waiting.result(_WOKEN_SECONDS) is None


def test_a_caller_wakes_the_writer_once_when_no_time_for_the_next_marker_is_set(steps: Steps) -> None:
    steps.marked()
    waiting = steps.writer_waits()
    assert steps.condition.timeouts == [None]
    assert steps.pending.claim()
    steps.append("own")
    assert steps.pending.take_claimed(_MUCH, _MUCH) is not None
    steps.pending.release()
    wait_until(lambda: len(steps.condition.timeouts) == 2)
    wait_until(lambda: steps.condition.waiting_count == 1)
    assert steps.condition.timeouts[1] is not None, "no marker would follow the record"
    assert steps.pending.claim()
    steps.append("own")
    assert steps.pending.take_claimed(_MUCH, _MUCH) is not None
    steps.pending.release()
    assert steps.condition.notified_count == 1
    assert not waiting.done()


def test_a_caller_leaves_a_long_batch_and_the_end_of_a_segment_to_the_writer(steps: Steps) -> None:
    steps.writer_waits()
    assert steps.pending.claim()
    steps.append("own", size=500)
    assert steps.pending.take_claimed(500, _MUCH) is None
    assert steps.pending.take_claimed(_MUCH, 600) is None
    steps.append("longer than the segment", size=_MUCH)
    assert steps.pending.take_claimed(2 * _MUCH, 2 * _MUCH) is None, "a caller would have to begin a segment"
    steps.pending.release()
    assert len(steps.pending.take()) == 2


# A whole log


@pytest.fixture
def own(disk: SimulatedFiles) -> Iterator[LogCase]:
    """A log in which callers may write, and whose writer has done its part and waits."""
    case = LogCase(disk.root / "log", disk, small_config(**_NEVER_IDLE)).open()
    writer_waits(case)
    yield case
    disk.before_call = lambda call: None
    case.log.close()


def writer_waits(case: LogCase) -> None:
    wait_until(lambda: case.log._pending._holder is Holder.NO_THREAD)


def wait_for(case: LogCase, change: Change) -> None:
    case.wait(lambda: change in case.completed)


def test_a_record_at_os_is_written_and_completed_by_its_caller(own: LogCase, disk: SimulatedFiles) -> None:
    writers: list[threading.Thread] = []
    disk.before_call = lambda call: writers.append(threading.current_thread())
    syncs = disk.count("fdatasync")
    for number in range(5):
        with own.log.claim_writing():
            change = own.append(1, b"%d" % number, Durability.OS)
            assert change not in own.completed
        assert change in own.completed
    assert set(writers) == {threading.current_thread()}
    assert disk.count("fdatasync") == syncs
    assert read_all(own.folder)[1] == own.completed == own.appended
    statistics = own.log.statistics()
    assert statistics.claimed_batch_count == statistics.batch_count == 5
    assert statistics.pending_bytes == 0


def test_a_record_that_waits_for_a_sync_is_left_to_the_writer(own: LogCase, disk: SimulatedFiles) -> None:
    synced_by: list[str] = []
    disk.before_call = lambda call: synced_by.append(threading.current_thread().name)
    with own.log.claim_writing():
        own.append(1, b"quick", Durability.OS)
        change = own.append(1, b"synced", Durability.FSYNC)
    own.wait(lambda: change in own.completed)
    assert set(synced_by) == {"log-writer"}
    assert own.log.statistics().claimed_batch_count == 0


def test_what_other_threads_append_and_note_during_a_claim_is_written_too(own: LogCase) -> None:
    """A worker of a table's creation notes the catalog just then: its wake-up must not get lost."""
    noted = threading.Event()

    def note() -> None:
        own.append(2, b"another's", Durability.FSYNC)
        with own.log.order:
            own.log.note_catalog(2)
        noted.set()

    with own.log.claim_writing():
        own.append(1, b"own", Durability.OS)
        threading.Thread(target=note).start()
        assert noted.wait(WAIT_S)
    wait_until(lambda: own.completed == own.appended, _WOKEN_SECONDS)
    own.log._check()


@pytest.mark.parametrize("is_write", [True, False])
def test_a_failure_of_a_caller_is_final_and_is_reported_by_the_logs_thread(
    own: LogCase, disk: SimulatedFiles, *, is_write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported_by: list[str] = []
    monkeypatch.setattr(own.log, "_on_failure", lambda error: reported_by.append(threading.current_thread().name))

    def broken() -> None:
        raise ValueError("a bug in a completion")

    if is_write:
        disk.fail_next("pwrite", errno.EIO)
    with own.log.claim_writing(), own.log.order:
        own.log.append(1, 1, 1, b"lost", Durability.OS, broken)
    wait_until(lambda: reported_by == ["log-writer"], _WOKEN_SECONDS)
    with pytest.raises(StoppingError):
        own.log.append(1, 2, 1, b"never", Durability.OS, broken)
    own.log._writer.thread.join(WAIT_S)


def test_a_caller_whose_appending_fails_releases_the_role(own: LogCase) -> None:
    with pytest.raises(ValueError, match="refused"), own.log.claim_writing():
        raise ValueError("refused")
    with own.log.claim_writing():
        change = own.append(1, b"next", Durability.OS)
    assert change in own.completed


def test_only_the_writer_begins_segments(own: LogCase, disk: SimulatedFiles) -> None:
    """A segment has room for a few records only, so that many of them begin one."""
    by_name: dict[str, set[str]] = {}
    lock = threading.Lock()

    def before(call: Call) -> None:
        with lock:
            by_name.setdefault(call.name, set()).add(threading.current_thread().name)

    disk.before_call = before
    for number in range(60):
        with own.log.claim_writing():
            change = own.append(1, b"%d" % number * 40, Durability.OS)
        wait_for(own, change)
        writer_waits(own)
    assert own.log.statistics().segment > 3
    assert own.log.statistics().claimed_batch_count > 20
    assert threading.current_thread().name in by_name["pwrite"]
    assert by_name["rename"] == by_name["fdatasync"] == {"log-writer"}
    assert by_name["allocate"] == {"log-preallocate"}
    assert own.completed == own.appended
    assert read_all(own.folder)[1] == own.appended


def test_an_idle_marker_follows_what_callers_wrote(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=IDLE_MS * 1000)).open()
    for _ in range(3):
        writer_waits(case)
        with case.log.claim_writing():
            case.append(1, b"written", Durability.OS)
        mark(case)
    case.log.close()


def mark(case: LogCase) -> None:
    """Lets time pass, and waits for the marker that proves everything before it durable."""
    end = case.log._pending.end()
    case.clock.advance(1000)
    wait_until(lambda: case.log.durable > end, _WOKEN_SECONDS)


def test_callers_write_no_more_for_a_while_after_a_slow_write(
    disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(writer, "time", SimpleNamespace(perf_counter=lambda: now))
    case = LogCase(disk.root / "log", disk, small_config(log_idle_marker_ms=IDLE_MS, log_quick_sync_us=1000)).open()
    writer_waits(case)

    def slow(call: Call) -> None:
        nonlocal now
        now += 0.002

    def is_claimed() -> bool:
        before = case.log.statistics().claimed_batch_count
        with case.log.claim_writing():
            change = case.append(1, b"x", Durability.OS)
        wait_for(case, change)
        writer_waits(case)
        return case.log.statistics().claimed_batch_count > before

    assert is_claimed()
    disk.before_call = slow
    assert is_claimed()
    disk.before_call = lambda call: None
    now += 0.017
    assert not is_claimed()
    now += 0.002
    assert is_claimed()
    case.log.close()


def test_no_caller_writes_when_the_limit_is_zero(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=0)).open()
    writer_waits(case)
    with case.log.claim_writing():
        change = case.append(1, b"x", Durability.OS)
    case.wait(lambda: change in case.completed)
    assert case.log.statistics().claimed_batch_count == 0
    case.log.close()
