"""Requests for locks: how long they wait, and the pauses between refused ones."""

from __future__ import annotations

import math

import pytest
from rowlock._core.lock_requests import LockAttempts, LockPolicy, lock_request
from rowlock.errors import InvalidArgumentError, LockUnavailableError
from rowlock_regionserver.clock import ManualClock

REFUSED = LockUnavailableError("others hold it", holders=["one"])


def test_the_pause_doubles_from_a_tenth_of_a_second_to_the_cap() -> None:
    attempts = LockAttempts(LockPolicy(wait_s=0, retries=100, retry_s_max=5))
    pauses = [attempts.pause_s(REFUSED) for _ in range(100)]
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5]
    assert set(pauses[7:]) == {5}
    with pytest.raises(LockUnavailableError) as caught:
        attempts.pause_s(REFUSED)
    assert caught.value is REFUSED


def test_no_retries_refuse_at_once() -> None:
    with pytest.raises(LockUnavailableError):
        LockAttempts(LockPolicy(retries=0)).pause_s(REFUSED)


def test_impossible_policies_are_refused() -> None:
    for wrong in (-1, float("nan"), True, "1"):
        with pytest.raises(InvalidArgumentError, match="lock_wait_s must be a number of seconds"):
            LockPolicy(wait_s=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="lock_retries must be 0 or more"):
        LockPolicy(retries=-1)


def test_a_request_names_each_table() -> None:
    request = lock_request(["b", "a"], "shared", None, "why")
    assert ([each.table for each in request.targets], request.purpose) == (["b", "a"], "why")
    assert lock_request("t", "exclusive", 7, "").targets[0].region_id == 7
    with pytest.raises(InvalidArgumentError, match="region is the id of a region of the one table"):
        lock_request(["a", "b"], "shared", 7, "")


def test_one_request_waits_for_all_tries_and_their_pauses() -> None:
    clock = ManualClock()
    attempts = LockAttempts(LockPolicy(wait_s=1, retries=4), clock.monotonic)
    assert attempts.wait_ms() == 5 * 1000 + 100 + 200 + 400 + 800
    clock.advance(6500)
    with pytest.raises(LockUnavailableError):
        attempts.pause_s(REFUSED)
    assert LockAttempts(LockPolicy()).wait_ms() == 11 * 10_000 + 102_300
    assert LockAttempts(LockPolicy(wait_s=5, retries=0)).wait_ms() == 5000


def test_a_request_that_is_not_to_wait_never_waits() -> None:
    assert LockAttempts(LockPolicy(wait_s=0, retries=5)).wait_ms() == 0


def test_a_request_that_is_refused_early_comes_again_and_waits_for_the_rest() -> None:
    clock = ManualClock()
    attempts = LockAttempts(LockPolicy(wait_s=1, retries=4), clock.monotonic)
    for pause_s, left_ms in ((0.1, 6400), (0.2, 6200), (0.4, 5800)):
        assert attempts.pause_s(REFUSED) == pause_s
        clock.advance(round(pause_s * 1000))
        assert attempts.wait_ms() == left_ms


def test_one_request_waits_no_longer_than_a_server_allows_unless_it_is_asked_to() -> None:
    assert LockAttempts(LockPolicy(retries=1000)).wait_ms() == 600_000
    assert LockAttempts(LockPolicy(wait_s=3600)).wait_ms() == 3_600_000


def test_the_time_of_any_number_of_tries_is_known_at_once() -> None:
    policy = LockPolicy(wait_s=1, retries=1000, retry_s_max=5)
    assert math.isclose(policy.whole_s, 1001 + sum(map(policy.pause_s, range(1000))))
    assert LockPolicy(retries=10**400).whole_s > 1e9
