"""The flush threads: flush regions before memory, segments or the log reach their bounds.

A scheduler thread finds the regions that are due and their order, and hands them to a pool of threads. A region is due
when its own memstore is too large, when it has too many segments, when it pins the oldest part of the log, or when its
flush was requested, because of what was deleted (compaction/tombstone_flushes.py). Under memory pressure, which is that
of the whole server, the largest regions are due too, until the memstores will be down to a quarter of their bound: with
many tables each region is small, and none would ever be due on its own. A small flush mostly waits for syncs, so
several run at once, as far as there is memory for their work; the file system combines their syncs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    OutOfMemoryError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.resident import Resident
from rowlock_regionserver.wal.log import Log

logger = logging.getLogger(__name__)

# How often the scheduler checks unprompted: under hot counters the log grows, but memory does not.
CHECK_AGAIN_S = 1.0
# The memory of a flush: windows before and after the merge, blocks to be written, a hash for each row.
_WORK_BYTES_MAX = 24 * MIB
_WORK_SHARE, _HASHES_SHARE = 3, 16


class FlushThreads:
    """Flushes the regions that are due, largest first: when memory has grown, after each flush, and every second.

    `tidy_up` is called before each look at the regions. `flush` makes a failed sync end the server. Without disk space,
    descriptors or memory the segments stay, and the flush is repeated. `on_failure` is called when the flush threads
    end by another error: without them all writes would soon be refused.
    """

    def __init__(
        self,
        regions: Callable[[], Sequence[Region]],
        tidy_up: Callable[[], object],
        flush: Callable[[Region], object],
        memory: MemoryGauge,
        ledger: Ledger,
        log: Log,
        config: Config,
        clock: Clock,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._regions = regions
        self._tidy_up = tidy_up
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
        self._queue: deque[Region] = deque()  # used by the scheduler only
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._running: dict[int, int] = {}  # by region id: the bytes that its flush frees
        self._refused: dict[int, float] = {}  # by region id: when there was no space, descriptor or memory
        self._requested: set[int] = set()  # region ids
        self.thread = threading.Thread(target=self._run, name="flush-scheduler", daemon=True)

    def wake(self) -> None:
        """Wakes the scheduler; to be called when memory has grown. Never blocks."""
        self._wake.set()

    def request(self, region_id: int) -> None:
        """Requests a flush of a region soon, without waiting; it is not repeated if the disk refuses it."""
        with self._lock:
            self._requested.add(region_id)
        self._wake.set()

    def stop(self) -> None:
        """Ends the threads after their current flushes. Blocks."""
        self._is_stopping = True
        self._wake.set()
        if self.thread.ident is not None:
            self.thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._begin_due_flushes()
                self._resident.look()
                self._wake.wait(CHECK_AGAIN_S)
                self._wake.clear()
        except BaseException as error:
            self._on_failure(error)

    def _begin_due_flushes(self) -> None:
        """Begins as many flushes as may run at once; the end of a flush begins the next."""
        if not self._queue:
            self._tidy_up()
            self._queue.extend(self._due())
        while self._queue:
            region = self._queue[0]
            byte_count = region.memstore_bytes
            if len(self._running) >= self._config.flush_threads:
                return
            if region.region_id not in self._postponed():
                work_bytes = min(_WORK_BYTES_MAX, _WORK_SHARE * byte_count) + byte_count // _HASHES_SHARE
                if not self._work.try_take(work_bytes):
                    if self._running:
                        return
                    self._work.add(work_bytes)  # One flush is always possible, or memory would never be freed.
                with self._lock:
                    self._running[region.region_id] = byte_count
                self._pool.submit(self._flush_one, region, work_bytes)
            self._queue.popleft()

    def _postponed(self) -> set[int]:
        """The regions that are being flushed, or whose flush was refused in the last second."""
        since = self._clock.monotonic() - CHECK_AGAIN_S
        with self._lock:
            return {*self._running, *(region_id for region_id, at in self._refused.items() if at > since)}

    def _flush_one(self, region: Region, work_bytes: int) -> None:
        refused_at: float | None = None
        try:
            if not self._is_stopping:
                self._flush(region)
        except (DiskFullError, TooManyOpenFilesError):
            refused_at = self._clock.monotonic()
        except OutOfMemoryError as error:
            refused_at = self._clock.monotonic()
            if region.region_id not in self._refused:  # One line for all attempts. No other thread flushes the region.
                logger.warning("region %d could not be flushed, and is tried again: %s", region.region_id, error)
        except NotServingRegionError:
            pass  # It was dropped in the meantime.
        except (UnknownOutcomeError, StoppingError, OSError):
            self._is_stopping = True  # The server is ending, and has reported why.
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
        """The regions over their own bound, those that pin the log, and under pressure the largest; largest first."""
        held = sorted(((region.memstore_bytes, region) for region in self._regions()), key=_bytes_of, reverse=True)
        pinning = set(self._log.regions_that_pin())
        config = self._config
        with self._lock:
            requested, self._requested = self._requested, set()
        due_alone = {
            region.region_id
            for byte_count, region in held
            if byte_count >= config.memstore_flush_bytes
            or region.segment_count >= config.immutable_segments_max
            or region.region_id in pinning
            or region.region_id in requested
        }
        return list(self._with_largest(held, due_alone))

    def _with_largest(self, held: Sequence[tuple[int, Region]], due_alone: set[int]) -> Iterable[Region]:
        """The regions that are due on their own, and under pressure as many more as free enough memory."""
        postponed = self._postponed()
        with self._lock:
            freed_soon = sum(self._running.values())
        freed_soon += sum(byte_count for byte_count, region in held if region.region_id in due_alone)
        remaining = self._memory.bytes_held - freed_soon
        excess = remaining - self._memory.pressure_bytes // 2 if remaining > self._memory.pressure_bytes else 0
        for byte_count, region in held:
            is_largest = excess > 0 and byte_count > 0 and region.region_id not in postponed
            if region.region_id in due_alone:
                yield region
            elif is_largest:
                excess -= byte_count
                yield region


def _bytes_of(held: tuple[int, Region]) -> int:
    return held[0]


def log_flush(region: Region, result: FlushResult, seconds: float) -> None:
    """Logs a flush, unless it had nothing to write."""
    if result.store_file_count:
        logger.info(
            "flushed region %d of table %r in %.2f s: %d cells in %d store files",
            *(region.region_id, region.table.name, seconds, result.cell_count, result.store_file_count),
        )
