"""For callers that block for a quick sync: whether syncs are quick, and when the writer is woken."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.wal.opening import BegunSegment
from rowlock_regionserver.wal.pending import Pending
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import SegmentHeader

from tests.crash.simulated_files import SimulatedFiles
from tests.unit.wal.log_case import LogCase, small_config
from tests.unit.wal.test_appending import Gate
from tests.waiting import WAIT_S, wait_until
from tests.watched import Watched

# The time limit for a thread that was not woken, as in a broken build.
_WOKEN_SECONDS = 10.0
# The writer does not wake up for a marker: it must be woken.
_NEVER_IDLE = {"log_idle_marker_ms": 3_600_000}


def test_a_disk_counts_as_slow_until_it_is_measured_and_as_quick_after_some_quick_syncs(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=900_000)).open()
    assert not case.log.is_quick
    case.append_synced(1, b"one sync of a disk that takes less")
    wait_until(lambda: case.log.is_quick)
    case.log.close()


def test_no_disk_is_quick_when_the_limit_is_zero(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=0)).open()
    case.append_synced(1, b"x")
    assert not case.log.is_quick
    case.log.close()


def test_what_is_appended_while_the_log_is_held_wakes_the_writer_when_it_is_released() -> None:
    conditions: list[Watched] = []

    def watched(lock: threading.Lock) -> Watched:
        conditions.append(Watched(lock))
        return conditions[0]

    begun = BegunSegment(SegmentHeader(1, bytes(16), 0, 0), 0, 64, 64, 1 << 20)
    pending = Pending(begun, Recovered(bytes(16)), 1 << 20, ManualClock(), watched)
    (condition,) = conditions
    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(pending.wait, 3_600_000)
        try:
            wait_until(lambda: condition.waiting_count == 1)
            pending.defer_wakeup()
            with pending.order:
                pending.append(1, 1, 1, b"held", Durability.FSYNC, lambda: None)
            assert condition.notified_count == 0, "the writer was woken"
            pending.resume_wakeup()
            assert condition.notified_count == 1, "the writer was not woken"
            wait_until(writer.done)
        finally:
            pending.fail(StoppingError("the test is over"))


def test_records_of_other_threads_while_the_wakeup_is_deferred_are_written_too(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(**_NEVER_IDLE)).open()
    case.append_synced(1, b"before")
    case.log.defer_wakeup()
    other = threading.Thread(target=case.append, args=(2, b"other's"))
    other.start()
    other.join()
    case.log.resume_wakeup()
    wait_until(lambda: case.completed == case.appended, _WOKEN_SECONDS)
    case.log.close()


def test_resuming_the_wakeup_during_a_sync_does_not_block(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(**_NEVER_IDLE)).open()
    gate = Gate(disk, "fdatasync")
    case.append(1, b"first")
    assert gate.reached.wait(WAIT_S)
    case.log.defer_wakeup()
    case.append(2, b"second")
    case.log.resume_wakeup()
    assert case.completed == []
    gate.opened.set()
    case.wait(lambda: case.completed == case.appended)
    case.log.close()
