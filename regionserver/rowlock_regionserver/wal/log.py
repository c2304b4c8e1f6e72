"""The log: its parts, and its life from `open` to `close`.

    recovered = recover(folder, files, apply)
    log = Log.open(folder, files, config, clock, recovered, on_failure)
    with log.order:
        log.append(region_id, take_write_number(), kind, payload, Durability.FSYNC, complete)

`pending` holds the appended records, `writer` writes and syncs them and calls the completions, `preallocated` has the
next segment ready, `log_cleaner` removes segments that are no longer needed. Everything but `recover` is thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError, RegionTooBusyError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.batch import Complete
from rowlock_regionserver.wal.durable import DurableFile
from rowlock_regionserver.wal.log_cleaner import LogCleaner
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.opening import begin_segment
from rowlock_regionserver.wal.pending import Pending
from rowlock_regionserver.wal.preallocated import PreallocatedSegment
from rowlock_regionserver.wal.record import Position
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.writer import Writer

_CHECK_AGAIN_AFTER_FULL_MS = 1000
_CHECK_AGAIN_SECONDS = 0.1
_UNCLAIMED = nullcontext()


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """The log at a moment. Counts begin at its opening."""

    segment: int  # the one that is appended to
    segment_count: int
    removed_segment_count: int
    appended_records: int
    appended_bytes: int
    pending_bytes: int  # appended and not yet written
    batch_count: int
    claimed_batch_count: int  # of these, written by the callers that had appended them
    sync_count: int  # of appended records; rolls not counted
    is_full: bool  # no disk space: writes are refused


class Log:
    """The write-ahead log of one region server."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        recovered: Recovered,
        pending: Pending,
        preallocated: PreallocatedSegment,
        cleaner: LogCleaner,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.log_id = recovered.log_id
        # Held by a caller around "take a write number and append": log order is write-number order.
        self.order = pending.order
        self._folder = folder
        self._config = config
        self._pending = pending
        self._preallocated = preallocated
        self._cleaner = cleaner
        self._on_failure = on_failure
        self._writer: Writer
        self._has_failed = False
        self._is_closed = False
        # Guarded by self.order:
        self._waiting: set[threading.Event] = set()

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Files,
        config: Config,
        clock: Clock,
        recovered: Recovered,
        on_failure: Callable[[BaseException], None],
    ) -> Self:
        """Opens a recovered log: begins a new segment with copies of the records that are not proven durable, synced.

        Blocks on the disk. Raises DiskFullError when not even these records fit.
        `on_failure` is called once, from the log thread, when a write or sync has failed: no completion is called
        after it, so callers that wait get no answer from the log.
        """
        begun = begin_segment(folder, files, config, recovered)
        durable = DurableFile(folder, files, recovered.log_id)
        durable.write(Position(begun.header.number, begun.byte_count))
        durable.sync()
        pending = Pending(begun, recovered, config.log_segment_bytes, clock)
        preallocated = PreallocatedSegment(
            folder, files, config.log_segment_bytes, config.disk_free_bytes_min, pending.fail
        )
        cleaner = LogCleaner(folder, files, recovered.segments, recovered.damaged, pending.fail)
        log = cls(folder, config, recovered, pending, preallocated, cleaner, on_failure)
        log._writer = Writer(
            folder,
            files,
            pending,
            preallocated,
            cleaner,
            durable,
            begun.descriptor,
            begun.capacity,
            config.log_idle_marker_ms,
            config.log_quick_sync_us,
            log._fail,
        )
        for part in (log._writer, preallocated, cleaner):
            part.thread.start()
        if begun.capacity < config.log_segment_bytes:
            preallocated.want()
        return log

    # The write path. The caller of these two holds `order`.

    def append(
        self,
        region_id: int,
        write_number: int,
        kind: int,
        payload: bytes,
        durability: Durability,
        complete: Complete,
    ) -> None:
        """Appends a change; never waits. `kind` is 1 to 252.

        `complete` is called exactly once, in log order, by the holder of the writing role (pending.py): for FSYNC when
        the record is on stable storage, for OS when it was written to the operating system, else without waiting for
        it. It must not block. After a failure `complete` is never called.

        Raises StoppingError when the log is closed or has failed; then nothing was appended.
        """
        self._pending.append(region_id, write_number, kind, payload, durability, complete)

    def pass_through(self, complete: Complete) -> None:
        """Calls `complete` after all that was appended before, without a record."""
        self._pending.pass_through(Durability.SKIP, complete)

    # For a caller that appends and then needs the outcome soon. It does not hold `order`.

    @property
    def is_quick(self) -> bool:
        """Syncs have been quick lately: a caller may block for one instead of leaving the answer to another thread."""
        return self._writer.is_quick

    def claim_writing(self) -> AbstractContextManager[None]:
        """Returns a context in which this thread appends what it will write itself when it leaves the context.

        Leaving it writes and completes what is pending then, from any thread: this blocks for a write of at most
        64 KiB. It leaves that to the log's thread if someone waits for a sync, if the segment has no space left, or if
        another thread was writing when the context was made. Neither raises: a failure ends the log, and `complete` is
        not called.
        """
        return self._writer.claimed if self._writer.claim() else _UNCLAIMED

    # Reservations and generations. The caller holds `order`.

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        """Reserves write numbers and stamps below these bounds: they may be allocated, and a restart continues at them.

        For numbers the greatest bound counts. For stamps the newest bound counts; a lower one releases stamps that
        were reserved and not used. Each later segment repeats the reservation. Nothing appended after it completes
        before it is durable, so a reserved number can't be allocated again after a power failure. The log knows a
        region from its first record on: reserve before anything else, also for a region without writes. Only the copies
        of a split come before: without its reservation the split is not committed.
        """
        self._pending.reserve(region_id, numbers_until, stamps_until)

    def note_manifest(self, region_id: int, generation: int) -> None:
        """Notes that the region's manifest of this generation is durable: a recovery can tell that it is lost."""
        self._pending.note_manifest(region_id, generation)

    def note_catalog(self, generation: int) -> None:
        """Notes that the catalog of this generation is durable."""
        self._pending.note_catalog(generation)

    # Checks, and waiting.

    def check_space(self, byte_count: int) -> None:
        """Checks that the log takes a write of about this size; never blocks.

        Raises DiskFullError if the next segment can't be allocated, RegionTooBusyError if too much is appended and not
        written, StoppingError if the log is closed or has failed.
        """
        if self._has_failed or self._is_closed:
            raise StoppingError("the log is closed because the server is stopping; nothing was changed")
        if self._preallocated.is_full:
            raise DiskFullError(
                f"no disk space, or no file descriptor, for the next log segment in {self._folder}; nothing was "
                "changed, free some disk space and retry",
                retry_after_ms=_CHECK_AGAIN_AFTER_FULL_MS,
            )
        pending_bytes = self._pending.pending_bytes()
        if pending_bytes and pending_bytes + byte_count > self._config.log_pending_bytes_max:
            raise RegionTooBusyError(
                f"the log has {pending_bytes} bytes that are not yet written, and its limit is "
                f"{self._config.log_pending_bytes_max}; nothing was changed, retry",
                retry_after_ms=self._config.retry_after_ms,
            )

    def sync(self) -> bool:
        """Blocks until everything that was appended is durable, or until the writer waits for disk space.

        Returns whether it is durable. Does not wait for space: its caller may keep others from freeing some. The caller
        does not hold `order`. Raises UnknownOutcomeError when the log fails first.
        """
        assert threading.current_thread() is not self._writer.thread, "the writer's thread would wait for itself"
        done = threading.Event()
        with self.order:
            self._pending.pass_through(Durability.FSYNC, done.set)
            self._waiting.add(done)
        while not done.wait(_CHECK_AGAIN_SECONDS) and not self.waits_for_space:
            pass
        with self.order:
            self._waiting.discard(done)
            if self._has_failed:
                raise UnknownOutcomeError("the log has failed: the newest writes may be lost")
        return done.is_set()

    @property
    def durable(self) -> Position:
        """Everything before this position is on stable storage."""
        return self._pending.durable

    @property
    def waits_for_space(self) -> bool:
        """The writer waits for disk space: until there is some, no appended record completes."""
        return self._preallocated.blocks_writer

    # Which segments are needed. The caller does not hold `order`.

    def flushed(self, region_id: int, write_number: int) -> None:
        """Notes that the region's writes up to this number are in store files: segments may be removed."""
        self._cleaner.flushed(region_id, write_number)

    def give_up(self, region_id: int) -> None:
        """Notes that the region is closed because of damage outside the log. It is not flushed, so it pins no segment.

        Segments with changes of it are renamed to `.damaged` for its repair instead of being removed.
        """
        self._cleaner.give_up(region_id)

    def forget(self, region_id: int) -> None:
        """Notes that the region was dropped, or never served: it pins no segment, and no later one names it.

        No append may follow.
        """
        with self.order:
            self._pending.forget(region_id)
            segment = self._pending.end().segment
        self._cleaner.forget(region_id, segment)

    def regions_that_pin(self) -> list[int]:
        """The regions to flush, ascending: when there are too many segments, those that pin the oldest one."""
        if self._cleaner.segment_count() + 1 <= self._config.log_segment_count_max:
            return []
        return self._cleaner.pinning_regions()

    def known_regions(self) -> dict[int, RegionState]:
        """The end of each region's chain, and its reservations."""
        with self.order:
            return self._pending.known_regions()

    def statistics(self) -> LogStatistics:
        pending, writer = self._pending, self._writer
        with self.order:
            segment = pending.end().segment
        return LogStatistics(
            segment=segment,
            segment_count=self._cleaner.segment_count() + 1,
            removed_segment_count=self._cleaner.removed_count,
            appended_records=pending.appended_records,
            appended_bytes=pending.appended_bytes,
            pending_bytes=pending.pending_bytes(),
            batch_count=writer.batch_count,
            claimed_batch_count=writer.claimed_batch_count,
            sync_count=writer.sync_count,
            is_full=self._preallocated.is_full,
        )

    def stop_waiting_for_space(self) -> None:
        """For a server that stops: lets the log fail with NoSpaceToStopError instead of waiting for disk space.

        The appended records without space are lost. None of them was completed, and all before them is synced.
        """
        self._preallocated.stop_waiting()

    def close(self) -> None:
        """Writes, syncs and completes all appended records, adds the last marker, and ends the threads. Blocks.

        May be called again, and after a failure.
        """
        with self.order:
            self._is_closed = True
            self._pending.close()
        self._preallocated.stop_waiting()
        self._writer.thread.join()
        self._cleaner.close()
        self._preallocated.close()

    def _check(self) -> None:
        """Asserts the invariants; costs about as much as a marker."""
        with self.order:
            self._pending._check()
        self._cleaner._check()

    def _fail(self, error: BaseException) -> None:
        with self.order:
            self._has_failed = True
            waiting, self._waiting = self._waiting, set()
        for event in waiting:
            event.set()
        self._on_failure(error)
