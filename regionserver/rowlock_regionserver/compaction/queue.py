"""The queue of compactions: which job a worker starts next, and what operators see of all jobs. No threads, no clock.

1. A store has at most one working and one queued job. So jobs of one store never overlap, and the queue is bounded.
2. A request by hand for a store with a queued job joins that job: it becomes one by hand, and major if either is.
3. Requests by hand start before automatic jobs; among equals the older job starts first.
4. After a job that did not succeed, the next automatic one of the store waits for a pause.
5. Automatic jobs of a store stop after `failures_max` failures in a row, and at once if a file is damaged, until a
   request by hand succeeds. Failures for reasons outside the store don't count: a cancellation, a full disk, no free
   descriptor. The first plan that is not carried out for this reason is recorded as attempted.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rowlock_regionserver.compaction.history import HistoryLimits, StoreHistory
from rowlock_regionserver.compaction.job import CompactionJob, State, StoreId, Work
from rowlock_regionserver.compaction.picker import Kind, Plan
from rowlock_regionserver.compaction.progress import CompactionResult, Progress
from rowlock_regionserver.compaction.settings import CompactionSettings

# Ended jobs of stores that are gone, whose clients may still wait for them.
_GONE_MAX = 100


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """How many jobs wait and run."""

    queued_count: int
    working_count: int


@dataclass(slots=True)
class Entry:
    """A job that has not ended, with what only its worker needs."""

    job: CompactionJob
    settings: CompactionSettings | None  # of the request; None: the table's
    progress: Progress = field(default_factory=Progress)  # of the plan that is carried out

    def shown(self) -> CompactionJob:
        """Returns the job with the progress at this moment."""
        done, progress = self.job.work, self.progress
        return replace(
            self.job,
            work=replace(
                done,
                bytes_total=done.bytes_total + progress.bytes_total,
                bytes_read=done.bytes_read + progress.bytes_read,
                bytes_written=done.bytes_written + progress.bytes_written,
            ),
        )


class CompactionQueue:
    """All jobs of a server. The caller holds one lock around each call. Times are given by the caller."""

    def __init__(self, limits: HistoryLimits, failures_max: int, pause_s: float) -> None:
        self._limits = limits
        self._failures_max = failures_max
        self._pause_s = pause_s
        self._next_id = 1
        self._queued: dict[StoreId, Entry] = {}
        self._working: dict[StoreId, Entry] = {}
        self._histories: dict[StoreId, StoreHistory] = {}
        self._paused_until: dict[StoreId, float] = {}  # on the monotonic clock
        self._noted_stops: set[StoreId] = set()
        self._gone: deque[CompactionJob] = deque(maxlen=_GONE_MAX)

    # What was before a restart.

    def restore(self, region_id: int, histories: Mapping[int, StoreHistory], next_job_id: int) -> None:
        """Takes over the histories of a region's stores, by family number, before any job is queued."""
        for number, history in histories.items():
            self._histories[StoreId(region_id, number)] = history
        self._next_id = max(self._next_id, next_job_id)

    @property
    def next_job_id(self) -> int:
        return self._next_id

    def histories_of(self, region_id: int) -> dict[int, StoreHistory]:
        """Returns the histories of a region's stores by family number."""
        return {
            store.family_number: history for store, history in self._histories.items() if store.region_id == region_id
        }

    # Jobs begin.

    def may_attempt(self, store: StoreId, monotonic: float) -> bool:
        """Returns whether an automatic job of the store may be looked for now: none is there, and no pause runs."""
        is_paused = monotonic < self._paused_until.get(store, monotonic)
        return not is_paused and store not in self._queued and store not in self._working

    def offer(self, store: StoreId, table: str, family: bytes, plan: Plan, now_ms: int) -> CompactionJob | None:
        """Queues an automatic job, or records why none is queued. Returns the new job, None if there is none.

        A job that a client has requested in the meantime makes it unnecessary.
        """
        if store in self._queued or store in self._working:
            return None
        why_stopped = self._history(store).stopped_because(self._failures_max)
        if why_stopped and store in self._noted_stops:
            return None
        job = self._new_job(store, table, family, plan.kind, plan.why, is_by_hand=False, now_ms=now_ms)
        if not why_stopped:
            self._queued[store] = Entry(job, None)
            return job
        self._noted_stops.add(store)
        error = (
            f"automatic compaction of this store has stopped, because {why_stopped}; it continues after a compaction "
            "that is requested by hand has succeeded"
        )
        return self._record(replace(job, state=State.ATTEMPTED, ended_ms=now_ms, error=error))

    def request(
        self,
        store: StoreId,
        table: str,
        family: bytes,
        kind: Kind,
        settings: CompactionSettings | None,
        now_ms: int,
    ) -> CompactionJob:
        """Queues a job by hand, or joins the store's queued job; returns it."""
        queued = self._queued.get(store)
        if queued is None:
            job = self._new_job(store, table, family, kind, "requested by hand", is_by_hand=True, now_ms=now_ms)
            self._queued[store] = Entry(job, settings)
            return job
        if Kind.MAJOR in (kind, queued.job.kind):
            kind = Kind.MAJOR
        why = queued.job.why if queued.job.is_by_hand else f"requested by hand; {queued.job.why}"
        queued.job = replace(queued.job, kind=kind, why=why, is_by_hand=True)
        queued.settings = settings or queued.settings
        return queued.job

    def start_next(self, worker: str, now_ms: int) -> Entry | None:
        """Starts the next job whose store has none at work; None if there is none."""
        ready = [entry for store, entry in self._queued.items() if store not in self._working]
        if not ready:
            return None
        entry = min(ready, key=lambda entry: (not entry.job.is_by_hand, entry.job.job_id))
        del self._queued[entry.job.store]
        entry.job = replace(entry.job, state=State.WORKING, worker=worker, started_ms=now_ms)
        self._working[entry.job.store] = entry
        return entry

    def planned(self, entry: Entry, plan: Plan) -> None:
        """Notes what the job will do next: files may have come since it was queued."""
        assert self._working.get(entry.job.store) is entry, entry.job
        why = f"requested by hand; {plan.why}" if entry.job.is_by_hand else plan.why
        entry.job = replace(entry.job, kind=plan.kind, why=why)

    def carried_out(self, entry: Entry, result: CompactionResult) -> None:
        """Adds the result of a plan. The job continues, with new progress."""
        done = entry.job.work
        work = Work(
            bytes_total=done.bytes_total + entry.progress.bytes_total,
            bytes_read=done.bytes_read + entry.progress.bytes_total,
            bytes_written=done.bytes_written + result.bytes_out,
            files_in=done.files_in + result.file_count_in,
            files_out=done.files_out + result.file_count_out,
            cells_in=done.cells_in + result.cells_in,
            cells_out=done.cells_out + result.cells_out,
        )
        entry.job, entry.progress = replace(entry.job, work=work), entry.progress.next()

    # Jobs end.

    def succeeded(self, entry: Entry, now_ms: int) -> CompactionJob:
        """Ends a working job whose new files are live, or that found nothing to do."""
        store = entry.job.store
        self._paused_until.pop(store, None)
        self._noted_stops.discard(store)
        return self._end(entry, State.SUCCEEDED, now_ms, "")

    def failed(
        self, entry: Entry, error: str, now_ms: int, monotonic: float, *, counts: bool, damage: str = ""
    ) -> CompactionJob:
        """Ends a working job without success. `counts`: towards the failures after which automatic jobs stop.

        `damage`: the error that names a damaged file; automatic jobs stop at once.
        """
        store = entry.job.store
        if counts:
            self._histories[store] = self._history(store).with_failure(damage)
        self._paused_until[store] = monotonic + self._pause_s
        return self._end(entry, State.FAILED, now_ms, error)

    def refused(self, entry: Entry, error: str, now_ms: int, monotonic: float) -> CompactionJob:
        """Ends a working job that could not start."""
        self._paused_until[entry.job.store] = monotonic + self._pause_s
        return self._end(entry, State.ATTEMPTED, now_ms, error)

    def cancel(self, job_id: int, reason: str, now_ms: int, monotonic: float) -> CompactionJob | None:
        """Ends a queued job, or requests the end of a working one. Returns the job; None if it is not there any more."""
        for entry in self._working.values():
            if entry.job.job_id == job_id:
                entry.progress.cancel(reason)
                return entry.shown()
        for store, entry in self._queued.items():
            if entry.job.job_id == job_id:
                del self._queued[store]
                self._paused_until[store] = monotonic + self._pause_s
                job = replace(entry.job, state=State.ATTEMPTED, ended_ms=now_ms, error=reason)
                return self._record(job)
        return None

    def cancel_all(self, reason: str, now_ms: int) -> list[CompactionJob]:
        """Ends the queued jobs, and requests the end of the working ones, because the server stops.

        Returns the queued jobs that were requested by hand; the automatic ones are forgotten, and picked again.
        """
        for entry in self._working.values():
            entry.progress.cancel(reason)
        queued, self._queued = self._queued, {}
        return [
            self._record(replace(entry.job, state=State.ATTEMPTED, ended_ms=now_ms, error=reason))
            for entry in queued.values()
            if entry.job.is_by_hand
        ]

    def forget(self, stores: Iterable[StoreId], reason: str, now_ms: int) -> None:
        """Ends the jobs of stores that are gone, and removes their histories. Clients may ask for the jobs by id."""
        for store in stores:
            self._histories.pop(store, None)
            self._paused_until.pop(store, None)
            self._noted_stops.discard(store)
            queued = self._queued.pop(store, None)
            if queued is not None:
                self._gone.append(replace(queued.job, state=State.ATTEMPTED, ended_ms=now_ms, error=reason))
            working = self._working.get(store)
            if working is not None:
                working.progress.cancel(reason)

    def gone(self, entry: Entry, reason: str, now_ms: int) -> None:
        """Ends a working job of a store that is gone; no history records it."""
        del self._working[entry.job.store]
        self._gone.append(replace(entry.shown(), state=State.FAILED, ended_ms=now_ms, error=reason))

    # What operators see.

    def stores(self) -> Iterator[StoreId]:
        """Yields the stores with jobs or a history."""
        return iter({*self._queued, *self._working, *self._histories})

    def jobs(self, *, table: str | None = None) -> list[CompactionJob]:
        """Returns the jobs of a table, or of all, by id: queued and working ones, and those of the histories."""
        ended = itertools.chain.from_iterable(history.jobs for history in self._histories.values())
        active = (entry.shown() for entry in (*self._queued.values(), *self._working.values()))
        found = [job for job in (*ended, *active) if table is None or job.table == table]
        return sorted(found, key=lambda job: job.job_id)

    def jobs_of_ids(self, ids: Iterable[int]) -> list[CompactionJob]:
        """Returns the jobs of these ids, also those of stores that are gone, as far as they are remembered."""
        wanted = set(ids)
        found = {job.job_id: job for job in (*self._gone, *self.jobs()) if job.job_id in wanted}
        return [found[job_id] for job_id in sorted(found)]

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(len(self._queued), len(self._working))

    def _history(self, store: StoreId) -> StoreHistory:
        return self._histories.get(store, StoreHistory())

    def _new_job(
        self, store: StoreId, table: str, family: bytes, kind: Kind, why: str, *, is_by_hand: bool, now_ms: int
    ) -> CompactionJob:
        job_id, self._next_id = self._next_id, self._next_id + 1
        return CompactionJob(job_id, store, table, family, kind, why, is_by_hand, queued_ms=now_ms)

    def _end(self, entry: Entry, state: State, now_ms: int, error: str) -> CompactionJob:
        assert self._working.pop(entry.job.store, None) is entry, entry.job
        return self._record(replace(entry.shown(), state=state, ended_ms=now_ms, error=error))

    def _record(self, job: CompactionJob) -> CompactionJob:
        self._histories[job.store] = self._history(job.store).with_ended(job, self._limits)
        return job

    def _check(self) -> None:
        """Asserts what must hold at any moment."""
        for state, entries in ((State.QUEUED, self._queued), (State.WORKING, self._working)):
            for store, entry in entries.items():
                assert entry.job.store == store, (store, entry.job)
                assert entry.job.state is state, entry.job
        for store, history in self._histories.items():
            for state in (State.SUCCEEDED, State.FAILED, State.ATTEMPTED):
                count = sum(job.state is state for job in history.jobs)
                assert count <= self._limits.of(state), (store, state, count)
        ids = [job.job_id for job in self.jobs()]
        assert len(ids) == len(set(ids)), ids
        assert all(job_id < self._next_id for job_id in ids), (ids, self._next_id)
