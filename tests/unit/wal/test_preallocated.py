"""The thread that makes the log's next segment: it tries again, and wakes the log's writer after each try."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock_regionserver.wal.preallocated import RETRY_SECONDS, NoSpaceToStopError, PreallocatedSegment

from tests.crash.simulated_files import Call, SimulatedFiles
from tests.waiting import WAIT_S, wait_until
from tests.watched import Watched


def refuse_space(call: Call) -> None:
    if call.name == "allocate":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))


def test_a_try_without_space_wakes_the_writer_and_is_followed_by_another(disk: SimulatedFiles) -> None:
    failures: list[BaseException] = []
    preallocated = PreallocatedSegment(disk.root, disk, 1024, 0, failures.append)
    condition = preallocated._changed = Watched(preallocated._lock)
    disk.before_call = refuse_space
    with ThreadPoolExecutor(1) as threads:
        preallocated.thread.start()
        taken = threads.submit(preallocated.take)
        try:
            wait_until(lambda: preallocated.blocks_writer and condition.waiting_count == 2)
            assert condition.notified_count >= 2, "once when the segment was wanted, once after each try"
            assert RETRY_SECONDS in condition.timeouts
        finally:
            preallocated.stop_waiting()
        with pytest.raises(NoSpaceToStopError):
            taken.result(WAIT_S)
    preallocated.close()
    assert failures == []


def test_missing_space_is_logged_once_and_so_is_its_return(
    disk: SimulatedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    preallocated = PreallocatedSegment(disk.root, disk, 1024, 0, lambda error: None)
    condition = preallocated._changed = Watched(preallocated._lock)
    tries: list[str] = []

    def refuse_and_count(call: Call) -> None:
        tries.extend(["refused"] * (call.name == "allocate"))
        refuse_space(call)

    disk.before_call = refuse_and_count
    with ThreadPoolExecutor(1) as threads:
        preallocated.thread.start()
        taken = threads.submit(preallocated.take)
        try:
            wait_until(lambda: condition.waiting_count == 2)
            with condition:
                condition.notify_all()  # As after RETRY_SECONDS.
            wait_until(lambda: len(tries) >= 2 and condition.waiting_count == 2)
            lacking = f"{disk.root} lacks disk space or descriptors for the next log segment"
            assert caplog.messages == [lacking]
            disk.before_call = lambda call: None
            with condition:
                condition.notify_all()
            descriptor, _ = taken.result(WAIT_S)
            disk.close(descriptor)
            assert caplog.messages == [lacking, f"{disk.root} has space for the next log segment again"]
        finally:
            preallocated.stop_waiting()
    preallocated.close()
