"""Requests of the client under constant shared load, on a clock that the test moves: no pause costs them a place."""

from __future__ import annotations

import itertools

import pytest
from rowlock import LockUnavailableError
from rowlock._core.lock_requests import LockAttempts, LockPolicy
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LockUnavailableError as RefusedError
from rowlock_regionserver.locks.lock import LockHolder, LockKey, Mode, Wanted, wanted_of
from rowlock_regionserver.locks.lock_tree import LockRequest
from rowlock_regionserver.locks.table_locks import TableLocks

EXCLUSIVE: Wanted = wanted_of([(LockKey("t"), Mode.EXCLUSIVE)])
SHARED: Wanted = wanted_of([(LockKey("t"), Mode.SHARED)])


def nothing() -> None:
    """Called when a request is granted: the test looks at each step of its clock."""


class Load:
    """The shared lock of a table, which is held for 21 steps by each of the requests that come every 7 steps."""

    def __init__(self, step_ms: int) -> None:
        self.clock = ManualClock()
        self.locks = TableLocks(Config(), self.clock, itertools.count(1).__next__)
        self.step_ms = step_ms
        self.steps = 0
        self._shared: dict[LockRequest, int] = {}  # for how many steps it has been held
        for _ in range(30):
            self.step()

    def step(self) -> None:
        """Moves the clock."""
        for request, held_steps in list(self._shared.items()):
            if held_steps == 21:
                self.locks.release(request)
                del self._shared[request]
            else:
                self._shared[request] += self.locks.is_held(request)
        if self.steps % 7 == 0:
            holder = LockHolder(f"s{self.steps}", "", "")
            self._shared[self.locks.request(holder, SHARED, 600, nothing)] = 0
        self.steps += 1
        self.clock.advance(self.step_ms)
        self.locks._check()

    def waited_steps(self, policy: LockPolicy) -> int:
        """Takes the exclusive lock as the client does; returns how long it took. Raises its LockUnavailableError."""
        began, attempts = self.steps, LockAttempts(policy, self.clock.monotonic)
        while True:
            wait_s = attempts.wait_ms() / 1000
            refused_at = self.clock.monotonic() + wait_s
            try:
                request = self.locks.request(LockHolder("x", "", ""), EXCLUSIVE, wait_s, nothing)
                while not self.locks.is_held(request):
                    refusal = self.locks.refuse(request, wait_s) if self.clock.monotonic() >= refused_at else None
                    if refusal is not None:
                        raise refusal
                    self.step()
            except RefusedError as error:
                again_at = self.clock.monotonic() + attempts.pause_s(LockUnavailableError(str(error)))
                while self.clock.monotonic() < again_at:
                    self.step()
            else:
                self.locks.release(request)
                return self.steps - began


@pytest.mark.parametrize(
    ("policy", "step_ms"),
    [
        (LockPolicy(wait_s=1, retries=4), 100),
        (LockPolicy(), 1000),
        (LockPolicy(wait_s=0.05, retries=8), 1000),
        (LockPolicy(wait_s=100, retries=2), 10_000),
    ],
)
def test_an_exclusive_request_waits_no_longer_than_the_longest_hold_although_each_try_is_shorter(
    policy: LockPolicy, step_ms: int
) -> None:
    load = Load(step_ms)
    assert policy.wait_s < 21 * step_ms / 1000 < policy.whole_s
    # A hold begins and ends with a step.
    assert load.waited_steps(policy) <= 22


def test_a_request_that_gives_up_is_passed_from_then_on() -> None:
    load = Load(1000)
    with pytest.raises(LockUnavailableError, match=r"refused after 6\.5 s"):
        load.waited_steps(LockPolicy(wait_s=1, retries=4))
    assert load.locks.statistics().waiting_count == 0


def test_without_a_wait_there_is_no_place_in_the_queue() -> None:
    load = Load(100)
    with pytest.raises(LockUnavailableError, match="was refused: it is held"):
        load.waited_steps(LockPolicy(wait_s=0, retries=8))
    assert load.locks.statistics().refused_count == 9
