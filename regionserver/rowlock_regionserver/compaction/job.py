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
from dataclasses import dataclass

from rowlock_regionserver.compaction.picker import Kind


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
