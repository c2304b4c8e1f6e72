"""Scans whose steps send their batches: one at a time, from worker threads, and the event loop waits for the rest."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, MessageParts
from rowlock_regionserver.engine.open_scan import OpenScan
from rowlock_regionserver.engine.scans import BatchSender, Scans
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import LeaseExpiredError, StoppingError
from rowlock_regionserver.ledger import Ledger

from tests.unit.engine.fakes import NEVER_SLOW, FakeRegion
from tests.unit.engine.loops import run, until
from tests.unit.engine.test_scans import encoded, plan
from tests.waiting import WAIT_S

# Of 100 bytes, with a window of 1000.
IN_PARTS = MessageParts([bytes(100)], 100, 1000)


class Connection:
    """Takes `count_at_once` batches, and of the next one a part; `read` takes the rest, and as many again."""

    def __init__(self, count_at_once: int) -> None:
        self._count_at_once = self._left = count_at_once
        self._rest: asyncio.Future[None] | None = None
        self.batches: list[EncodedMessage] = []
        self.threads: set[int] = set()
        self.is_cut = threading.Event()

    @property
    def sender(self) -> BatchSender:
        return BatchSender(self._send, self._sent)

    def _send(self, batch: EncodedMessage) -> bool:
        self.threads.add(threading.get_ident())
        self.batches.append(batch)
        self._left -= 1
        if self._left < 0:
            self.is_cut.set()
        return self._left >= 0

    def _sent(self) -> asyncio.Future[None] | None:
        if self._left >= 0:
            return None
        self._rest = asyncio.get_running_loop().create_future()
        return self._rest

    async def read(self) -> None:
        await until(lambda: self._rest is not None)
        assert self._rest is not None
        self._left = self._count_at_once
        rest, self._rest = self._rest, None
        rest.set_result(None)


class Taking:
    """Takes every batch."""

    def __init__(self) -> None:
        self.batches: list[EncodedMessage] = []

    def send(self, batch: EncodedMessage) -> bool:
        self.batches.append(batch)
        return True


def scans_of(workers: Workers, config: Config, clock: Clock | None = None) -> Scans:
    return Scans(workers, NEVER_SLOW, config, clock or ManualClock(), Ledger(config))


def test_worker_threads_send_every_batch_in_order(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, connection = scans_of(workers, Config()), Connection(100)
        numbers = itertools.count()
        await scans.serve(region, plan(40), lambda *_: b"%d" % next(numbers), connection.sender)
        assert connection.batches == [b"%d" % number for number in range(40)]
        assert threading.get_ident() not in connection.threads
        await until(lambda: region.open_scans == 0)
        assert scans.statistics().bytes_held == 0

    run(test)


@pytest.mark.parametrize(("heartbeat_ms", "count"), [(10_000, 5), (20, 2)])
def test_a_step_sends_for_a_bounded_time(region: FakeRegion, heartbeat_ms: int, count: int) -> None:
    clock, taking = ManualClock(), Taking()
    region.after_window = lambda _: clock.advance(10)
    config = Config(scan_heartbeat_ms=heartbeat_ms)
    scan = OpenScan(region, plan(100), encoded, Ledger(config).scans, config, clock)
    for _ in range(3):
        taking.batches.clear()
        assert scan.send_step(taking.send) == 0
        assert len(taking.batches) == count
    scan.close()


@pytest.mark.parametrize("count_at_once", [0, 1, 3])
def test_no_batch_is_made_before_the_rest_of_the_last_one_was_taken(
    region: FakeRegion, workers: Workers, count_at_once: int
) -> None:
    async def test() -> None:
        scans, connection = scans_of(workers, Config()), Connection(count_at_once)
        serving = asyncio.create_task(scans.serve(region, plan(9), lambda *_: IN_PARTS, connection.sender))
        for round_number in range(1, 9 // (count_at_once + 1) + 1):
            await asyncio.to_thread(connection.is_cut.wait, WAIT_S)
            connection.is_cut.clear()
            # The scan's window, and the batch of which a rest is left, with another one.
            await until(lambda: scans.statistics().bytes_held == 1000 + 1000)
            assert len(connection.batches) == len(region.begun) == round_number * (count_at_once + 1)
            await connection.read()
        await serving
        assert len(connection.batches) == 9
        assert scans.statistics().bytes_held == 0

    run(test)


def test_a_batch_is_counted_with_its_window_while_a_thread_sends_it(region: FakeRegion) -> None:
    account = Ledger(Config()).scans
    counted: list[int] = []

    def send(_: EncodedMessage) -> bool:
        counted.append(account.bytes_held)
        return True

    scan = OpenScan(region, plan(2), lambda *_: IN_PARTS, account, Config(), ManualClock())
    assert scan.send_step(send) == 0
    assert counted == [1000 + 1000] * 2
    assert account.bytes_held == 0
    assert region.open_scans == 0


def test_a_client_that_leaves_a_rest_loses_its_read_point(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, connection = scans_of(workers, Config(scan_lease_ms=1)), Connection(0)
        with pytest.raises(LeaseExpiredError, match="scan_lease_ms = 1"):
            await scans.serve(region, plan(5), encoded, connection.sender)
        await until(lambda: region.open_scans == 0)
        assert scans.statistics().lease_expired_count == 1
        assert scans.statistics().bytes_held == 0

    run(test)


def test_batches_before_a_failure_are_sent(region: FakeRegion) -> None:
    account = Ledger(Config()).scans
    made: list[EncodedMessage] = [b"1", b"2"]
    taking = Taking()
    scan = OpenScan(region, plan(5), lambda *_: made.pop(0), account, Config(), ManualClock())
    with pytest.raises(IndexError):
        scan.send_step(taking.send)
    assert taking.batches == [b"1", b"2"]
    assert region.open_scans == account.bytes_held == 0


def test_a_scan_that_is_cancelled_during_a_step_counts_nothing_afterwards(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans = scans_of(workers, Config())
        is_sending, may_go_on = threading.Event(), threading.Event()

        def send(_: EncodedMessage) -> bool:
            is_sending.set()
            return may_go_on.wait(WAIT_S)

        serving = asyncio.create_task(
            scans.serve(region, plan(5), lambda *_: IN_PARTS, BatchSender(send, lambda: None))
        )
        await asyncio.to_thread(is_sending.wait, WAIT_S)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert (region.open_scans, scans.statistics().bytes_held) == (1, 1000 + 1000)
        may_go_on.set()
        await until(lambda: region.open_scans == 0)
        await until(lambda: scans.statistics().bytes_held == 0)

    run(test)
    assert len(region.begun) == 1


def test_a_scan_ends_after_the_step_in_which_the_server_stops(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        clock, connection = ManualClock(), Connection(100)
        region.after_window = lambda _: clock.advance(60)
        scans = scans_of(workers, Config(), clock)
        serving = asyncio.create_task(scans.serve(region, plan(5, is_held=True), encoded, connection.sender))
        await asyncio.to_thread(region.waiting.acquire)
        scans.stop()
        region.gate.set()
        with pytest.raises(StoppingError):
            await serving
        assert len(connection.batches) == 1

    run(test)
