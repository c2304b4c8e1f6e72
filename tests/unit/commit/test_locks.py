"""Row locks and the gate."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.gate import Gate, GateStatistics
from rowlock_regionserver.commit.row_locks import RowLocks
from rowlock_regionserver.errors import DeadlineError

from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

SOON = 0.02


def in_s(seconds: float) -> float:
    return time.monotonic() + seconds


def test_try_acquire_refuses_a_locked_row() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"a", b"b"])
    assert not locks.try_acquire([b"b", b"c"])
    assert locks.try_acquire([b"c"])


def test_a_refused_try_acquire_takes_no_lock() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"b"])
    assert not locks.try_acquire([b"a", b"b"])
    assert locks.try_acquire([b"a"])


def test_a_wait_that_times_out_takes_no_lock() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"b"])
    with pytest.raises(DeadlineError, match=r"timed out after [0-9.]+ s waiting for the lock of row 'b'") as caught:
        locks.acquire([b"a", b"b"], in_s(SOON))
    assert caught.value.row == b"b"
    locks.release([b"b"])
    assert locks.statistics().held == 0
    assert locks.statistics().waiting == 0


def test_locks_pass_on_in_the_order_of_arrival() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"a"])
    served: list[int] = []

    def writer(number: int) -> None:
        locks.acquire([b"a"], in_s(120))
        served.append(number)
        locks.release([b"a"])

    threads = []
    for number in range(5):
        thread = threading.Thread(target=writer, args=(number,))
        thread.start()
        threads.append(thread)
        while locks.statistics().waiting != number + 1:
            threading.Event().wait(0.001)
    assert not locks.try_acquire([b"a"])
    locks.release([b"a"])
    for thread in threads:
        thread.join(WAIT_S)
    assert served == [0, 1, 2, 3, 4]


def test_writers_of_the_same_rows_never_wait_in_a_circle() -> None:
    locks = RowLocks(Clock())
    rows = [b"a", b"b", b"c"]
    counts = dict.fromkeys(rows, 0)

    def writer() -> None:
        for _ in range(300):
            locks.acquire(rows, in_s(120))
            for row in rows:
                counts[row] += 1
            locks.release(rows)

    threads = [threading.Thread(target=writer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert set(counts.values()) == {1200}


def test_an_exclusive_waiter_waits_for_shared_holders_and_bars_new_ones() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    inside = threading.Event()

    def hold() -> None:
        with gate.exclusive():
            inside.set()

    holder = threading.Thread(target=hold)
    holder.start()
    while gate.try_enter():  # Until the other thread waits.
        gate.leave()
    assert not inside.is_set()
    with pytest.raises(DeadlineError, match=r"timed out after [0-9.]+ s waiting for region 7: changes of rows held it"):
        gate.enter(in_s(SOON))
    gate.leave()
    holder.join(WAIT_S)
    assert inside.is_set()
    gate.enter(in_s(120))
    gate.leave()


def test_many_threads_hold_the_gate_shared_at_once() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    assert gate.try_enter()
    gate.leave()
    gate.leave()


def test_a_shared_phase_lies_between_two_exclusive_ones() -> None:
    gate = Gate(7, Clock())
    entered: list[str] = []

    def pass_through() -> None:
        gate.enter(in_s(120))
        entered.append("shared")
        gate.leave()

    def hold() -> None:
        with gate.exclusive():
            entered.append("alone")

    threads = [threading.Thread(target=hold), *[threading.Thread(target=pass_through) for _ in range(3)]]
    with gate.exclusive():
        for thread in threads:
            thread.start()
        while gate.statistics() != GateStatistics(shared_waiting=3, exclusive_waiting=1):
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(WAIT_S)
    assert entered == ["shared", "shared", "shared", "alone"]
    assert gate.statistics() == GateStatistics(0, 0)


def test_exclusive_waiters_get_the_gate_in_the_order_of_arrival() -> None:
    gate = Gate(7, Clock())
    entered: list[int] = []

    def hold(number: int) -> None:
        with gate.exclusive():
            entered.append(number)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(4)]
    with gate.exclusive():
        for number, thread in enumerate(threads):
            thread.start()
            while gate.statistics().exclusive_waiting != number + 1:
                threading.Event().wait(0.001)
    for thread in threads:
        thread.join(WAIT_S)
    assert entered == [0, 1, 2, 3]


def test_shared_waiters_get_the_gate_when_the_exclusive_waiter_before_them_times_out() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    gave_up: list[DeadlineError] = []

    def hold_soon() -> None:
        try:
            gate.enter_exclusive(in_s(0.2))
        except DeadlineError as error:
            gave_up.append(error)

    holder = threading.Thread(target=hold_soon)
    holder.start()
    while not gate.statistics().exclusive_waiting and not gave_up:
        threading.Event().wait(0.001)
    gate.enter(in_s(120))
    holder.join(WAIT_S)
    assert len(gave_up) == 1
    gate.leave()
    gate.leave()
    gate.enter_exclusive(in_s(120))


def test_a_thread_that_times_out_at_the_gate_leaves_no_thread_waiting() -> None:
    gate = Gate(7, Clock())
    seed = drawn_seed()
    inside = {"shared": 0, "alone": 0}
    counted = threading.Lock()

    def count(kind: str, by: int) -> None:
        with counted:
            inside[kind] += by
            assert not inside["alone"] or (inside["alone"], inside["shared"]) == (1, 0), inside

    def enter_and_leave(number: int) -> None:
        chance = random.Random(seed + number)
        for _ in range(300):
            deadline = in_s(chance.choice([0, 0.0002, 0.001, 120]))
            try:
                if chance.random() < 0.4:
                    with gate.exclusive(deadline):
                        count("alone", 1)
                        count("alone", -1)
                else:
                    if not gate.try_enter():
                        gate.enter(deadline)
                    count("shared", 1)
                    count("shared", -1)
                    gate.leave()
            except DeadlineError:
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter_and_leave, range(8)))
    assert gate.statistics() == GateStatistics(0, 0)
    with gate.exclusive(in_s(120)):
        pass
