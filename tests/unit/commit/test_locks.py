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

SOON = 0.02


def in_s(seconds: float) -> float:
    return time.monotonic() + seconds


def test_a_locked_row_is_refused_to_whoever_may_not_wait() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"a", b"b"])
    assert not locks.try_acquire([b"b", b"c"])
    assert locks.try_acquire([b"c"])


def test_refused_locks_leave_none_taken() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"b"])
    assert not locks.try_acquire([b"a", b"b"])
    assert locks.try_acquire([b"a"])


def test_waiting_past_the_deadline_gives_up_with_nothing_taken() -> None:
    locks = RowLocks(Clock())
    assert locks.try_acquire([b"b"])
    with pytest.raises(DeadlineError, match=r"timed out after [0-9.]+ s waiting for the lock of row b'b'") as caught:
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
        thread.join(120)
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
        thread.join(120)
    assert set(counts.values()) == {1200}


def test_the_gate_held_alone_waits_for_those_inside_and_keeps_newcomers_out() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    inside = threading.Event()

    def hold() -> None:
        with gate.exclusive():
            inside.set()

    holder = threading.Thread(target=hold)
    holder.start()
    while gate.try_enter():  # Until the holder waits.
        gate.leave()
    assert not inside.is_set()
    with pytest.raises(DeadlineError, match=r"timed out after [0-9.]+ s waiting for region 7: changes of rows held it"):
        gate.enter(in_s(SOON))
    gate.leave()
    holder.join(120)
    assert inside.is_set()
    gate.enter(in_s(120))
    gate.leave()


def test_many_pass_the_gate_together() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    assert gate.try_enter()
    gate.leave()
    gate.leave()


def test_who_waits_for_the_gate_is_let_in_between_two_that_hold_it_alone() -> None:
    gate = Gate(7, Clock())
    came_in: list[str] = []

    def pass_through() -> None:
        gate.enter(in_s(120))
        came_in.append("shared")
        gate.leave()

    def hold() -> None:
        with gate.exclusive():
            came_in.append("alone")

    threads = [threading.Thread(target=hold), *[threading.Thread(target=pass_through) for _ in range(3)]]
    with gate.exclusive():
        for thread in threads:
            thread.start()
        while gate.statistics() != GateStatistics(shared_waiting=3, exclusive_waiting=1):
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(120)
    assert came_in == ["shared", "shared", "shared", "alone"]
    assert gate.statistics() == GateStatistics(0, 0)


def test_those_that_hold_the_gate_alone_come_in_the_order_of_arrival() -> None:
    gate = Gate(7, Clock())
    came_in: list[int] = []

    def hold(number: int) -> None:
        with gate.exclusive():
            came_in.append(number)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(4)]
    with gate.exclusive():
        for number, thread in enumerate(threads):
            thread.start()
            while gate.statistics().exclusive_waiting != number + 1:
                threading.Event().wait(0.001)
    for thread in threads:
        thread.join(120)
    assert came_in == [0, 1, 2, 3]


def test_those_who_waited_behind_one_that_gives_up_the_gate_alone_come_in() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    gave_up: list[DeadlineError] = []

    def hold_soon() -> None:
        try:
            gate.enter_alone(in_s(0.2))
        except DeadlineError as error:
            gave_up.append(error)

    holder = threading.Thread(target=hold_soon)
    holder.start()
    while not gate.statistics().exclusive_waiting and not gave_up:
        threading.Event().wait(0.001)
    gate.enter(in_s(120))
    holder.join(120)
    assert len(gave_up) == 1
    gate.leave()
    gate.leave()
    gate.enter_alone(in_s(120))


def test_whoever_gives_up_at_the_gate_leaves_nobody_waiting() -> None:
    gate = Gate(7, Clock())
    seed = drawn_seed()
    inside = {"shared": 0, "alone": 0}
    counted = threading.Lock()

    def count(kind: str, by: int) -> None:
        with counted:
            inside[kind] += by
            assert not inside["alone"] or (inside["alone"], inside["shared"]) == (1, 0), inside

    def come_and_go(number: int) -> None:
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
        list(pool.map(come_and_go, range(8)))
    assert gate.statistics() == GateStatistics(0, 0)
    with gate.exclusive(in_s(120)):
        pass
