"""When a feed that has read all looks for further changes."""

from __future__ import annotations

import math

import pytest
from rowlock import InvalidArgumentError
from rowlock._core.change_waiting import ChangeWaiting


def pauses(waiting: ChangeWaiting, now: float, count: int) -> list[float | None]:
    """Returns the next pauses, each of which is waited for."""
    found: list[float | None] = []
    for _ in range(count):
        pause_s = waiting.pause_s(now)
        found.append(pause_s)
        now += pause_s or 0.0
    return found


def test_a_feed_that_does_not_follow_never_waits() -> None:
    waiting = ChangeWaiting(0)
    waiting.begin(7.0)
    assert waiting.pause_s(7.0) is None


def test_the_last_look_is_at_the_end() -> None:
    waiting = ChangeWaiting(0.5)
    waiting.begin(8.0)
    assert pauses(waiting, 8.0, 4) == pytest.approx([0.2, 0.2, 0.1, None])


def test_a_feed_that_has_ended_does_not_wait_again() -> None:
    waiting = ChangeWaiting(0.5)
    waiting.begin(8.0)
    assert waiting.pause_s(9.0) is None
    waiting.begin(9.0)
    assert waiting.pause_s(9.0) is None


def test_it_waits_longer_after_a_reading_that_took_long() -> None:
    waiting = ChangeWaiting(math.inf)
    for seconds in (0.25, 0.5):
        waiting.has_read(seconds)
    waiting.begin(0.0)
    assert pauses(waiting, 0.0, 3) == [3.0, 0.2, 0.2]
    waiting.has_read(600.0)
    waiting.begin(9.0)
    assert pauses(waiting, 9.0, 2) == [5.0, 0.2]


@pytest.mark.parametrize("follow_s", [-1, math.nan, -math.inf])
def test_impossible_times_are_refused(follow_s: float) -> None:
    with pytest.raises(InvalidArgumentError, match="follow_s"):
        ChangeWaiting(follow_s)


@pytest.mark.parametrize("follow_s", ["5", None, True])
def test_what_is_no_number_is_a_type_error(follow_s: object) -> None:
    with pytest.raises(TypeError, match="follow_s"):
        ChangeWaiting(follow_s)  # type: ignore[arg-type]
