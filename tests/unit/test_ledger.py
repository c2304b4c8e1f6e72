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


def test_a_part_that_counts_by_itself_is_measured_when_much_was_added_and_released() -> None:
    ledger = Ledger(Config(memory=1 << 30))
    held = [300]
    ledger.request_ids.follow(lambda: held[0])
    ledger.memstores.add(512)
    assert ledger.bytes_held == 512
    for _ in range(64):
        ledger.memstores.add(512)
        ledger.memstores.add(-512)
    assert ledger.bytes_held == 812


class Borrower:
    """A block cache of which only the bytes are there. It holds as much as it may."""

    def __init__(self, ledger: Ledger) -> None:
        self.bytes_held = 0
        self._account = ledger.block_cache
        ledger.block_cache.follow(lambda: self.bytes_held)
        ledger.block_cache.when_short(self.shrink)

    def fill(self) -> int:
        self.bytes_held = self._account.bytes_max_now()
        return self.bytes_held

    def shrink(self) -> None:
        self.bytes_held = min(self.bytes_held, self._account.bytes_max_now())


@pytest.fixture
def lending() -> Iterator[Ledger]:
    """A ledger of which 640 bytes may be lent; 40 are the cache's own."""
    made = Ledger(
        Config(
            memory=1024,
            block_cache_bytes=40,
            block_cache_bytes_max=512,
            scan_bytes_held_max=900,
            request_bytes_in_flight_max=900,
        )
    )
    yield made
    check(made)


def test_the_block_cache_borrows_what_the_others_leave_unused(lending: Ledger) -> None:
    cache = Borrower(lending)
    assert cache.fill() == 512, "its bound"
    lending.scans.add(100)
    assert cache.bytes_held == 512
    lending.scans.add(100)
    assert cache.bytes_held == 640 - 200
    lending.memstores.add(2000)
    assert cache.bytes_held == 40, "its own share stays"
    lending.memstores.add(-2000)
    assert cache.bytes_held == 40
    assert cache.fill() == 640 - 200


def test_borrowed_memory_is_free_for_the_others_and_is_returned_when_they_take_it(lending: Ledger) -> None:
    cache = Borrower(lending)
    cache.fill()
    lending.statistics()
    assert lending.requests.has_room(900)
    lending.requests.take(900)
    assert cache.bytes_held == 40
    assert not lending.scans.try_take(1024 - 940 + 1)
    with pytest.raises(RegionTooBusyError, match="scans need 85 more bytes, but 940 of memory = 1024 are in use"):
        lending.scans.take(85)
    lending.scans.take(84)


def test_memory_that_others_release_makes_nobody_return_any(lending: Ledger) -> None:
    """It may be released by a finalizer, which runs anywhere: the cache must not be locked then."""
    lending.scans.add(300)
    cache = Borrower(lending)
    cache.bytes_held = 512  # as if it had been filled before
    lending.scans.give(100)
    assert cache.bytes_held == 512
    lending.scans.add(1)
    assert cache.bytes_held == 640 - 201


def test_a_cache_with_a_larger_share_of_its_own_borrows_nothing() -> None:
    lending = Ledger(Config(memory=1024, block_cache_bytes=800, block_cache_bytes_max=512))
    cache = Borrower(lending)
    assert cache.fill() == 800
    lending.memstores.add(1000)
    assert cache.bytes_held == 800
    check(lending)
