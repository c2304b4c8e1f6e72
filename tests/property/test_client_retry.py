"""Random calls against a server that refuses, dies, loses answers and is busy: the allowed outcomes of a call."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from rowlock._core.retry import Attempts, Kind
from rowlock.errors import (
    ClosedError,
    DeadlineError,
    DiskFullError,
    InvalidArgumentError,
    NotACounterError,
    NotServingRegionError,
    RegionTooBusyError,
    RowlockError,
    ServerError,
    ServerStoppingError,
    ServerUnavailableError,
    UnknownOutcomeError,
)

from tests.seeds import drawn_seed

TIMEOUT_S = 10.0
REPEATED_S = 40.0
PAUSE_S_MAX = 5.0
REFUSALS: list[Callable[[], RowlockError]] = [
    lambda: RegionTooBusyError("busy"),
    lambda: RegionTooBusyError("busy", retry_after_ms=5000),
    lambda: DiskFullError("full"),
    lambda: NotServingRegionError("moved"),
    lambda: ServerStoppingError("stopping"),
    lambda: NotACounterError("text"),
    lambda: DeadlineError("waited for a lock"),
]


class World:
    """A server that records what it has applied, and a clock that replaces both of the client's."""

    def __init__(self, rng: random.Random) -> None:
        self.now = 1000.0
        self.rng = rng
        self.applied_at: list[float] = []

    def attempt(self, deadline: float, kind: Kind) -> tuple[RowlockError | None, bool]:
        """Returns an attempt's error, None if it succeeded, and whether it was sent without getting an answer."""
        self.now = min(deadline, self.now + self.rng.choice([0.0, 0.01, 1.0, 3.0, 9.0]))
        fate = self.rng.choices(["answer", "refused", "never left", "lost", "unknown", "bug"], [1, 6, 3, 3, 1, 1])[0]
        if fate == "refused" and not (self.applied_at and kind is Kind.NUMBERED_CHANGE):
            return self.rng.choice(REFUSALS)(), False
        if fate == "never left":
            error = ServerUnavailableError("nobody")
            error.never_left = True
            return error, self.rng.random() < 0.5
        if (fate == "answer" or self.rng.random() < 0.5) and (kind is Kind.PLAIN_CHANGE or not self.applied_at):
            self.applied_at.append(self.now)
        if fate == "lost":
            return self.rng.choice(
                [ServerUnavailableError("cut"), ClosedError("closed"), InvalidArgumentError("?")]
            ), True
        if fate == "unknown":
            return UnknownOutcomeError("the log failed"), False
        return (None, False) if fate in ("answer", "refused") else (ServerError("bug"), False)


def call(world: World, kind: Kind, busy_s: float) -> RowlockError | None:
    """A call as the servers' `_point` makes it. Gives what it ends with; None: it was answered well."""
    attempts = Attempts(world.now, TIMEOUT_S, kind, busy_s=busy_s, repeated_for_s=REPEATED_S, clock=lambda: world.now)
    try:
        while True:
            failure, was_sent = world.attempt(attempts.deadline, kind)
            if failure is None:
                return None
            world.now += attempts.failed(failure, world.now, was_sent=was_sent)
            age_ms = attempts.age_ms()
            if world.applied_at and kind is not Kind.READ:
                age_s = world.now - world.applied_at[0]
                assert age_ms >= age_s * 1000 - 1, "the server would believe that it must remember the answer still"
                assert age_s <= REPEATED_S
    except RowlockError as end:
        return end


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("busy_s", [0.0, 3.0, 100.0])
def test_a_call_ends_in_time_applies_once_and_denies_nothing_that_may_have_been_done(kind: Kind, busy_s: float) -> None:
    rng = random.Random(drawn_seed())
    for _ in range(3000):
        world = World(rng)
        end = call(world, kind, busy_s)
        assert world.now <= 1000.0 + 2 * TIMEOUT_S + busy_s + PAUSE_S_MAX
        if kind is Kind.READ:
            assert not isinstance(end, UnknownOutcomeError) or end.message == "the log failed"
            continue
        assert len(world.applied_at) <= 1
        if end is None:
            assert world.applied_at
        elif world.applied_at:
            assert isinstance(end, UnknownOutcomeError), f"applied, and told {end!r}"
