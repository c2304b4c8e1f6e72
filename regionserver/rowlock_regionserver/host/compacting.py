"""The compaction threads: an initiator queues the stores that are due, workers compact them.

The initiator looks at every store each `compaction_check_ms`, and at those of a region after its flush or compaction.
What is due is the picker's decision (compaction/picker.py), which job comes next and when automatic jobs stop the
queue's (compaction/queue.py). A worker asks the picker again when it starts a job, because files may have come since.

What the threads do with a job is in compaction_runs.py, and the files of the history in compaction_history.py.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rowlock_regionserver.compaction.attempts import AttemptRules
from rowlock_regionserver.compaction.history import HistoryLimits, StoreHistory
from rowlock_regionserver.compaction.job import CompactionJob, Entry, RequestedStore, StoreId
from rowlock_regionserver.compaction.picker import pick
from rowlock_regionserver.compaction.queue import CompactionQueue, QueueStatistics
from rowlock_regionserver.compaction.tombstone_flushes import TombstoneFlushes
from rowlock_regionserver.errors import (
    InvalidRequestError,
    NotServingRegionError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.host.compaction_history import HistoryFiles
from rowlock_regionserver.host.compaction_runs import Compact, CompactedRegion, JobRunner, settings_of
from rowlock_regionserver.region.shared_parts import SharedParts

# After a restart ids continue at the next multiple: those of jobs that had not ended are not on the disk.
_IDS_PER_START = 1000
logger = logging.getLogger(__name__)


class CompactionThreads:
    """Compacts the stores that are due, and those for which a client asks. Thread-safe."""

    def __init__(
        self,
        regions: Mapping[int, CompactedRegion],
        compact: Compact,
        folder_of: Callable[[int], Path],
        shared: SharedParts,
        request_flush: Callable[[int], None],
    ) -> None:
        """`regions`: those that are served, by id, at any moment. `compact` makes a failed commit end the server.

        `request_flush` makes a region, by its id, be flushed soon.

        `shared.on_fatal` is called when these threads end by an error of the disk or of their own.
        """
        config = shared.config
        self._regions = regions
        self._config = config
        self._clock = shared.clock
        self._on_failure = shared.on_fatal
        self._histories = HistoryFiles(shared.files, folder_of)
        self._wake = threading.Event()
        limits = HistoryLimits(
            config.compaction_history_succeeded_max,
            config.compaction_history_failed_max,
            config.compaction_history_attempted_max,
        )
        rules = AttemptRules(limits, config.compaction_failures_max, config.compaction_pause_ms / 1000)
        self._changed = threading.Condition()
        # Guarded by self._changed:
        self._queue = CompactionQueue(rules)
        self._is_stopping = False
        self._woken: set[int] = set()  # region ids
        # Used by the initiator only:
        self._all_looked_at = -math.inf  # when all regions are looked at again
        self._tombstones = TombstoneFlushes(request_flush)
        self._broken_until: dict[int, float] = {}  # by region id
        self._runner = JobRunner(regions, compact, self._queue, self._changed, shared.clock)
        self.initiator = threading.Thread(target=self._run_initiator, name="compaction-initiator", daemon=True)
        self.workers = [
            threading.Thread(target=self._run_worker, args=(name,), name=name, daemon=True)
            for name in (f"compaction-{number}" for number in range(1, config.compaction_threads + 1))
        ]

    def begin(self) -> None:
        """Reads the histories of all regions, and starts the threads."""
        next_id = 1
        for region in list(self._regions.values()):
            histories, next_of_region = self._histories.read(region.region_id)
            # A family that was dropped since the file was written has no history.
            of_table = {
                number: history for number, history in histories.items() if number in region.table.name_by_number
            }
            self._queue.restore(region.region_id, of_table)
            next_id = max(next_id, next_of_region)
        if next_id > 1:
            next_id += -(next_id - 1) % _IDS_PER_START
        self._queue.next_job_id = next_id
        if self.workers:
            for thread in (self.initiator, *self.workers):
                thread.start()

    def wake(self, region_id: int) -> None:
        """Makes the initiator look at the stores of a region; to be called after a flush. Never blocks for long."""
        with self._changed:
            self._woken.add(region_id)
        self._wake.set()

    def stop(self) -> None:
        """Cancels all jobs and ends the threads. Blocks until the working jobs have stopped."""
        with self._changed:
            self._is_stopping = True
            cancelled = self._queue.cancel_all("the server was stopped", self._clock.now_ms())
            self._changed.notify_all()
        self._wake.set()
        for thread in (self.initiator, *self.workers):
            if thread.ident is not None:
                thread.join()
        with contextlib.suppress(UnknownOutcomeError):  # The server ends anyway, and the failure was reported.
            self._save(job.store.region_id for job in cancelled)

    # Requests.

    def request(self, stores: Sequence[RequestedStore]) -> list[int]:
        """Queues these stores, or joins their queued jobs. Returns the ids of the jobs, in this order."""
        if not self.workers:
            raise InvalidRequestError("this server runs no compactions: its setting compaction_threads is 0")
        with self._changed:
            if self._is_stopping:
                raise StoppingError("the server is stopping; nothing was queued")
            now_ms = self._clock.now_ms()
            ids = [self._queue.request(store, now_ms).job_id for store in stores]
            self._changed.notify_all()
        return ids

    def cancel(self, ids: Iterable[int]) -> list[CompactionJob]:
        """Cancels queued and working jobs. Returns those of the ids that are known, as they are now.

        A working one stops within a moment, unless it is done before. Blocks on the disk.
        """
        ids = set(ids)
        with self._changed:
            cancelled = [
                self._queue.cancel(job_id, "cancelled by hand", self._clock.now_ms(), self._clock.monotonic())
                for job_id in sorted(ids)
            ]
        self._save(job.store.region_id for job in cancelled if job is not None and job.state.is_over)
        return self.jobs_of_ids(ids)

    def forget(self, region_id: int, families_left: Iterable[int], reason: str) -> None:
        """Cancels the jobs of stores that are gone, without waiting, and forgets their histories.

        To be called before and after a region is closed. After the latter no file of it is written.
        """
        with self._changed:
            self._queue.forget(region_id, families_left, reason, self._clock.now_ms())
        if region_id not in self._regions:
            self._histories.forget(region_id)

    def jobs(self, table: str | None = None) -> list[CompactionJob]:
        """Returns the jobs of a table, or of all, by id: queued and working ones and the histories."""
        with self._changed:
            return self._queue.jobs(table)

    def jobs_of_ids(self, ids: Iterable[int]) -> list[CompactionJob]:
        """Returns the jobs of these ids that are known, by id."""
        with self._changed:
            return self._queue.jobs_of_ids(ids)

    def statistics(self) -> QueueStatistics:
        with self._changed:
            return self._queue.statistics()

    # The initiator.

    def _run_initiator(self) -> None:
        try:
            while not self._is_stopping:
                self._wake.clear()
                for region in self._next_regions():
                    self._look_at(region)
                self._wake.wait(self._config.compaction_check_ms / 1000)
        except (UnknownOutcomeError, StoppingError):
            pass  # The server is ending, and has reported why.
        except BaseException as error:
            self._on_failure(error)

    def _next_regions(self) -> list[CompactedRegion]:
        """Returns the regions for which the initiator was woken; all of them each `compaction_check_ms`."""
        with self._changed:
            woken, self._woken = self._woken, set()
        now = self._clock.monotonic()
        if now >= self._all_looked_at:
            self._all_looked_at = now + self._config.compaction_check_ms / 1000
            return list(self._regions.values())
        return [region for region in map(self._regions.get, woken) if region is not None]

    def _look_at(self, region: CompactedRegion) -> None:
        """Queues the stores of a region that are due. An error of one region delays no other."""
        now = self._clock.monotonic()
        if now < self._broken_until.get(region.region_id, now):
            return
        try:
            self._offer_due(region)
        except NotServingRegionError:
            pass  # It was dropped in the meantime.
        except (UnknownOutcomeError, StoppingError):
            raise
        except Exception:
            logger.exception("region %d of table %r can't be looked at", region.region_id, region.table.name)
            self._broken_until[region.region_id] = now + self._config.compaction_pause_ms / 1000

    def _offer_due(self, region: CompactedRegion) -> None:
        table = region.table
        settings = settings_of(table)
        if not settings.automatic:
            return
        offered: list[CompactionJob] = []
        stores = region.compaction_facts()
        memory = [facts.memory for facts in stores]
        self._tombstones.look_at(region.region_id, memory, settings, self._clock.monotonic())
        for facts in stores:
            store = StoreId(region.region_id, facts.family.number)
            with self._changed:
                if not self._queue.may_attempt(store, self._clock.monotonic()):
                    continue
            plan = pick(facts.files, settings)
            if plan is None:
                continue
            with self._changed:
                job = self._queue.offer(store, table.name, facts.family.name, plan, self._clock.now_ms())
                self._changed.notify_all()
            offered += [] if job is None else [job]
        self._save(job.store.region_id for job in offered if job.state.is_over)

    # Workers.

    def _run_worker(self, name: str) -> None:
        try:
            while (entry := self._next_entry(name)) is not None:
                self._runner.run(entry)
                self._save((entry.job.store.region_id,))
                self.wake(entry.job.store.region_id)
        except (UnknownOutcomeError, StoppingError, OSError):
            with self._changed:
                self._is_stopping = True  # The server is ending, and has reported why.
                self._changed.notify_all()
        except BaseException as error:
            self._on_failure(error)

    def _next_entry(self, worker: str) -> Entry | None:
        """Blocks until there is a job to start; returns None when the server stops."""
        with self._changed:
            while not self._is_stopping:
                entry = self._queue.start_next(worker, self._clock.now_ms())
                if entry is not None:
                    return entry
                self._changed.wait()
        return None

    def _history_of(self, region_id: int) -> tuple[Mapping[int, StoreHistory], int] | None:
        """Returns what the history's file of a region holds; None if the region is gone."""
        with self._changed:
            if region_id not in self._regions:
                return None
            return self._queue.histories_of(region_id), self._queue.next_job_id

    def _save(self, region_ids: Iterable[int]) -> None:
        """Writes the histories of these regions. A failed sync of a folder is final."""
        for region_id in sorted(set(region_ids)):
            try:
                self._histories.write(region_id, self._history_of)
            except UnknownOutcomeError as error:
                self._on_failure(error)
                raise
