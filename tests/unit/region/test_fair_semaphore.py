"""The fair semaphore for background work."""

from __future__ import annotations

import threading
import time

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DeadlineError
from rowlock_regionserver.region.fair_semaphore import FairSemaphore, SemaphoreStatistics

from tests.waiting import WAIT_S


def test_no_more_permits_are_granted_than_there_are() -> None:
    permits = FairSemaphore(2, Clock())
    permits.acquire()
    permits.acquire()
    with pytest.raises(DeadlineError, match=r"other bulk batches and flushes held them all; nothing was changed"):
        permits.acquire(time.monotonic())
    permits.release()
    assert permits.statistics() == SemaphoreStatistics(free=1, waiting=0)


def test_a_released_permit_passes_to_the_thread_that_waits_and_not_to_a_newcomer() -> None:
    permits = FairSemaphore(1, Clock())
    permits.acquire()
    thread = threading.Thread(target=permits.acquire)
    thread.start()
    while not permits.statistics().waiting:
        threading.Event().wait(0.001)
    permits.release()
    assert permits.statistics() == SemaphoreStatistics(free=0, waiting=0)
    with pytest.raises(DeadlineError):
        permits.acquire(time.monotonic())
    thread.join(WAIT_S)
