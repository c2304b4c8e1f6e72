"""Scans: never on the loop, a few batches at a time, and a closed scan closes its read point."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import NoReturn

import pyarrow as pa
import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, MessageParts
from rowlock_regionserver.engine.open_scan import OpenScan
from rowlock_regionserver.engine.scans import Scans, _StepAhead
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import (
    LeaseExpiredError,
    NotServingRegionError,
    OutOfMemoryError,
    RegionTooBusyError,
    StoppingError,
)
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sources import Reading

from tests.unit.engine.fakes import NEVER_SLOW, FakeRegion
from tests.unit.engine.loops import run, until


def plan(batches: int, *, is_held: bool = False) -> ScanPlan:
    """The fake region yields as many batches as rows are requested; a reverse scan waits before each."""
    return ScanPlan(row_limit=batches, reverse=is_held)


def open_scan(region: FakeRegion) -> OpenScan:
    return OpenScan(region, plan(2), encoded, Ledger(Config()).scans, Config(), ManualClock())


def encoded(answer: ScanAnswer, read_point: int) -> bytes:
    return b" ".join((b"%d %d" % (read_point, answer.row_count), answer.resume_key)).rstrip()


SCARCE = Config(scan_bytes_held_max=200, scan_window_bytes=100)


class Reader:
    """A client of a scan that reads a batch when the test says so."""

    def __init__(self) -> None:
        self.batches: list[EncodedMessage] = []
        self.arrived = asyncio.Event()
        self.may_take = asyncio.Event()

    async def write(self, data: EncodedMessage) -> None:
        self.arrived.set()
        await self.may_take.wait()
        self.batches.append(data)


def test_every_batch_arrives_in_order_with_the_read_point(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        reader.may_take.set()
        await scans.serve(region, plan(5), encoded, reader.write)
        assert reader.batches == [b"11 1"] * 5
        assert scans.statistics().open_count == 0

    run(test)
    assert region.begun == [b"0", b"1", b"2", b"3", b"4"]
    assert region.open_scans == 0


def test_a_scan_without_memory_is_refused_and_may_be_repeated(region: FakeRegion) -> None:
    def no_memory(window: int) -> None:
        raise MemoryError

    region.after_window = no_memory
    steps: list[Callable[[OpenScan], object]] = [
        lambda scan: scan.step(),
        lambda scan: scan.send_step(lambda _: True),
        lambda scan: scan.find_first(1000, 1, may_wait=True),
    ]
    for step in steps:
        scan = open_scan(region)
        with pytest.raises(OutOfMemoryError):
            step(scan)
        assert scan.is_freed
        assert region.open_scans == 0


def test_steps_are_counted_while_they_run(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        reader.may_take.set()
        serving = asyncio.create_task(scans.serve(region, plan(1, is_held=True), encoded, reader.write))
        await until(lambda: region.open_scans == 1)
        assert workers.scan_step_count == 1
        region.gate.set()
        await serving
        assert workers.scan_step_count == 0

    run(test)


def test_no_batch_is_made_before_those_of_the_last_step_are_sent(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        serving = asyncio.create_task(scans.serve(region, plan(20), encoded, reader.write))
        await reader.arrived.wait()
        await asyncio.to_thread(workers.streams.submit(lambda: None).result)  # A step that was asked for would be done.
        assert len(region.begun) == 1
        reader.may_take.set()
        await serving
        assert len(reader.batches) == 20

    run(test)


class SlowReader(Reader):
    """A client that reads the first batch at once."""

    async def write(self, data: EncodedMessage) -> None:
        if self.batches:
            await super().write(data)
        else:
            self.batches.append(data)


@pytest.mark.parametrize("is_read_on", [True, False])
def test_from_the_second_step_on_the_next_one_is_made_while_its_batches_are_sent(
    region: FakeRegion, workers: Workers, is_read_on: bool
) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), SlowReader()
        serving = asyncio.create_task(scans.serve(region, plan(20), encoded, reader.write))
        await reader.arrived.wait()
        # One batch, two that are being sent, and four ahead, which count too. The batch being sent counts twice.
        await until(lambda: len(region.begun) == 7)
        await until(lambda: scans.statistics().bytes_held >= len(b"11 1") * (3 + 4))
        await asyncio.to_thread(workers.streams.submit(lambda: None).result)
        assert len(region.begun) == 7
        if is_read_on:
            reader.may_take.set()
            await serving
            assert reader.batches == [b"11 1"] * 20
        else:
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
        await until(lambda: scans.statistics().bytes_held == 0)
        await until(lambda: region.open_scans == 0)

    run(test)


def test_a_step_ahead_that_fails_ends_the_scan_after_the_batches_before_it(
    region: FakeRegion, workers: Workers
) -> None:
    def failing(answer: ScanAnswer, read_point: int) -> bytes:
        if len(region.begun) > 3:
            raise NotServingRegionError("closed")
        return encoded(answer, read_point)

    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        reader.may_take.set()
        with pytest.raises(NotServingRegionError):
            await scans.serve(region, plan(20), failing, reader.write)
        assert reader.batches == [b"11 1"] * 3
        await until(lambda: scans.statistics().bytes_held == 0)

    run(test)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_batches_that_are_taken_as_soon_as_they_are_made_are_not_counted(*, is_cancelled: bool) -> None:
    async def step() -> list[EncodedMessage]:
        return [b"rows"]

    async def test() -> None:
        account = Ledger(Config()).scans
        ahead = _StepAhead(step(), account, lambda: False, lambda: None)
        await asyncio.sleep(0)  # The step has ended, and asyncio has not called its callbacks.
        if is_cancelled:
            ahead.cancel()
        else:
            assert await ahead.batches() == [b"rows"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert account.bytes_held == 0

    run(test)


@pytest.mark.parametrize(("is_over", "held"), [(False, 200), (True, 100 + 1000)])
def test_the_last_window_is_counted_with_the_last_batch_when_the_scan_counts_it_no_more(
    *, is_over: bool, held: int
) -> None:
    async def step() -> list[EncodedMessage]:
        return [MessageParts([bytes(100)], 100, 1000)] * 2

    async def test() -> None:
        account = Ledger(Config()).scans
        ahead = _StepAhead(step(), account, lambda: is_over, lambda: None)
        await until(lambda: account.bytes_held == held)
        await ahead.batches()
        assert account.bytes_held == 0

    run(test)


@pytest.mark.parametrize(("count", "ahead_bytes"), [(3, 0), (4, 1000)])
def test_the_last_window_is_counted_while_a_batch_before_it_is_sent_and_the_scan_has_ended(
    region: FakeRegion, workers: Workers, count: int, ahead_bytes: int
) -> None:
    """The first batch was sent, the next two were made together, and the step ahead finds the end."""

    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), SlowReader()
        batch = MessageParts([bytes(100)], 100, 1000)
        serving = asyncio.create_task(scans.serve(region, plan(count), lambda *_: batch, reader.write))
        await reader.arrived.wait()
        await until(lambda: scans.statistics().bytes_held == (100 + 1000) + 1000 + ahead_bytes)
        reader.may_take.set()
        await serving
        assert scans.statistics().bytes_held == 0

    run(test)


def test_nothing_is_made_ahead_while_scans_hold_much(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        ledger = Ledger(SCARCE)
        scans, reader = Scans(workers, NEVER_SLOW, SCARCE, ManualClock(), ledger), SlowReader()
        serving = asyncio.create_task(scans.serve(region, plan(20), encoded, reader.write))
        ledger.scans.add(90)
        await reader.arrived.wait()
        assert ledger.scans.is_half_full
        await asyncio.to_thread(workers.streams.submit(lambda: None).result)
        assert len(region.begun) == 2  # Each step ends after its window, too.
        ledger.scans.give(90)
        reader.may_take.set()
        await serving
        assert len(reader.batches) == 20

    run(test)


def test_a_step_makes_as_many_batches_as_requested(region: FakeRegion) -> None:
    scan = OpenScan(region, plan(5), encoded, Ledger(Config()).scans, Config(), ManualClock())
    assert [len(scan.step(count)) for count in (1, 2, 4, 4)] == [1, 2, 2, 0]
    assert region.open_scans == 0


def test_batches_before_a_failure_are_returned_and_the_next_step_raises_it(region: FakeRegion) -> None:
    memory = Ledger(Config()).scans
    made = [b"1", b"2"]
    scan = OpenScan(region, plan(5), lambda *_: made.pop(0), memory, Config(), ManualClock())
    assert scan.step(4) == [b"1", b"2"]
    with pytest.raises(IndexError):
        scan.step(4)
    assert region.open_scans == 0
    assert memory.bytes_held == 0


def test_a_client_that_reads_nothing_loses_its_read_point(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = (
            Scans(workers, NEVER_SLOW, Config(scan_lease_ms=1), ManualClock(), Ledger(Config(scan_lease_ms=1))),
            Reader(),
        )
        with pytest.raises(LeaseExpiredError, match="scan_lease_ms = 1"):
            await scans.serve(region, plan(5), encoded, reader.write)
        await until(lambda: region.open_scans == 0)
        assert scans.statistics().lease_expired_count == 1
        assert scans.statistics().open_count == 0

    run(test)


def test_a_call_that_is_cancelled_frees_the_read_point(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        serving = asyncio.create_task(scans.serve(region, plan(5), encoded, reader.write))
        await reader.arrived.wait()
        assert region.open_scans == 1
        serving.cancel()
        await until(lambda: region.open_scans == 0)

    run(test)


def test_a_scan_that_is_cancelled_keeps_no_batches_until_a_garbage_collection(
    region: FakeRegion, workers: Workers
) -> None:
    """An exception keeps the frames through which it came."""

    async def test() -> None:
        before = pa.total_allocated_bytes()
        window = pa.allocate_buffer(2 << 20)
        of_scan = [MessageParts([window], window.size, window.size)]
        del window
        scans = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config()))
        never = asyncio.get_running_loop().create_future()
        counts: list[int] = []

        def write(batch: EncodedMessage) -> asyncio.Future[None] | None:
            counts.append(len(batch))
            return None if len(counts) == 1 else never

        serving = asyncio.create_task(scans.serve(region, plan(30), lambda *_: of_scan[0], write))
        # One batch is being written, one was made with it, and four are made ahead.
        await until(lambda: scans.statistics().bytes_held >= (3 + 4) * (2 << 20))
        serving.cancel()
        of_scan.clear()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await serving
        await until(lambda: region.open_scans == 0)
        await until(lambda: pa.total_allocated_bytes() < before + (1 << 20))
        assert cancelled.tb is not None

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        run(test)
    finally:
        if was_enabled:
            gc.enable()


def test_a_batch_that_is_written_counts_with_its_window(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        batch = MessageParts([bytes(100)], 100, 5000)
        serving = asyncio.create_task(scans.serve(region, plan(1), lambda *_: batch, reader.write))
        await reader.arrived.wait()
        await until(lambda: scans.statistics().bytes_held == 1000 + 2 * 100 + 5000)
        reader.may_take.set()
        await serving

    run(test)


def test_a_scan_closed_during_a_step_ends_with_that_step(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        serving = asyncio.create_task(scans.serve(region, plan(5, is_held=True), encoded, reader.write))
        await asyncio.to_thread(region.waiting.acquire)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert region.open_scans == 1
        region.gate.set()
        await until(lambda: region.open_scans == 0)

    run(test)
    assert len(region.begun) == 1


def test_a_concurrent_close_and_step_always_close_the_scan(region: FakeRegion) -> None:
    for _ in range(300):
        scan = open_scan(region)
        assert scan.step()
        threads = [threading.Thread(target=scan.step), threading.Thread(target=scan.close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert region.open_scans == 0
        assert scan.step() == []


def test_a_scan_closed_before_its_first_step_opens_nothing(region: FakeRegion) -> None:
    scan = open_scan(region)
    scan.close()
    assert scan.step() == []
    assert region.begun == []


def test_a_step_that_fails_closes_the_scan(region: FakeRegion) -> None:
    made = [b"1"]
    scan = OpenScan(region, plan(2), lambda *_: made.pop(0), Ledger(Config()).scans, Config(), ManualClock())
    assert scan.step()
    with pytest.raises(IndexError):
        scan.step()
    assert region.open_scans == 0


def test_more_scans_than_the_limit_are_refused(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = (
            Scans(workers, NEVER_SLOW, Config(scans_open_max=1), ManualClock(), Ledger(Config(scans_open_max=1))),
            Reader(),
        )
        serving = asyncio.create_task(scans.serve(region, plan(2), encoded, reader.write))
        await reader.arrived.wait()
        with pytest.raises(RegionTooBusyError, match="scans_open_max") as refused:
            await scans.serve(region, plan(2), encoded, reader.write)
        assert refused.value.retry_after_ms > 0
        reader.may_take.set()
        await serving
        await scans.serve(region, plan(2), encoded, reader.write)
        assert len(reader.batches) == 4

    run(test)


class ClosedRegion(FakeRegion):
    """A region of a table that was dropped while the request was on its way."""

    def scan(self, plan: ScanPlan, *, is_slice_over: Callable[[], bool], reading: Callable[[], Reading]) -> NoReturn:
        raise NotServingRegionError("closed")


def test_scans_that_their_region_refuses_are_not_counted_as_open(workers: Workers) -> None:
    """Each kept its place among scans_open_max until the server ended."""

    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        with pytest.raises(NotServingRegionError):
            await scans.serve(ClosedRegion(), plan(2), encoded, reader.write)
        assert scans.statistics().open_count == 0

    run(test)


def test_no_scan_begins_while_others_hold_too_much_for_clients_that_do_not_read(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, SCARCE, ManualClock(), Ledger(SCARCE)), Reader()
        serving = asyncio.create_task(scans.serve(region, plan(2), encoded, reader.write))
        await reader.arrived.wait()
        assert scans.statistics().bytes_held > 100
        with pytest.raises(RegionTooBusyError, match="scan_bytes_held_max") as refused:
            await scans.serve(region, plan(2), encoded, reader.write)
        assert refused.value.retry_after_ms > 0
        assert region.open_scans == 1
        reader.may_take.set()
        await serving
        await until(lambda: scans.statistics().bytes_held == 0)
        await scans.serve(region, plan(2), encoded, reader.write)
        assert len(reader.batches) == 4

    run(test)


def test_stopping_ends_a_scan_at_its_current_batch(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        serving = asyncio.create_task(scans.serve(region, plan(5), encoded, reader.write))
        await reader.arrived.wait()
        scans.stop()
        with pytest.raises(StoppingError):
            await serving
        await until(lambda: region.open_scans == 0)

    run(test)


def test_a_scan_that_finds_no_row_sends_its_resume_key_when_its_slice_is_over(region: FakeRegion) -> None:
    clock = ManualClock()
    region.after_window = lambda _: clock.advance(50)
    scan = OpenScan(region, ScanPlan(), encoded, Ledger(Config()).scans, Config(scan_heartbeat_ms=120), clock)
    for resume_key in (b"row2", b"row5", b"row8"):
        assert scan.step(4) == [b"11 0 " + resume_key]
    scan.close()
    assert region.open_scans == 0


def test_each_slice_ends_with_its_window_while_scans_hold_half_of_their_memory(region: FakeRegion) -> None:
    scans = Ledger(Config()).scans
    scans.take(scans.bytes_max // 2 + 1)
    clock = ManualClock()
    region.after_window = lambda _: clock.advance(10)
    scan = OpenScan(region, ScanPlan(), encoded, scans, Config(scan_heartbeat_ms=100), clock)
    assert [scan.step(4) for _ in range(2)] == [[b"11 0 row0"], [b"11 0 row1"]]
    scan.close()


def test_a_step_with_full_batches_lasts_until_it_has_as_many_as_requested(region: FakeRegion) -> None:
    clock = ManualClock()
    region.after_window = lambda _: clock.advance(90)
    scan = OpenScan(region, plan(5), encoded, Ledger(Config()).scans, Config(scan_heartbeat_ms=100), clock)
    assert [len(scan.step(count)) for count in (1, 4, 4)] == [1, 4, 0]


def test_scans_that_find_no_row_yield_their_threads_to_others(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        clock = ManualClock()
        region.after_window = lambda _: clock.advance(50)
        scans, endless, reader = Scans(workers, NEVER_SLOW, Config(), clock, Ledger(Config())), Reader(), Reader()
        endless.may_take.set()
        reader.may_take.set()
        # One more than there are threads.
        serving = [asyncio.create_task(scans.serve(region, ScanPlan(), encoded, endless.write)) for _ in range(3)]
        await endless.arrived.wait()
        await scans.serve(region, plan(5), encoded, reader.write)
        assert len(reader.batches) == 5
        await asyncio.to_thread(workers.streams.submit(lambda: None).result)
        for task in serving:
            task.cancel()
        await until(lambda: region.open_scans == 0)

    run(test)


def test_a_closed_scan_that_finds_no_row_ends_with_its_window(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        has_begun = threading.Event()
        region.after_window = lambda _: has_begun.set()
        scans, reader = Scans(workers, NEVER_SLOW, Config(), ManualClock(), Ledger(Config())), Reader()
        serving = asyncio.create_task(scans.serve(region, ScanPlan(), encoded, reader.write))
        await asyncio.to_thread(has_begun.wait)
        serving.cancel()
        await until(lambda: region.open_scans == 0)
        assert reader.batches == []

    run(test)


def test_stopping_ends_a_scan_that_finds_no_row(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        clock = ManualClock()
        region.after_window = lambda _: clock.advance(50)
        scans, reader = Scans(workers, NEVER_SLOW, Config(), clock, Ledger(Config())), Reader()
        reader.may_take.set()
        serving = asyncio.create_task(scans.serve(region, ScanPlan(), encoded, reader.write))
        await reader.arrived.wait()
        scans.stop()
        with pytest.raises(StoppingError):
            await serving
        await until(lambda: region.open_scans == 0)

    run(test)
