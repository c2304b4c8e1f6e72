"""Requests for locks: how long they wait, and the pauses between refused ones."""

from __future__ import annotations

import pytest
from rowlock._core.lock_requests import LockAttempts, LockPolicy, lock_request
from rowlock.errors import InvalidArgumentError, LockUnavailableError

REFUSED = LockUnavailableError("others hold it", holders=["one"])


def test_the_pause_doubles_from_a_tenth_of_a_second_to_the_cap() -> None:
    attempts = LockAttempts(LockPolicy(retries=100, retry_s_max=5))
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


def test_a_request_names_each_table_and_its_wait() -> None:
    request = lock_request(["b", "a"], "shared", None, "why", LockPolicy(wait_s=1.5))
    assert ([each.table for each in request.targets], request.wait_ms, request.purpose) == (["b", "a"], 1500, "why")
    assert lock_request("t", "exclusive", 7, "", LockPolicy()).targets[0].region_id == 7
    with pytest.raises(InvalidArgumentError, match="region is the id of a region of the one table"):
        lock_request(["a", "b"], "shared", 7, "", LockPolicy())
