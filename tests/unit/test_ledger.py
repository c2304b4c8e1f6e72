"""The ledger: taken bytes are counted, bytes that don't fit are refused, released bytes wake the watchers."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, RegionTooBusyError
from rowlock_regionserver.ledger import Holding, Ledger

from tests.invariants import check


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger(Config(memory=1000, scan_bytes_held_max=600, request_bytes_in_flight_max=700, retry_after_ms=7))
    yield made
    check(made)


def test_bytes_that_do_not_fit_now_are_refused_with_a_delay_and_not_counted(ledger: Ledger) -> None:
    ledger.scans.take(600)
    with pytest.raises(
        RegionTooBusyError, match="scans need 1 more bytes, but 600 of scan_bytes_held_max = 600"
    ) as busy:
        ledger.scans.take(1)
    assert (busy.value.retry_after_ms, busy.value.can_retry) == (7, True)
    assert ledger.scans.bytes_held == ledger.bytes_held == 600
    ledger.scans.give(1)
    ledger.scans.take(1)


def test_bytes_that_can_never_fit_are_refused_without_a_retry(ledger: Ledger) -> None:
    with pytest.raises(LimitExceededError, match="this takes 601 bytes of memory") as refused:
        ledger.scans.take(601)
    error = refused.value
    assert (error.limit, error.limit_value, error.found) == ("scan_bytes_held_max", 600, 601)
    assert not error.can_retry


def test_all_parts_together_have_a_bound_too(ledger: Ledger) -> None:
    ledger.requests.take(700)
    assert not ledger.scans.try_take(301)
    with pytest.raises(RegionTooBusyError, match="scans need 301 more bytes, but 700 of memory = 1000 are in use"):
        ledger.scans.take(301)
    ledger.scans.take(300)
    assert ledger.bytes_held == 1000


def test_bytes_in_use_are_counted_beyond_the_bounds_and_others_are_refused(ledger: Ledger) -> None:
    ledger.memstores.add(5000)
    assert not ledger.answers.has_room(1)
    ledger.memstores.add(-5000)
    assert ledger.answers.has_room(1)


def test_the_context_releases_its_bytes_also_after_an_error(ledger: Ledger) -> None:
    with contextlib.suppress(ZeroDivisionError), ledger.requests.taken(50):
        assert ledger.requests.bytes_held == 50
        raise ZeroDivisionError
    assert ledger.requests.bytes_held == 0


def test_a_watcher_is_called_once_when_bytes_are_released(ledger: Ledger) -> None:
    woken: list[int] = []
    ledger.requests.take(10)
    ledger.when_given(lambda: woken.append(ledger.bytes_held))
    ledger.scans.take(1)
    assert woken == []
    ledger.requests.give(10)
    assert woken == [1], "without the ledger's lock, so it may look"
    ledger.scans.give(1)
    assert woken == [1]


def test_a_holding_is_changed_as_it_is_measured(ledger: Ledger) -> None:
    holding = Holding(ledger.scans)
    holding.set(100)
    holding.set(5000)
    assert ledger.scans.bytes_held == 5000
    holding.set(0)
    holding.set(0)
    assert ledger.scans.bytes_held == 0
    assert ledger.statistics()["scan_bytes_held_max"].bytes_held_peak == 5000


def test_threads_together_never_pass_a_bound(ledger: Ledger) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def take_and_give() -> None:
        for _ in range(40):
            if ledger.requests.try_take(90):
                assert ledger.requests.bytes_held <= 700
                ledger.requests.give(90)

    threads = [threading.Thread(target=take_and_give) for _ in range(9)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert ledger.bytes_held == 0
    assert ledger.statistics()["request_bytes_in_flight_max"].bytes_held_peak <= 700


def test_a_part_that_counts_by_itself_is_followed(ledger: Ledger) -> None:
    held = [300]
    ledger.request_ids.follow(lambda: held[0])
    assert ledger.statistics()["request_ids_bytes_max"].bytes_held == 300
    held[0] = 500
    ledger.scans.take(500)
    assert not ledger.scans.try_take(1), "together they hold all there is"
    held[0] = 400
    assert ledger.scans.try_take(1)
    assert ledger.bytes_held == 901
    held[0] = 0
    ledger.memstores.add(1)
    assert ledger.bytes_held == 502
