"""Waiting for locks: with a bound, for threads and on the event loop; and what a refusal says."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LockUnavailableError, RegionTooBusyError
from rowlock_regionserver.locks.lock import LockHolder, LockKey, LockState, Mode, Wanted, wanted_of
from rowlock_regionserver.locks.table_locks import Caller, TableLocks
from rowlock_regionserver.sessions.session import SessionRef

from tests.waiting import WAIT_S

EXCLUSIVE: Wanted = wanted_of([(LockKey("t"), Mode.EXCLUSIVE)])
SHARED: Wanted = wanted_of([(LockKey("t"), Mode.SHARED)])


def nothing() -> None:
    """Called when a request is granted that no test looks at."""


def locks_of(config: Config | None = None) -> TableLocks:
    return TableLocks(config or Config(), ManualClock(), itertools.count(1).__next__)


def holder(name: str, purpose: str = "a load") -> LockHolder:
    return LockHolder(name, f"{name}@host", purpose, SessionRef(name, 1), is_explicit=True)


def test_a_refusal_names_the_holders_and_leaves_nothing() -> None:
    locks = locks_of()
    locks.request(holder("ana"), EXCLUSIVE, 0, nothing)
    with pytest.raises(
        LockUnavailableError,
        match=r"the exclusive lock of table 't' was refused: it is held, or wanted earlier, by ana \(a load\); nothing",
    ) as caught:
        locks.request(holder("kim"), EXCLUSIVE, 0, nothing)
    assert (caught.value.holders, caught.value.table, caught.value.can_retry) == (("ana",), "t", True)
    assert [info.holder.holder_id for info in locks.infos()] == ["ana"]
    assert (locks.statistics().held_count, locks.statistics().refused_count) == (1, 1)
    locks._check()


def test_a_thread_waits_for_its_time_and_no_longer() -> None:
    locks = locks_of()
    with (
        locks.holding(holder("ana"), SHARED, 0),
        pytest.raises(LockUnavailableError, match=r"refused after 0\.01 s"),
        locks.holding(holder("kim"), EXCLUSIVE, 0.01),
    ):
        pass
    assert locks.infos() == []


def test_a_waiting_thread_is_let_in_when_the_holder_leaves() -> None:
    locks, entered = locks_of(), threading.Event()

    def wait() -> None:
        with locks.holding(holder("kim"), EXCLUSIVE, WAIT_S):
            entered.set()

    with locks.holding(holder("ana"), SHARED, 0):
        thread = threading.Thread(target=wait)
        thread.start()
        while not locks.statistics().waiting_count:
            threading.Event().wait(0.001)
        assert not entered.is_set()
    assert entered.wait(WAIT_S)
    thread.join(WAIT_S)
    assert locks.infos() == []


def test_the_loop_waits_without_a_thread_and_a_cancelled_wait_leaves_nothing() -> None:
    locks = locks_of()

    async def test() -> None:
        first = await locks.taken(holder("ana"), EXCLUSIVE, 0)
        waiting = asyncio.create_task(locks.taken(holder("kim"), EXCLUSIVE, WAIT_S))
        given_up = asyncio.create_task(locks.taken(holder("eve"), SHARED, WAIT_S))
        await asyncio.sleep(0)
        assert [info.waits_for for info in locks.infos() if info.state is LockState.WAITING] == [
            ("ana",),
            ("ana", "kim"),
        ]
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        locks.release(first)
        second = await waiting
        assert second.number > first.number
        locks.release(second)
        locks.release(second)

    asyncio.run(test())
    assert locks.infos() == []


def test_a_withdrawn_request_wakes_up_and_is_refused() -> None:
    locks = locks_of()

    async def test() -> None:
        await locks.taken(holder("ana"), EXCLUSIVE, 0)
        request, granted = locks.requested(holder("kim"), SHARED, WAIT_S)
        waiting = asyncio.create_task(locks.until_granted(request, granted, WAIT_S))
        await asyncio.sleep(0)
        locks.withdraw(request)
        with pytest.raises(LockUnavailableError, match="was withdrawn"):
            await waiting

    asyncio.run(test())


def test_an_exclusive_request_passes_however_many_shared_ones_arrive() -> None:
    """It waits for those that were there before it, and for none that came after."""
    locks = locks_of()
    before = [locks.request(holder(f"s{number}"), SHARED, 0, nothing) for number in range(50)]
    exclusive = locks.request(holder("x"), EXCLUSIVE, WAIT_S, nothing)
    for number in range(500):
        locks.request(holder(f"later{number}"), SHARED, WAIT_S, nothing)
    for request in before:
        assert not locks.is_held(exclusive)
        locks.release(request)
    assert locks.is_held(exclusive)
    assert locks.statistics().waiting_count == 500
    locks.release(exclusive)
    assert (locks.statistics().waiting_count, locks.statistics().held_count) == (0, 500)


def test_a_request_that_does_not_wait_has_no_place_in_the_queue() -> None:
    locks = locks_of()
    first = locks.request(holder("ana"), SHARED, 0, nothing)
    with pytest.raises(LockUnavailableError):
        locks.request(holder("kim"), EXCLUSIVE, 0, nothing)
    locks.request(holder("eve"), SHARED, 0, nothing)
    locks.release(first)
    assert [info.holder.holder_id for info in locks.infos()] == ["eve"]


def test_waiting_requests_have_a_bound() -> None:
    locks = locks_of(Config(lock_requests_waiting_max=1))
    locks.request(holder("ana"), EXCLUSIVE, 0, nothing)
    locks.request(holder("kim"), EXCLUSIVE, WAIT_S, nothing)
    with pytest.raises(RegionTooBusyError, match="lock_requests_waiting_max"):
        locks.request(holder("eve"), EXCLUSIVE, WAIT_S, nothing)


@pytest.mark.parametrize(("wanted_ms", "expected_s"), [(None, 2.0), (0, 0.0), (5000, 5.0), (90_000, 60.0)])
def test_how_long_a_request_waits(wanted_ms: int | None, expected_s: float) -> None:
    assert locks_of(Config(lock_wait_ms=2000, lock_wait_ms_max=60_000)).wait_s(wanted_ms) == expected_s


def test_the_list_is_by_table_and_region_held_ones_first() -> None:
    locks = locks_of()
    calls: list[Callable[[], None]] = []
    locks.request(holder("ana"), wanted_of([(LockKey("t", 3), Mode.EXCLUSIVE)]), 0, nothing)
    locks.request(locks.holder_of(Caller("kim@etl"), "alter a table"), EXCLUSIVE, 9, lambda: calls.append(nothing))
    locks.request(holder("eve"), wanted_of([(LockKey("a"), Mode.SHARED)]), 0, nothing)
    listed = [(info.key, info.mode, info.state, info.holder.holder_id, info.number) for info in locks.infos()]
    assert listed == [
        (("a", 0), Mode.SHARED, LockState.HELD, "eve", 2),
        (("t", 0), Mode.SHARED, LockState.HELD, "ana", 1),
        (("t", 0), Mode.EXCLUSIVE, LockState.WAITING, "call-1", 0),
        (("t", 3), Mode.EXCLUSIVE, LockState.HELD, "ana", 1),
    ]
    waiting = next(info for info in locks.infos("t") if info.state is LockState.WAITING)
    assert (waiting.waits_for, waiting.waits_until_ms - waiting.since_ms) == (("ana",), 9000)
    assert len(locks.infos("a")) == 1


def test_without_locks_everything_is_granted_and_nothing_is_listed() -> None:
    locks = locks_of(Config(locks=0))
    with locks.holding(holder("ana"), EXCLUSIVE, 0), locks.holding(holder("kim"), EXCLUSIVE, 0):
        assert locks.infos() == []
    assert not locks.is_on
