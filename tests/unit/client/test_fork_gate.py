"""The gate between calls and forks: concurrent forks, calls between forks, and waits that all end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock._transport.fork_gate import ForkGate

from tests.waiting import WAIT_S, wait_until
from tests.watched import Watched


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


class Call:
    """A call in its own thread, which ends when it is released or cut off."""

    def __init__(self, gate: ForkGate, threads: ThreadPoolExecutor, *, is_repeatable: bool = True) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        self._gate = gate
        self.done = threads.submit(self._run, is_repeatable)

    def _run(self, is_repeatable: bool) -> None:
        with self._gate if is_repeatable else self._gate.unrepeatable():
            self.began.set()
            assert self.may_end.wait(WAIT_S)


class Fork:
    """A fork in its own thread, which takes place when it is released."""

    def __init__(self, gate: ForkGate, threads: ThreadPoolExecutor, quiesce: Callable[[], None]) -> None:
        self.closed, self.may_end = threading.Event(), threading.Event()
        self.reopened = False
        self._gate = gate
        self.done = threads.submit(self._run, quiesce)

    def _run(self, quiesce: Callable[[], None]) -> None:
        self._gate.close(quiesce)
        self.closed.set()
        assert self.may_end.wait(WAIT_S)
        self._gate.open(self._reopen)

    def _reopen(self) -> None:
        self.reopened = True


def nothing() -> None:
    pass


@pytest.fixture
def condition() -> Watched:
    return Watched(threading.RLock())


def patient_gate(condition: Watched, *, end_s_max: float = 60.0, join_s_max: float = 60.0) -> ForkGate:
    """Threads that fork wait at it until calls end."""
    return ForkGate(
        end_s_max=end_s_max,
        unrepeatable_end_s_max=59.0,
        cut_s_max=60.0,
        join_s_max=join_s_max,
        condition=condition,
    )


def test_a_fork_waits_for_calls_and_holds_new_ones_back(threads: ThreadPoolExecutor, condition: Watched) -> None:
    gate = patient_gate(condition)
    first = Call(gate, threads)
    assert first.began.wait(WAIT_S)
    fork = Fork(gate, threads, nothing)
    wait_until(lambda: condition.waiting_count == 1)
    late = Call(gate, threads)
    wait_until(lambda: condition.waiting_count == 2)
    first.may_end.set()
    assert fork.closed.wait(WAIT_S)
    assert not late.began.is_set()
    fork.may_end.set()
    assert late.began.wait(WAIT_S)
    late.may_end.set()


def test_threads_that_fork_at_the_same_time_quiesce_once_and_the_last_opens(
    threads: ThreadPoolExecutor, condition: Watched
) -> None:
    gate = ForkGate(condition=condition)
    may_be_quiet = threading.Event()
    quiesced = []

    def quiesce() -> None:
        quiesced.append(1)
        assert may_be_quiet.wait(WAIT_S)

    forks = [Fork(gate, threads, quiesce) for _ in range(8)]
    wait_until(lambda: condition.waiting_count == 7)
    assert not any(fork.closed.is_set() for fork in forks)
    may_be_quiet.set()
    for fork in forks:
        assert fork.closed.wait(WAIT_S)
    call = Call(gate, threads)
    wait_until(lambda: condition.waiting_count == 1)
    for fork in forks:
        assert not call.began.is_set()
        assert not any(fork.reopened for fork in forks)
        fork.may_end.set()
        fork.done.result(WAIT_S)
    assert call.began.wait(WAIT_S)
    call.may_end.set()
    assert len(quiesced) == sum(fork.reopened for fork in forks) == 1


def test_calls_that_wait_pass_before_the_next_fork(threads: ThreadPoolExecutor, condition: Watched) -> None:
    gate = patient_gate(condition, join_s_max=-1.0)  # Every fork comes too late for the one before.
    gate.close(nothing)
    call = Call(gate, threads)
    wait_until(lambda: condition.waiting_count == 1)
    next_fork = Fork(gate, threads, nothing)
    gate.open(nothing)
    assert call.began.wait(WAIT_S)
    assert not next_fork.closed.is_set()
    call.may_end.set()
    assert next_fork.closed.wait(WAIT_S)
    next_fork.may_end.set()


def test_a_long_call_is_cut_off_unless_it_must_not_be_repeated(threads: ThreadPoolExecutor, condition: Watched) -> None:
    gate = patient_gate(condition, end_s_max=0.01)
    long, change = Call(gate, threads), Call(gate, threads, is_repeatable=False)
    assert long.began.wait(WAIT_S)
    assert change.began.wait(WAIT_S)
    cut = threading.Event()

    def quiesce() -> None:
        cut.set()
        long.may_end.set()

    fork = Fork(gate, threads, quiesce)
    wait_until(lambda: 59.0 in condition.timeouts)  # It waits for the change.
    assert not cut.is_set()
    change.may_end.set()
    assert fork.closed.wait(WAIT_S)
    assert cut.is_set()
    long.done.result(WAIT_S)
    fork.may_end.set()


def test_a_thread_that_forks_in_its_own_call_or_fork_does_not_wait_for_itself() -> None:
    gate = ForkGate(end_s_max=0.01, cut_s_max=0.01)
    reopened: list[int] = []

    def fork_again() -> None:
        gate.close(nothing)
        gate.open(lambda: reopened.append(1))

    with gate:
        gate.close(fork_again)
        assert reopened == []
        gate.open(lambda: reopened.append(1))
    assert reopened == [1]


def test_an_interrupted_wait_leaves_the_gate_consistent(condition: Watched) -> None:
    gate = patient_gate(condition)
    gate.close(nothing)
    condition.is_interrupted = True
    with pytest.raises(KeyboardInterrupt), gate:
        pass
    condition.is_interrupted = False
    gate.open(nothing)
    condition.timeouts.clear()
    gate.close(nothing)
    assert condition.timeouts == [], "it waits for a call that is over"
    gate.open(nothing)
