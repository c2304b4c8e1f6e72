"""The queue of compactions: which job a worker starts next, and what operators see of all jobs. No threads, no clock.

1. A store has at most one working and one queued job. So jobs of one store never overlap, and the queue is bounded.
2. A request by hand for a store with a queued job joins that job: it becomes one by hand, and major if either is.
3. Requests by hand start before automatic jobs; among equals the older job starts first.
4. Automatic jobs of a store pause and stop after failures (attempts.py). The first that is not queued because they
   have stopped is recorded as attempted.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rowlock_regionserver.compaction.attempts import AttemptRules, Failure, StoreAttempts
from rowlock_regionserver.compaction.history import StoreHistory
from rowlock_regionserver.compaction.job import CompactionJob, Entry, RequestedStore, State, StoreId
from rowlock_regionserver.compaction.picker import Kind, Plan

# Ended jobs that clients may still wait for, whatever the histories keep.
_ENDED_MAX = 1000


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """How many jobs wait and run."""

    queued_count: int
    working_count: int


class CompactionQueue:
    """All jobs of a server. The caller holds one lock around each call. Times are given by the caller."""

    def __init__(self, rules: AttemptRules) -> None:
        self._rules = rules
        self.next_job_id = 1  # to be set after a restart
        self._queued: dict[StoreId, Entry] = {}
        self._working: dict[StoreId, Entry] = {}
        self._attempts: dict[StoreId, StoreAttempts] = {}
        self._ended: deque[CompactionJob] = deque(maxlen=_ENDED_MAX)

    # What was before a restart.

    def restore(self, region_id: int, histories: Mapping[int, StoreHistory]) -> None:
        """Takes over the histories of a region's stores, by family number, before any job is queued."""
        for number, history in histories.items():
            self._attempts[StoreId(region_id, number)] = StoreAttempts(self._rules, history)

    def histories_of(self, region_id: int) -> dict[int, StoreHistory]:
        """Returns the histories of a region's stores by family number."""
        return {
            store.family_number: attempts.history
            for store, attempts in self._attempts.items()
            if store.region_id == region_id
        }

    # Jobs begin.

    def may_attempt(self, store: StoreId, monotonic: float) -> bool:
        """Returns whether an automatic job of the store may be looked for now: none is there, and no pause runs."""
        is_paused = store in self._attempts and self._attempts[store].is_paused(monotonic)
        return not is_paused and not self._is_busy(store)

    def offer(self, store: StoreId, table: str, family: bytes, plan: Plan, now_ms: int) -> CompactionJob | None:
        """Queues an automatic job, or records why it is not queued. Returns the job; None if there is no new one.

        A job that a client has requested in the meantime makes it unnecessary.
        """
        if self._is_busy(store):
            return None
        attempts = self._attempts_of(store)
        why_stopped = attempts.why_stopped()
        if why_stopped and not attempts.record_stop():
            return None
        job = self._new_job(store, table, family, plan.kind, plan.why, is_by_hand=False, now_ms=now_ms)
        if not why_stopped:
            self._queued[store] = Entry(job, None)
            return job
        error = (
            f"automatic compaction of this store has stopped: {why_stopped.rstrip('.')}; it continues after a "
            "compaction that is requested by hand has succeeded"
        )
        return self._record(job, State.ATTEMPTED, now_ms, error)

    def request(self, requested: RequestedStore, now_ms: int) -> CompactionJob:
        """Queues a job by hand, or joins the store's queued job; returns it."""
        store, kind = requested.store, requested.kind
        queued = self._queued.get(store)
        if queued is not None:
            queued.join(requested)
            return queued.job
        why = "requested by hand"
        job = self._new_job(store, requested.table, requested.family, kind, why, is_by_hand=True, now_ms=now_ms)
        self._queued[store] = Entry(job, requested.settings)
        return job

    def start_next(self, worker: str, now_ms: int) -> Entry | None:
        """Starts the next job whose store has none at work; None if there is none."""
        ready = [entry for store, entry in self._queued.items() if store not in self._working]
        if not ready:
            return None
        entry = min(ready, key=lambda entry: (not entry.job.is_by_hand, entry.job.job_id))
        store = entry.job.store
        self._working[store] = self._queued.pop(store)
        entry.start(worker, now_ms)
        return entry

    # Jobs end.

    def succeeded(self, entry: Entry, now_ms: int, monotonic: float) -> None:
        """Ends a working job whose new files are live, or that found nothing to do.

        After an automatic one that read files and gained nothing the next one waits, whatever made it due.
        """
        job = entry.shown()
        self._end(entry, State.SUCCEEDED, now_ms, "")
        if not job.is_by_hand and not entry.is_gone and job.work.has_gained_nothing:
            self._attempts_of(job.store).pause(monotonic)

    def failed(self, entry: Entry, failure: Failure, error: str, now_ms: int, monotonic: float) -> None:
        """Ends a working job that failed; the next automatic one waits, or is never queued (attempts.py)."""
        if not entry.is_gone:
            self._attempts_of(entry.job.store).failed(failure, error, monotonic)
        self._end(entry, State.FAILED, now_ms, error)

    def refused(self, entry: Entry, error: str, now_ms: int, monotonic: float) -> None:
        """Ends a working job that could not start."""
        if not entry.is_gone:
            self._attempts_of(entry.job.store).pause(monotonic)
        self._end(entry, State.ATTEMPTED, now_ms, error)

    def cancel(self, job_id: int, reason: str, now_ms: int, monotonic: float) -> CompactionJob | None:
        """Ends a queued job, or requests the end of a working one. Returns the job; None if neither has this id."""
        for entry in (*self._queued.values(), *self._working.values()):
            if entry.job.job_id != job_id:
                continue
            if entry.job.state is State.WORKING:
                entry.cancel(reason)
                return entry.shown()
            del self._queued[entry.job.store]
            self._attempts_of(entry.job.store).pause(monotonic)
            return self._record(entry.job, State.ATTEMPTED, now_ms, reason)
        return None

    def cancel_all(self, reason: str, now_ms: int) -> list[CompactionJob]:
        """Ends the queued jobs, and requests the end of the working ones, because the server stops.

        Returns the queued jobs that were requested by hand. The automatic ones are not recorded: they will be due again
        after the restart.
        """
        for entry in self._working.values():
            entry.cancel(reason)
        queued, self._queued = self._queued, {}
        return [
            self._record(entry.job, State.ATTEMPTED, now_ms, reason)
            for entry in queued.values()
            if entry.job.is_by_hand
        ]

    def forget(self, region_id: int, families_left: Iterable[int], reason: str, now_ms: int) -> None:
        """Ends the jobs of a region's stores that are gone, and forgets their histories. `families_left`: the others.

        For a while clients may still ask for these jobs by id.
        """
        left = set(families_left)
        for store in {*self._queued, *self._working, *self._attempts}:
            if store.region_id != region_id or store.family_number in left:
                continue
            self._attempts.pop(store, None)
            if store in self._working:
                self._working[store].is_gone = True
                self._working[store].cancel(reason)
            if store in self._queued:
                job = self._queued.pop(store).job
                self._record(job, State.ATTEMPTED, now_ms, reason, is_gone=True)

    # What operators see.

    def jobs(self, table: str | None = None) -> list[CompactionJob]:
        """Returns the jobs of a table, or of all, by id: queued and working ones, and those of the histories."""
        ended = itertools.chain.from_iterable(attempts.history.jobs for attempts in self._attempts.values())
        active = (entry.shown() for entry in (*self._queued.values(), *self._working.values()))
        found = [job for job in (*ended, *active) if table is None or job.table == table]
        return sorted(found, key=lambda job: job.job_id)

    def jobs_of_ids(self, ids: Iterable[int]) -> list[CompactionJob]:
        """Returns the jobs of these ids, also those that no history has any more, as far as they are remembered."""
        wanted = set(ids)
        found = {job.job_id: job for job in (*self._ended, *self.jobs()) if job.job_id in wanted}
        return [found[job_id] for job_id in sorted(found)]

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(len(self._queued), len(self._working))

    def _is_busy(self, store: StoreId) -> bool:
        return store in self._queued or store in self._working

    def _attempts_of(self, store: StoreId) -> StoreAttempts:
        return self._attempts.setdefault(store, StoreAttempts(self._rules, StoreHistory()))

    def _new_job(
        self, store: StoreId, table: str, family: bytes, kind: Kind, why: str, *, is_by_hand: bool, now_ms: int
    ) -> CompactionJob:
        job_id, self.next_job_id = self.next_job_id, self.next_job_id + 1
        return CompactionJob(job_id, store, table, family, kind, why, is_by_hand, queued_ms=now_ms)

    def _end(self, entry: Entry, state: State, now_ms: int, error: str) -> None:
        ended = self._working.pop(entry.job.store)
        assert ended is entry, (ended.job, entry.job)
        self._record(entry.shown(), state, now_ms, error, is_gone=entry.is_gone)

    def _record(
        self, job: CompactionJob, state: State, now_ms: int, error: str, *, is_gone: bool = False
    ) -> CompactionJob:
        """Records a job that is over; no history does if its store is gone."""
        job = replace(job, state=state, ended_ms=now_ms, error=error)
        self._ended.append(job)
        if not is_gone:
            self._attempts_of(job.store).ended(job)
        return job

    def _check(self) -> None:
        """Asserts what must hold at any moment."""
        for state, entries in ((State.QUEUED, self._queued), (State.WORKING, self._working)):
            for store, entry in entries.items():
                assert entry.job.store == store, (store, entry.job)
                assert entry.job.state is state, entry.job
        for store, attempts in self._attempts.items():
            for state in (State.SUCCEEDED, State.FAILED, State.ATTEMPTED):
                count = sum(job.state is state for job in attempts.history.jobs)
                assert count <= self._rules.limits.of(state), (store, state, count)
        ids = [job.job_id for job in self.jobs()]
        assert len(ids) == len(set(ids)), ids
        assert all(job_id < self.next_job_id for job_id in ids), (ids, self.next_job_id)
