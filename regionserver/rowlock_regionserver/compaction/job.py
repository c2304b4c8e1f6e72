"""A compaction as operators see it: of which store, why, in which state, and how far it is.

QUEUED      waits for a worker              becomes WORKING or ATTEMPTED
WORKING     a worker runs it                becomes SUCCEEDED, FAILED or ATTEMPTED
SUCCEEDED   the new files are live, or there was nothing to compact
FAILED      the store has its old files
ATTEMPTED   it did not start: it was cancelled in the queue, the disk has too little space for its output, or
            automatic compaction of the store has stopped
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from rowlock_regionserver.compaction.picker import Kind, Plan
from rowlock_regionserver.compaction.progress import CompactionResult, Progress
from rowlock_regionserver.compaction.settings import CompactionSettings


class State(enum.Enum):
    """The state of a job."""

    QUEUED = "queued"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ATTEMPTED = "attempted"

    @property
    def is_over(self) -> bool:
        return self not in (State.QUEUED, State.WORKING)


@dataclass(frozen=True, slots=True)
class StoreId:
    """A store: one family of one region. Neither number is ever reused."""

    region_id: int
    family_number: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a job has read and written so far. Files that are kept or dropped unread count as files only."""

    bytes_total: int = 0  # to read, of the plan that is carried out and those before it
    bytes_read: int = 0
    bytes_written: int = 0
    files_in: int = 0
    files_out: int = 0
    cells_in: int = 0
    cells_out: int = 0

    @property
    def has_gained_nothing(self) -> bool:
        """Whether as many files and cells were written as were read."""
        return self.cells_in > 0 and self.files_out >= self.files_in and self.cells_out >= self.cells_in


NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One compaction. Times are milliseconds since the epoch; 0: not yet."""

    job_id: int  # ascending on one server, also over restarts
    store: StoreId
    table: str
    family: bytes
    kind: Kind
    why: str  # why it is due, or that it was requested
    is_by_hand: bool  # requested by a client, and not by the initiator
    queued_ms: int
    state: State = State.QUEUED
    worker: str = ""  # the name of its thread
    started_ms: int = 0
    ended_ms: int = 0
    work: Work = NO_WORK
    error: str = ""  # why it failed or did not start


@dataclass(frozen=True, slots=True)
class RequestedStore:
    """A store that a client wants to have compacted. `settings` None: the table's."""

    store: StoreId
    table: str
    family: bytes
    kind: Kind
    settings: CompactionSettings | None = None


@dataclass(slots=True)
class Entry:
    """A job that has not ended, with what its worker needs. Guarded by the lock of the queue."""

    job: CompactionJob
    settings: CompactionSettings | None  # of the request; None: the table's
    progress: Progress = field(default_factory=Progress)  # of the plan that is carried out
    cancelled: str = ""  # why
    is_gone: bool = False  # its store is gone, so no history records it

    def join(self, requested: RequestedStore) -> None:
        """Makes the queued job one by hand; major if either is, with the newest settings that a request named."""
        why = self.job.why if self.job.is_by_hand else f"requested by hand; {self.job.why}"
        kind = Kind.MAJOR if Kind.MAJOR in (requested.kind, self.job.kind) else requested.kind
        self.job = replace(self.job, kind=kind, why=why, is_by_hand=True)
        self.settings = requested.settings or self.settings

    def start(self, worker: str, now_ms: int) -> None:
        self.job = replace(self.job, state=State.WORKING, worker=worker, started_ms=now_ms)

    def begin_plan(self, plan: Plan | None) -> Progress:
        """Notes what the worker does next, None: nothing is left to do. Returns its progress.

        The plan is not that for which the job was queued: files may have come and gone since.
        """
        if plan is not None:
            self.job = replace(self.job, kind=plan.kind, why=self.job.why if self.job.is_by_hand else plan.why)
        elif self.job.work.files_in == 0:
            self.job = replace(self.job, why=f"{self.job.why}; there was nothing to compact")
        return self.progress

    def end_plan(self, result: CompactionResult) -> None:
        """Adds the result of a plan. The job may continue with another one."""
        done, progress = self.shown().work, Progress()
        if self.cancelled:
            progress.cancel(self.cancelled)
        work = replace(
            done,
            files_in=done.files_in + result.file_count_in,
            files_out=done.files_out + result.file_count_out,
            cells_in=done.cells_in + result.cells_in,
            cells_out=done.cells_out + result.cells_out,
        )
        self.job, self.progress = replace(self.job, work=work), progress

    def cancel(self, reason: str) -> None:
        """Requests that the working job stops."""
        self.cancelled = self.cancelled or reason
        self.progress.cancel(reason)

    def shown(self) -> CompactionJob:
        """Returns the job with the progress at this moment."""
        done, progress = self.job.work, self.progress
        work = replace(
            done,
            bytes_total=done.bytes_total + progress.bytes_total,
            bytes_read=done.bytes_read + progress.bytes_read,
            bytes_written=done.bytes_written + progress.bytes_written,
        )
        return replace(self.job, work=work)
