"""One run of a compaction job: asks the picker, has the region compact, and records how the job ended.

it is done, or there is nothing to do               SUCCEEDED
the disk has too little space for the output        ATTEMPTED; FAILED if it was found full later; tried again
the process lacks descriptors or memory             the same
it was cancelled, or its store is gone              FAILED
a file is damaged                                   FAILED; automatic compaction of the store stops at once
any other error of its own                          FAILED; counts towards a stop
the outcome on the disk is not known                no record: the server ends, as for a flush
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from rowlock_regionserver.catalog.properties import (
    CHANGES_RETAINED_HOURS,
    OTHER_PROPERTY_NAMES,
    SPLIT_REGION_BYTES,
)
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.compaction import settings as compaction_settings
from rowlock_regionserver.compaction.attempts import Failure
from rowlock_regionserver.compaction.job import Entry
from rowlock_regionserver.compaction.picker import Kind, Plan, pick, pick_requested
from rowlock_regionserver.compaction.progress import CompactionCancelledError, CompactionResult, Progress
from rowlock_regionserver.compaction.queue import CompactionQueue
from rowlock_regionserver.compaction.settings import PROPERTY_NAMES, CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    InvalidRequestError,
    NotServingRegionError,
    OutOfMemoryError,
    RegionServerError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.region.compacting import StoreFacts
from rowlock_regionserver.table import Table

logger = logging.getLogger(__name__)
# The memory of a compaction: windows before and after the merge, and blocks to be written.
_WINDOWS = 6


class CompactedRegion(Protocol):
    """A region as the compaction threads see it. Thread-safe."""

    @property
    def region_id(self) -> int: ...
    @property
    def table(self) -> Table: ...
    def compaction_facts(self) -> Sequence[StoreFacts]:
        """Raises NotServingRegionError."""


# Has the region carry out a plan for the family of this number; see RegionCompactor.compact. Blocks.
Compact = Callable[[int, int, Plan, Progress], CompactionResult]


class JobRunner:
    """Runs jobs, several at once in threads of the caller. Blocks on the disk, for any time."""

    def __init__(
        self,
        regions: Mapping[int, CompactedRegion],
        compact: Compact,
        queue: CompactionQueue,
        lock: threading.Condition,
        clock: Clock,
    ) -> None:
        """`regions`: those that are served, by id. `compact` takes a region's id. `lock` guards the queue."""
        self._regions = regions
        self._compact = compact
        self._queue = queue
        self._lock = lock
        self._clock = clock

    def run(self, entry: Entry) -> None:
        """Runs a working job to its end, and records it. Raises errors that end the server."""
        try:
            self._carry_out(entry)
        except (UnknownOutcomeError, StoppingError, OSError):
            raise
        except Exception as error:
            with self._lock:
                self._record_failure(entry, error)
        else:
            with self._lock:
                self._queue.succeeded(entry, self._clock.now_ms(), self._clock.monotonic())

    def _record_failure(self, entry: Entry, error: Exception) -> None:
        now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
        text = str(error)
        failure = Failure.STORE
        match error:
            case DiskFullError() | TooManyOpenFilesError() | OutOfMemoryError() if not entry.shown().work.bytes_read:
                self._queue.refused(entry, text, now_ms, monotonic)
                return
            case DiskFullError() | TooManyOpenFilesError() | OutOfMemoryError():
                failure = Failure.OUTSIDE
            case CompactionCancelledError() | NotServingRegionError():
                failure, text = Failure.OUTSIDE, entry.cancelled or text
            case CorruptionError():
                failure = Failure.DAMAGE
            case RegionServerError():
                pass
            case _:
                logger.error("compaction %d of table %r failed", entry.job.job_id, entry.job.table, exc_info=error)
                text = f"unexpected {type(error).__name__}: {error}; the server's log has more, please report this bug"
        self._queue.failed(entry, failure, text, now_ms, monotonic)

    def _carry_out(self, entry: Entry) -> None:
        """Compacts the store, for a request by hand in several steps if one compaction can't take all files."""
        region_id, number = entry.job.store.region_id, entry.job.store.family_number
        is_major = entry.job.kind is Kind.MAJOR
        is_continued = True
        while is_continued:
            plan = self._plan_of(entry, is_major=is_major)
            with self._lock:
                progress = entry.begin_plan(plan)
            if plan is None:
                return
            progress.check()
            result = self._compact(region_id, number, plan, progress)
            with self._lock:
                entry.end_plan(result)
            is_continued = plan.is_continued and entry.job.is_by_hand

    def _plan_of(self, entry: Entry, *, is_major: bool) -> Plan | None:
        region = self._regions.get(entry.job.store.region_id)
        if region is None:
            raise NotServingRegionError(f"region {entry.job.store.region_id} is not served any more")
        settings = entry.settings or settings_of(region.table)
        for facts in region.compaction_facts():
            if facts.family.number == entry.job.store.family_number:
                if entry.job.is_by_hand:
                    return pick_requested(facts.files, settings, major=is_major)
                return pick(facts.files, settings) if settings.automatic else None
        raise CompactionCancelledError("its column family was dropped")


@contextlib.contextmanager
def counted_memory(ledger: Ledger, config: Config) -> Iterator[None]:
    """Returns a context for a compaction, whose memory the ledger counts."""
    work_bytes = _WINDOWS * config.compaction_window_bytes
    ledger.flushes.add(work_bytes)
    try:
        yield
    finally:
        ledger.flushes.give(work_bytes)


def settings_of(table: Table) -> CompactionSettings:
    """Returns the settings that the table's properties set. Raises InvalidRequestError for an impossible value.

    It ignores properties that it does not know: a later version may have set them.
    """
    return compaction_settings.parse({name: value for name, value in table.properties if name in PROPERTY_NAMES})


def check_set_properties(table: Table, names: Iterable[str]) -> None:
    """Raises InvalidRequestError if one of the names is unknown, or if a setting of the table is impossible.

    `names`: of the properties that a create or an alter sets.
    """
    unknown = set(names) - {*PROPERTY_NAMES, *OTHER_PROPERTY_NAMES}
    if unknown:
        known = ", ".join([*PROPERTY_NAMES, SPLIT_REGION_BYTES, CHANGES_RETAINED_HOURS])
        raise InvalidRequestError(
            f"no property of a table is called {min(unknown)[:64]!r}; there are {known}", table=table.name
        )
    settings_of(table)
