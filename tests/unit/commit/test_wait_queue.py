"""A queue of waiting threads, in a lock for one thread."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.commit.wait_queue import WaitQueue, seconds_text
from rowlock_regionserver.errors import DeadlineError, NotServingRegionError

from tests.seeds import drawn_seed
from tests.waiting import WAIT_S


def timed_out(seconds: float) -> DeadlineError:
    return DeadlineError(f"timed out after {seconds_text(seconds)}")


class OneHolder:
    """The least that an owner of the queue adds to it: a lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.mutex = threading.Lock()
        self.is_held = False
        self.queue = WaitQueue(self.mutex, clock or Clock())

    def acquire(self, deadline: float = math.inf) -> None:
        with self.mutex:
            if self.is_held:
                self.queue.wait(deadline, timed_out)
            else:
                self.is_held = True

    def release(self) -> None:
        with self.mutex:
            self.is_held = self.queue.hand_over()

    def waiting(self) -> int:
        with self.mutex:
            return len(self.queue)

    def started(self, target: Callable[[], None]) -> threading.Thread:
        """A thread that waits in the queue when this returns."""
        before = self.waiting()
        thread = threading.Thread(target=target)
        thread.start()
        while self.waiting() == before:
            threading.Event().wait(0.001)
        return thread


@pytest.fixture
def holder() -> OneHolder:
    held = OneHolder()
    held.acquire()
    return held


def test_the_lock_passes_on_in_the_order_of_arrival(holder: OneHolder) -> None:
    served: list[int] = []

    def take(number: int) -> None:
        holder.acquire(time.monotonic() + WAIT_S)
        served.append(number)
        holder.release()

    threads = [holder.started(lambda number=number: take(number)) for number in range(5)]  # type: ignore[misc]
    holder.release()
    for thread in threads:
        thread.join(WAIT_S)
    assert served == [0, 1, 2, 3, 4]
    assert not holder.is_held


def test_the_lock_stays_held_for_the_next_thread_before_that_runs(holder: OneHolder) -> None:
    thread = holder.started(lambda: holder.acquire(time.monotonic() + WAIT_S))
    holder.release()
    assert holder.is_held, "a new thread finds it free, although it was handed over"
    thread.join(WAIT_S)


def test_a_thread_that_times_out_is_passed_over(holder: OneHolder) -> None:
    with pytest.raises(DeadlineError, match=r"^timed out after 0 s$"):
        holder.acquire(time.monotonic())
    assert holder.waiting() == 0
    holder.release()
    assert not holder.is_held


def test_the_error_names_the_time_that_was_waited() -> None:
    class SlowClock(ManualClock):
        def monotonic(self) -> float:
            self.advance(2_500)
            return super().monotonic()

    holder = OneHolder(SlowClock())
    holder.acquire()
    with pytest.raises(DeadlineError, match=r"^timed out after 2.5 s$"):
        holder.acquire(0.0)


def test_hand_over_to_all_wakes_all_threads(holder: OneHolder) -> None:
    threads = [holder.started(holder.acquire) for _ in range(3)]
    with holder.mutex:
        assert holder.queue.hand_over_to_all() == 3
        assert len(holder.queue) == 0
    for thread in threads:
        thread.join(WAIT_S)


def test_refused_threads_raise_an_error_each(holder: OneHolder) -> None:
    errors: list[BaseException] = []

    def take() -> None:
        try:
            holder.acquire()
        except NotServingRegionError as error:
            errors.append(error)

    threads = [holder.started(take) for _ in range(2)]
    with holder.mutex:
        holder.queue.refuse_all(lambda: NotServingRegionError("closed"))
    for thread in threads:
        thread.join(WAIT_S)
    assert len({id(error) for error in errors}) == 2
    with holder.mutex:
        assert not holder.queue.hand_over()


def test_random_timeouts_neither_lose_the_lock_nor_hand_it_to_two_threads() -> None:
    holder = OneHolder()
    seed = drawn_seed()
    inside: list[int] = []

    def acquire_and_release(number: int) -> None:
        chance = random.Random(seed + number)
        for _ in range(500):
            try:
                holder.acquire(time.monotonic() + chance.choice([0, 0.0001, 0.0005, WAIT_S]))
            except DeadlineError:
                continue
            inside.append(number)
            assert inside == [number]
            inside.remove(number)
            holder.release()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(acquire_and_release, range(6)))
    assert holder.waiting() == 0
    assert not holder.is_held
