"""The history of a store's compactions: the last few that ended, and whether automatic compaction continues.

The histories of a region's stores are one small file in the region's folder (host/compaction_history.py). It only
informs: a lost or damaged one changes nothing but what is shown, and lets automatic compaction try again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rowlock_regionserver.compaction.job import CompactionJob, State, StoreId, Work
from rowlock_regionserver.compaction.picker import Kind


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How many jobs of a store are kept by state; the oldest go first."""

    succeeded_max: int = 3
    failed_max: int = 3
    attempted_max: int = 2

    def of(self, state: State) -> int:
        """Returns how many jobs in this state, which is that of an ended job, are kept."""
        limits = {
            State.SUCCEEDED: self.succeeded_max,
            State.FAILED: self.failed_max,
            State.ATTEMPTED: self.attempted_max,
        }
        return limits[state]


@dataclass(frozen=True, slots=True)
class StoreHistory:
    """The ended jobs of a store, in the order of their ends, and its failures since the last success."""

    jobs: tuple[CompactionJob, ...] = ()
    failure_count: int = 0
    damage: str = ""  # the error that named a damaged file

    def with_ended(self, job: CompactionJob, limits: HistoryLimits) -> StoreHistory:
        """Returns the history with one more job. A success ends the count of failures."""
        assert job.state.is_over, job
        same = [old for old in (*self.jobs, job) if old.state is job.state]
        surplus = set(same[: max(0, len(same) - limits.of(job.state))])
        jobs = tuple(old for old in (*self.jobs, job) if old not in surplus)
        if job.state is State.SUCCEEDED:
            return StoreHistory(jobs)
        return replace(self, jobs=jobs)

    def with_failure(self, damage: str = "") -> StoreHistory:
        """Returns the history with one more failure that repeating may not mend. `damage`: it named a damaged file."""
        return replace(self, failure_count=self.failure_count + 1, damage=damage or self.damage)

    def stopped_because(self, failures_max: int) -> str:
        """Returns why automatic compaction of the store has stopped; empty if it has not."""
        if self.damage:
            return f"a file is damaged: {self.damage}"
        if self.failure_count < failures_max:
            return ""
        last = next((job.error for job in reversed(self.jobs) if job.state is State.FAILED), "")
        return f"it failed {self.failure_count} times in a row" + (f", the last time because {last}" if last else "")


def encode(histories: Mapping[int, StoreHistory], next_job_id: int) -> bytes:
    """Encodes the histories of a region's stores by family number, and the server's next job id, as JSON."""
    stores = {
        number: {
            "failure_count": history.failure_count,
            "damage": history.damage,
            "jobs": [_job_to_json(job) for job in history.jobs],
        }
        for number, history in histories.items()
    }
    return json.dumps({"next_job_id": next_job_id, "stores": stores}).encode()


def decode(body: bytes) -> tuple[dict[int, StoreHistory], int]:
    """The inverse of `encode`. Ignores fields that it does not know. Raises KeyError, TypeError or ValueError."""
    fields = json.loads(body)
    histories = {
        int(number): StoreHistory(
            tuple(_job_from_json(job) for job in store["jobs"]), int(store["failure_count"]), str(store["damage"])
        )
        for number, store in fields["stores"].items()
    }
    return histories, int(fields["next_job_id"])


def _job_to_json(job: CompactionJob) -> dict[str, object]:
    return {
        "job_id": job.job_id,
        "region_id": job.store.region_id,
        "family_number": job.store.family_number,
        "table": job.table,
        "family": base64.b64encode(job.family).decode(),
        "kind": job.kind.name,
        "why": job.why,
        "is_by_hand": job.is_by_hand,
        "state": job.state.name,
        "worker": job.worker,
        "queued_ms": job.queued_ms,
        "started_ms": job.started_ms,
        "ended_ms": job.ended_ms,
        "work": asdict(job.work),
        "error": job.error,
    }


def _job_from_json(fields: Mapping[str, Any]) -> CompactionJob:  # Any: what json.loads returns
    work = fields["work"]
    return CompactionJob(
        job_id=int(fields["job_id"]),
        store=StoreId(int(fields["region_id"]), int(fields["family_number"])),
        table=str(fields["table"]),
        family=base64.b64decode(fields["family"]),
        kind=Kind[fields["kind"]],
        why=str(fields["why"]),
        is_by_hand=bool(fields["is_by_hand"]),
        queued_ms=int(fields["queued_ms"]),
        state=State[fields["state"]],
        worker=str(fields["worker"]),
        started_ms=int(fields["started_ms"]),
        ended_ms=int(fields["ended_ms"]),
        work=Work(**{name: int(work.get(name, 0)) for name in Work.__slots__}),
        error=str(fields["error"]),
    )
