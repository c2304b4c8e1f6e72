"""The flush threads: regions are flushed before memory, segments or the log reach their bounds.

One thread looks which regions are due and in which order, and hands them to a few others. A region is due by itself
when it holds too much, has too many segments, or pins the oldest part of the log. Under pressure, which is a matter of
the whole server, so many of the largest are due as bring the memstores down to a quarter of their bound: with many
tables each of them is small, and none would ever be due by itself. Much of a small flush is waiting for syncs, so
several run at once, as far as what they work on has room; the file system carries their syncs together.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.resident import Resident
from rowlock_regionserver.wal.log import Log

# How often it looks without being woken: the log grows also where memory does not, under hot counters.
LOOK_AGAIN_S = 1.0
# What a flush works on: windows as they are and merged, blocks on their way to the disk, a hash for each row.
_WORK_BYTES_MAX = 12 * MIB
_WORK_SHARE, _HASHES_SHARE = 3, 16


class FlushThreads:
    """Wakes when memory has grown, when a flush is done, and now and then; flushes what is due, largest first.

    `flush` makes a failed sync end the server. Without disk space the segments stay, and it tries again. `on_failure`
    is told when flushing ends by anything else: nobody would flush any more, until writes are refused for good.
    """

    def __init__(
        self,
        regions: Callable[[], Sequence[Region]],
        flush: Callable[[Region], object],
        memory: MemoryGauge,
        ledger: Ledger,
        log: Log,
        config: Config,
        clock: Clock,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._regions = regions
        self._flush = flush
        self._memory = memory
        self._work = ledger.flushes
        self._resident = Resident(ledger)
        self._log = log
        self._config = config
        self._clock = clock
        self._on_failure = on_failure
        self._wake = threading.Event()
        self._is_stopping = False
        self._pool = ThreadPoolExecutor(config.flush_threads, thread_name_prefix="flush")
        self._queue: deque[Region] = deque()  # the scheduler's own
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._running: dict[int, int] = {}  # by region id: the bytes that its flush frees
        self._refused: dict[int, float] = {}  # by region id: when the disk refused it
        self.thread = threading.Thread(target=self._run, name="flush-scheduler", daemon=True)

    def wake(self) -> None:
        """Something grew: look again. Never blocks."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the threads after the flushes they are in. Blocks."""
        self._is_stopping = True
        self._wake.set()
        if self.thread.ident is not None:
            self.thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._begin_what_is_due()
                self._resident.look()
                self._wake.wait(LOOK_AGAIN_S)
                self._wake.clear()
        except BaseException as error:
            self._on_failure(error)

    def _begin_what_is_due(self) -> None:
        """Begins as many flushes as may run at once; what is left is begun when one of them is done."""
        if not self._queue:
            self._queue.extend(self._due())
        while self._queue:
            region = self._queue[0]
            byte_count = region.memstore_bytes
            if len(self._running) >= self._config.flush_threads:
                return
            if region.region_id not in self._put_off():
                work_bytes = min(_WORK_BYTES_MAX, _WORK_SHARE * byte_count) + byte_count // _HASHES_SHARE
                if not self._work.try_take(work_bytes):
                    if self._running:
                        return
                    self._work.add(work_bytes)  # One flush is always possible, or memory would never be freed.
                with self._lock:
                    self._running[region.region_id] = byte_count
                self._pool.submit(self._flush_one, region, work_bytes)
            self._queue.popleft()

    def _put_off(self) -> set[int]:
        """The regions that are being flushed, or that the disk refused just now."""
        since = self._clock.monotonic() - LOOK_AGAIN_S
        with self._lock:
            return {*self._running, *(region_id for region_id, at in self._refused.items() if at > since)}

    def _flush_one(self, region: Region, work_bytes: int) -> None:
        refused_at: float | None = None
        try:
            if not self._is_stopping:
                self._flush(region)
        except (DiskFullError, TooManyOpenFilesError):
            refused_at = self._clock.monotonic()
        except NotServingRegionError:
            pass  # It was dropped meanwhile.
        except (UnknownOutcomeError, StoppingError, OSError):
            self._is_stopping = True  # The server is ending, and has said why.
        except BaseException as error:
            self._is_stopping = True
            self._on_failure(error)
        finally:
            self._work.give(work_bytes)
            with self._lock:
                del self._running[region.region_id]
                self._refused.pop(region.region_id, None)
                if refused_at is not None:
                    self._refused[region.region_id] = refused_at
            self._wake.set()

    def _due(self) -> list[Region]:
        """Regions over a bound of their own, those that pin the log, and under pressure the largest; largest first."""
        held = sorted(((region.memstore_bytes, region) for region in self._regions()), key=_bytes_of, reverse=True)
        pinning = set(self._log.regions_that_pin())
        config = self._config
        by_themselves = {
            region.region_id
            for byte_count, region in held
            if byte_count >= config.memstore_flush_bytes
            or region.segment_count >= config.immutable_segments_max
            or region.region_id in pinning
        }
        return list(self._with_the_largest(held, by_themselves))

    def _with_the_largest(self, held: Sequence[tuple[int, Region]], by_themselves: set[int]) -> Iterable[Region]:
        """Those that are due by themselves, and so many more as the memstores hold too much."""
        put_off = self._put_off()
        with self._lock:
            freed_soon = sum(self._running.values())
        freed_soon += sum(byte_count for byte_count, region in held if region.region_id in by_themselves)
        left_over = self._memory.bytes_held - freed_soon
        too_much = left_over - self._memory.pressure_bytes // 2 if left_over > self._memory.pressure_bytes else 0
        for byte_count, region in held:
            is_largest = too_much > 0 and byte_count > 0 and region.region_id not in put_off
            if region.region_id in by_themselves:
                yield region
            elif is_largest:
                too_much -= byte_count
                yield region


def _bytes_of(held: tuple[int, Region]) -> int:
    return held[0]
