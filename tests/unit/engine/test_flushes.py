"""Flushes of one table are shared, those of several tables are not, and a cancelled caller cancels no flush."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock_regionserver.engine.flushes import Flushes
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.region.flush import FlushResult

from tests.unit.engine.loops import run, until
from tests.waiting import WAIT_S


class Engine:
    """Flushes when the test permits it; the results are numbered."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = {table: threading.Semaphore(0) for table in ("t", "u")}
        self.error: Exception | None = None

    def flush(self, table: str) -> FlushResult:
        self.begun.append(table)
        number = len(self.begun)
        assert self.may_end[table].acquire(timeout=WAIT_S)
        if self.error is not None:
            raise self.error
        return FlushResult(number, number)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_calls_that_come_while_a_flush_runs_share_the_next_one(pool: ThreadPoolExecutor) -> None:
    engine = Engine()

    async def test() -> None:
        flushes = Flushes(engine.flush, pool)
        first = asyncio.create_task(flushes.flush("t"))
        await until(lambda: engine.begun == ["t"])
        later = [asyncio.create_task(flushes.flush("t")) for _ in range(100)]
        other = asyncio.create_task(flushes.flush("u"))
        # Not held up by the hundred, though there are two threads.
        await until(lambda: engine.begun == ["t", "u"])
        engine.may_end["u"].release()
        engine.may_end["t"].release()
        assert ((await first).cell_count, (await other).cell_count) == (1, 2)
        await until(lambda: len(engine.begun) == 3 or later[0].done())
        assert engine.begun == ["t", "u", "t"]
        last = asyncio.create_task(flushes.flush("t"))
        engine.may_end["t"].release()
        assert {(await each).cell_count for each in later} == {3}
        engine.may_end["t"].release()
        assert (await last).cell_count == 4

    run(test)


def test_a_cancelled_caller_stops_no_flush_and_waiting_callers_get_its_error(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine()

    async def test() -> None:
        flushes = Flushes(engine.flush, pool)
        for error in (None, DiskFullError("no space")):
            engine.error = error
            gone = asyncio.create_task(flushes.flush("t"))
            await until(lambda: len(engine.begun) in (1, 3))
            joined = asyncio.create_task(flushes.flush("t"))
            await asyncio.sleep(0)
            gone.cancel()
            engine.may_end["t"].release(2)
            if error is None:
                assert (await joined).cell_count == 2
            else:
                with pytest.raises(DiskFullError):
                    await joined
        assert engine.begun == ["t"] * 4

    run(test)
    assert caplog.records == []
