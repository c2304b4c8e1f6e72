"""When a failed call is retried, and which error it ends with."""

from __future__ import annotations

import time

import pytest
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind, RetryPolicy, repeated_for_s
from rowlock._core.uptime import uptime_s
from rowlock.errors import (
    ClosedError,
    DeadlineError,
    DiskFullError,
    InvalidArgumentError,
    LimitExceededError,
    NotACounterError,
    NotServingRegionError,
    RegionTooBusyError,
    RowlockError,
    ServerError,
    ServerStoppingError,
    ServerUnavailableError,
    TableNotFoundError,
    UnknownOutcomeError,
)


def test_pauses_double_up_to_a_bound_and_are_drawn_between_half_and_whole() -> None:
    policy = RetryPolicy(pause_first_s=1, pause_s_max=5)
    assert [policy.pause_s(attempt, 0.0) for attempt in (1, 2, 3, 4, 1000)] == [0.5, 1, 2, 2.5, 2.5]
    assert policy.pause_s(2, 1.0) == 2


@pytest.mark.parametrize(
    "error",
    [
        ServerUnavailableError("gone"),
        ServerStoppingError("stopping"),
        RegionTooBusyError("busy"),
        DiskFullError("full"),
    ],
)
@pytest.mark.parametrize("kind", list(Kind))
def test_transient_failures_are_retried_within_the_deadline(error: RowlockError, kind: Kind) -> None:
    attempts = Attempts(100.0, 10.0, kind)
    assert 0 < attempts.failed(error, 101.0, was_sent=False) < 1
    with pytest.raises(RowlockError):
        attempts.failed(error, 109.9999, was_sent=False)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_region_that_has_moved_is_looked_up_again_at_once_and_then_with_pauses(kind: Kind) -> None:
    attempts = Attempts(100.0, 10.0, kind)
    moved = NotServingRegionError("moved")
    assert attempts.failed(moved, 101.0, was_sent=False) == 0
    assert attempts.failed(moved, 101.1, was_sent=False) > 0
    with pytest.raises(NotServingRegionError):
        attempts.failed(moved, 110.0, was_sent=False)


def test_the_pause_that_a_server_requests_is_respected() -> None:
    attempts = Attempts(0.0, 10.0, Kind.READ)
    assert attempts.failed(RegionTooBusyError("busy", retry_after_ms=3000), 1.0, was_sent=False) == 3.0
    with pytest.raises(RegionTooBusyError):
        attempts.failed(RegionTooBusyError("busy", retry_after_ms=9500), 1.0, was_sent=False)


def test_a_busy_server_is_retried_up_to_its_own_bound() -> None:
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE, busy_s=100.0)
    for now in (5.0, 14.0, 23.0, 95.0, 104.0):
        attempts.failed(RegionTooBusyError("the memstores are full", retry_after_ms=100), now, was_sent=False)
    with pytest.raises(RegionTooBusyError, match="stayed busy for 100 s: the memstores are full"):
        attempts.failed(RegionTooBusyError("the memstores are full", retry_after_ms=100), 104.95, was_sent=False)


def test_a_server_that_goes_away_while_busy_has_the_timeout_from_its_last_answer() -> None:
    attempts = Attempts(0.0, 10.0, Kind.READ, busy_s=100.0)
    attempts.failed(RegionTooBusyError("busy", retry_after_ms=1000), 50.0, was_sent=False)
    attempts.failed(ServerUnavailableError("gone"), 59.0, was_sent=False)
    with pytest.raises(DeadlineError, match="gone"):
        attempts.failed(ServerUnavailableError("gone"), 61.0, was_sent=False)


def test_a_server_that_is_busy_and_gone_by_turns_is_not_retried_for_ever() -> None:
    """For example a server that is killed repeatedly because memory is short. The bound of the wait starts once."""
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE, busy_s=100.0)

    def try_until(end: float) -> float:
        now = 0.0
        while now < end:
            attempts.failed(RegionTooBusyError("busy"), now, was_sent=False)
            attempts.failed(ServerUnavailableError("gone"), now + 4, was_sent=False)
            now += 8
        return now

    with pytest.raises(RegionTooBusyError, match="stayed busy for 100 s"):
        try_until(1000.0)


def test_a_wait_that_is_shorter_than_the_timeout_does_not_shorten_the_timeout() -> None:
    attempts = Attempts(0.0, 10.0, Kind.READ, busy_s=2.0)
    attempts.failed(RegionTooBusyError("busy"), 0.5, was_sent=False)
    attempts.failed(ServerUnavailableError("gone"), 4.0, was_sent=False)
    with pytest.raises(RegionTooBusyError, match="stayed busy for 2 s"):
        attempts.failed(RegionTooBusyError("busy"), 4.1, was_sent=False)


@pytest.mark.parametrize("error", [DiskFullError("full"), NotServingRegionError("closed")])
def test_a_full_disk_or_a_closed_region_is_retried_until_the_timeout(error: RowlockError) -> None:
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE, busy_s=100.0)
    attempts.failed(error, 5.0, was_sent=False)
    with pytest.raises(type(error)):
        attempts.failed(error, 10.0, was_sent=False)


@pytest.mark.parametrize("error", [TableNotFoundError("no"), NotACounterError("no"), DeadlineError("late")])
@pytest.mark.parametrize("kind", list(Kind))
def test_an_answered_refusal_ends_the_call_as_it_is(error: RowlockError, kind: Kind) -> None:
    with pytest.raises(type(error)) as caught:
        Attempts(0.0, 10.0, kind).failed(error, 1.0, was_sent=False)
    assert caught.value is error


def test_a_connection_attempt_that_the_deadline_cuts_does_not_hide_the_failure_before_it() -> None:
    lost, late = ServerUnavailableError("the connection was lost"), ServerUnavailableError("it did not answer in time")
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE)
    attempts.failed(lost, 1.0, was_sent=True)
    with pytest.raises(UnknownOutcomeError, match="last error: the connection was lost") as caught:
        attempts.failed(late, 10.0, was_sent=False)
    assert caught.value.__cause__ is lost
    for before in (ServerUnavailableError("earlier"), None):
        attempts = Attempts(0.0, 10.0, Kind.READ)
        if before is not None:
            attempts.failed(before, 1.0, was_sent=False)
        with pytest.raises(DeadlineError, match="last error: it did not answer in time"):
            attempts.failed(late, 9.9999 if before is not None else 10.0, was_sent=False)


def test_a_lost_change_is_repeated_only_if_it_has_a_number() -> None:
    lost = ServerUnavailableError("cut")
    assert Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE).failed(lost, 1.0, was_sent=True) > 0
    with pytest.raises(UnknownOutcomeError) as caught:
        Attempts(0.0, 10.0, Kind.PLAIN_CHANGE).failed(lost, 1.0, was_sent=True)
    assert caught.value.__cause__ is lost


def test_a_connection_that_was_never_there_leaves_no_doubt() -> None:
    refused = ServerUnavailableError("nobody")
    refused.never_left = True
    attempts = Attempts(0.0, 10.0, Kind.PLAIN_CHANGE)
    assert attempts.failed(refused, 1.0, was_sent=True) > 0
    with pytest.raises(DeadlineError, match="Nothing was changed"):
        attempts.failed(refused, 10.0, was_sent=True)


@pytest.mark.parametrize(
    ("error", "ends_as"),
    [
        (TableNotFoundError("dropped"), UnknownOutcomeError),
        (NotACounterError("text"), UnknownOutcomeError),
        (InvalidArgumentError("malformed"), InvalidArgumentError),
        (LimitExceededError("large"), LimitExceededError),
    ],
)
def test_after_doubt_only_refusals_of_the_request_itself_are_certain(
    error: RowlockError, ends_as: type[RowlockError]
) -> None:
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE)
    attempts.failed(ServerUnavailableError("cut"), 1.0, was_sent=True)
    with pytest.raises(ends_as):
        attempts.failed(error, 2.0, was_sent=False)


def test_a_stream_that_ends_as_malformed_says_nothing_about_one_request() -> None:
    with pytest.raises(UnknownOutcomeError):
        Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE).failed(InvalidArgumentError("malformed"), 1.0, was_sent=True)


def test_doubt_outlives_a_busy_answer() -> None:
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE)
    attempts.failed(ServerUnavailableError("cut"), 1.0, was_sent=True)
    with pytest.raises(UnknownOutcomeError):
        attempts.failed(RegionTooBusyError("busy"), 10.0, was_sent=False)


def test_an_unknown_outcome_at_the_server_is_retried_only_with_a_number() -> None:
    assert Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE).failed(UnknownOutcomeError("?"), 1.0, was_sent=False) > 0
    with pytest.raises(UnknownOutcomeError):
        Attempts(0.0, 10.0, Kind.PLAIN_CHANGE).failed(UnknownOutcomeError("?"), 1.0, was_sent=False)


def test_a_servers_own_failure_leaves_changes_in_doubt() -> None:
    with pytest.raises(UnknownOutcomeError):
        Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE).failed(ServerError("bug"), 1.0, was_sent=False)
    with pytest.raises(ServerError):
        Attempts(0.0, 10.0, Kind.READ).failed(ServerError("bug"), 1.0, was_sent=False)


def test_a_number_is_not_repeated_after_servers_may_have_forgotten_it() -> None:
    """By the time since the call began, also when nothing of that passed on the clock of the deadline."""
    now_s = 50_000.0

    def clock() -> float:
        return now_s

    lost = ServerUnavailableError("cut")
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE, repeated_for_s=100, clock=clock)
    assert attempts.age_ms() == 0
    attempts.failed(RegionTooBusyError("busy"), 1.0, was_sent=False)
    now_s += 1000
    assert attempts.age_ms() == 0, "it is in no doubt, so it is sent for the first time"
    attempts = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE, repeated_for_s=100, clock=clock)
    attempts.failed(lost, 1.0, was_sent=True)
    assert attempts.age_ms() == 1
    now_s += 99
    attempts.failed(lost, 1.0, was_sent=True)
    assert attempts.age_ms() == 99_000
    now_s += 2
    with pytest.raises(UnknownOutcomeError, match="last error: cut") as caught:
        attempts.age_ms()
    assert caught.value.__cause__ is lost
    with pytest.raises(UnknownOutcomeError):
        attempts.failed(lost, 1.0, was_sent=True)


def test_how_long_a_number_is_repeated_is_half_of_what_the_server_says() -> None:
    assert repeated_for_s(7_200_000) == 3600
    assert repeated_for_s(0) == REPEATED_FOR_S == 1800


def test_the_age_of_a_call_includes_time_in_which_the_machine_is_suspended() -> None:
    """A test can't suspend the machine; Linux documents that this clock counts that time."""
    before = uptime_s()
    assert before <= uptime_s()
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert before <= time.clock_gettime(time.CLOCK_BOOTTIME) <= uptime_s()


def test_a_wait_that_timed_out_is_in_doubt_if_it_was_a_change_that_was_sent() -> None:
    assert isinstance(Attempts(0.0, 1.0, Kind.NUMBERED_CHANGE).timed_out(was_sent=True), UnknownOutcomeError)
    assert isinstance(Attempts(0.0, 1.0, Kind.NUMBERED_CHANGE).timed_out(was_sent=False), DeadlineError)
    assert isinstance(Attempts(0.0, 1.0, Kind.READ).timed_out(was_sent=True), DeadlineError)


def test_only_a_change_whose_time_is_over_is_reported_as_not_answered_in_time() -> None:
    ended = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE)
    with pytest.raises(UnknownOutcomeError, match=r"no answer came: .* last error: the client was closed"):
        ended.failed(ClosedError("the client was closed"), 0.3, was_sent=True)
    late = Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE)
    with pytest.raises(UnknownOutcomeError, match="no answer came within 10 s"):
        late.failed(ServerUnavailableError("lost"), 9.9999, was_sent=True)
    assert "within 10 s" in str(Attempts(0.0, 10.0, Kind.NUMBERED_CHANGE).timed_out(was_sent=True))
