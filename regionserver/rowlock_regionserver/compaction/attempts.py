"""What became of a store's compactions, and whether an automatic one may be tried. No threads, no clock.

After a job that did not succeed, the next automatic one of the store waits for a pause. So does the next one after an
automatic one that read files and gained nothing. Automatic jobs stop after `failures_max` failures in a row, and at
once if a file is damaged, until a request by hand succeeds. Failures for reasons outside the store don't count: a
cancellation, a full disk, no free descriptor.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rowlock_regionserver.compaction.history import HistoryLimits, StoreHistory
from rowlock_regionserver.compaction.job import CompactionJob, State


class Failure(enum.Enum):
    """What the failure of a job says of its store."""

    OUTSIDE = enum.auto()  # nothing: the reason is a cancellation, a full disk, no free descriptor
    STORE = enum.auto()  # it may fail again: it counts
    DAMAGE = enum.auto()  # a file is damaged, which the error names


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """When automatic compaction of a store pauses and stops, and how many ended jobs of it are kept."""

    limits: HistoryLimits
    failures_max: int
    pause_s: float


class StoreAttempts:
    """The attempts at one store. The caller holds a lock."""

    def __init__(self, rules: AttemptRules, history: StoreHistory) -> None:
        self.history = history
        self._rules = rules
        self._paused_until: float | None = None  # on the monotonic clock
        self._is_stop_recorded = False

    def is_paused(self, monotonic: float) -> bool:
        return self._paused_until is not None and monotonic < self._paused_until

    def pause(self, monotonic: float) -> None:
        """Keeps automatic jobs from being tried again at once."""
        self._paused_until = monotonic + self._rules.pause_s

    def why_stopped(self) -> str:
        """Returns why automatic jobs have stopped; empty if they have not."""
        return self.history.stopped_because(self._rules.failures_max)

    def record_stop(self) -> bool:
        """Returns whether this is the first job since the stop, or since a restart, that is not queued for it."""
        is_first, self._is_stop_recorded = not self._is_stop_recorded, True
        return is_first

    def failed(self, failure: Failure, error: str, monotonic: float) -> None:
        """Begins a pause, and counts the failure unless its reason is outside the store."""
        self.pause(monotonic)
        if failure is not Failure.OUTSIDE:
            self.history = self.history.with_failure(error if failure is Failure.DAMAGE else "")

    def ended(self, job: CompactionJob) -> None:
        """Records a job that is over. A success ends the pause and the stop."""
        self.history = self.history.with_ended(job, self._rules.limits)
        if job.state is State.SUCCEEDED:
            self._paused_until, self._is_stop_recorded = None, False
