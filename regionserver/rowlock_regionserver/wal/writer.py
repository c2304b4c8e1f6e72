"""The writer: writes, syncs, rolls and completes, in log order, in a thread of its own.

For each batch, in this order:

1. If the batch begins a segment: sync the old segment; write the new segment's head into the preallocated segment and
   sync it; rename it to its name and sync the folder. Only now can a record of the new segment be acknowledged.
2. Allocate space for the batch if needed; then complete the leading callers that wait for nothing.
3. Write the batch. Complete the callers that wait for the write, up to the first that waits for a sync.
4. If a caller waits for a sync: sync, note the position in the file `durable`, and complete the remaining callers.

During a sync other threads append: that is the group commit. A failed sync is never repeated, because the kernel may
have marked the lost pages clean; nothing completes after it.

A caller that has claimed the writing role (pending.py) does 2 and 3 itself, for a short batch that needs neither a sync
nor space: for a change at durability `os` the hand-over to the thread and back costs more than the write. Everything
else is left to the thread. A plain write of a few kilobytes normally goes to the page cache. While writes are slow,
because the system makes writers wait for the disk, callers don't claim the role.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.files import Files, write_all
from rowlock_regionserver.system_errors import NO_SPACE
from rowlock_regionserver.wal.batch import Batch
from rowlock_regionserver.wal.durable import DurableFile
from rowlock_regionserver.wal.log_cleaner import LogCleaner, Sealed
from rowlock_regionserver.wal.pending import Pending
from rowlock_regionserver.wal.preallocated import PreallocatedSegment
from rowlock_regionserver.wal.record import Position
from rowlock_regionserver.wal.segment import name_preallocated

# This many zeros are written after a short batch that is synced, once. To sync bytes that were written before takes
# five sixths of the time of preallocated space, which the file system must mark as written first. For longer batches it
# makes no difference.
_ZEROS_AHEAD = bytes(256 * 1024)
_SHORT_BYTES_MAX = 16 * 1024
# The weight of the newest sync in the average: after one slow sync, callers do not wait for the next ten or so.
_NEWEST_SHARE = 1 / 8
# A caller writes at most this many bytes itself.
_CLAIMED_BYTES_MAX = 64 * 1024
# After a slow write callers leave writing to the thread for this many times its duration.
_SLOW_SHARE = 9


class Claimed:
    """The context of a claim: leaving it writes what is pending, and releases the role."""

    __slots__ = ("_writer",)

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.write_claimed()


class Writer:
    """Owns the descriptor of the segment that is written. `Pending.close` or a failure ends its thread.

    The holder of the writing role uses its fields.
    """

    def __init__(
        self,
        folder: Path,
        files: Files,
        pending: Pending,
        preallocated: PreallocatedSegment,
        cleaner: LogCleaner,
        durable: DurableFile,
        descriptor: int,
        segment_bytes: int,
        idle_marker_ms: int,
        quick_sync_us: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._folder = folder
        self._files = files
        self._pending = pending
        self._preallocated = preallocated
        self._cleaner = cleaner
        self._durable = durable
        self._idle_marker_ms = idle_marker_ms
        self._quick_sync_seconds = quick_sync_us / 1e6
        self._on_failure = on_failure
        self._descriptor = descriptor
        self._segment_bytes = segment_bytes  # preallocated
        self._written = pending.durable
        self._zeros_until = 0  # in this segment
        # Written by the holder of the role, read by any thread.
        self._sync_seconds = 1.0  # on average; slow until it was measured
        self._claims_from = 0.0 if quick_sync_us else math.inf  # on perf_counter
        self.batch_count = 0
        self.claimed_batch_count = 0
        self.sync_count = 0
        self.claimed = Claimed(self)
        self.thread = threading.Thread(target=self._run, name="log-writer", daemon=True)

    @property
    def is_quick(self) -> bool:
        """Whether the last syncs were so quick, on average, that a caller may block for the next one."""
        return self._sync_seconds <= self._quick_sync_seconds

    def claim(self) -> bool:
        """Claims the writing role for the calling thread; `with self.claimed` must follow. Never blocks."""
        return time.perf_counter() >= self._claims_from and self._pending.claim()

    def write_claimed(self) -> None:
        """Writes and completes what is pending, unless that is left to the thread; then releases the role.

        Raises nothing: after a failure the log has failed.
        """
        try:
            batch = self._pending.take_claimed(_CLAIMED_BYTES_MAX, self._segment_bytes)
            if batch is not None:
                self._write(batch)
                self.claimed_batch_count += 1
        except BaseException as error:
            self._pending.fail(error)
        finally:
            self._pending.release()

    def _run(self) -> None:
        try:
            while (is_pending := self._pending.wait(self._idle_marker_ms)) is not None:
                if is_pending:
                    for batch in self._pending.take():
                        self._write(batch)
                else:
                    self._mark_idle()
            self._finish()
        except BaseException as error:  # Also an exception of a completion: nothing more may complete.
            self._pending.fail(error)
            self._on_failure(error)
        finally:
            self._files.close(self._descriptor)
            self._durable.close()

    def _write(self, batch: Batch) -> None:
        if batch.head:
            self._roll(batch)
        if batch.data:
            self._ensure_space(batch.offset + len(batch.data))
        assert (batch.segment, batch.offset) == self._written, f"{batch.segment}, {batch.offset} at {self._written}"
        completes = batch.completes
        synced_from = len(completes) if batch.synced_from is None else batch.synced_from
        written_from = synced_from if batch.written_from is None else batch.written_from
        for complete in completes[:written_from]:
            complete()
        if batch.data:
            self._write_data(batch)
        for complete in completes[written_from:synced_from]:
            complete()
        if batch.synced_from is not None:
            self._sync()
            for complete in completes[synced_from:]:
                complete()
        self.batch_count += 1
        if self._written.offset * 2 > self._segment_bytes:
            self._preallocated.want()

    def _ensure_space(self, stop: int) -> None:
        """Before any caller completes: a stop fails records without space, also those that wait for no sync."""
        if stop > self._segment_bytes:
            self._preallocated.extend(self._descriptor, self._segment_bytes, stop - self._segment_bytes)
            self._segment_bytes = stop

    def _write_data(self, batch: Batch) -> None:
        data, stop = batch.data, batch.offset + len(batch.data)
        if batch.synced_from is not None and stop > self._zeros_until and len(data) <= _SHORT_BYTES_MAX:
            data = data + _ZEROS_AHEAD[: self._segment_bytes - stop]
            self._zeros_until = batch.offset + len(data)
        started = time.perf_counter()
        write_all(self._files, self._descriptor, data, batch.offset)
        ended = time.perf_counter()
        if ended - started > self._quick_sync_seconds:
            self._claims_from = max(self._claims_from, ended + _SLOW_SHARE * (ended - started))
        self._written = Position(batch.segment, stop)
        self._pending.written_bytes += len(batch.data)

    def _sync(self) -> None:
        """Makes all that is written durable. Costs nothing if it already is."""
        if self._pending.durable != self._written:
            started = time.perf_counter()
            self._files.fdatasync(self._descriptor)
            self.sync_count += 1
            self._durable.write(self._written)
            self._pending.durable = self._written
            self._sync_seconds += (time.perf_counter() - started - self._sync_seconds) * _NEWEST_SHARE

    def _roll(self, batch: Batch) -> None:
        assert batch.sealed is not None
        self._sync()
        descriptor, segment_bytes = self._preallocated.take()
        old, self._descriptor = self._descriptor, descriptor
        self._files.close(old)
        sealed = Sealed(batch.segment - 1, batch.sealed)
        if len(batch.head) > segment_bytes:
            self._preallocated.extend(descriptor, segment_bytes, len(batch.head) - segment_bytes)
            segment_bytes = len(batch.head)
        write_all(self._files, descriptor, batch.head, 0)
        self._files.fdatasync(descriptor)
        name_preallocated(self._files, self._folder, batch.segment)
        self._segment_bytes = segment_bytes
        self._zeros_until = 0
        self._written = Position(batch.segment, len(batch.head))
        self._durable.write(self._written)
        self._durable.sync()
        self._pending.durable = self._written
        self._cleaner.add(sealed)

    def _mark_idle(self) -> None:
        """Makes the last record provable: syncs all, then appends a marker that says so, to be synced too."""
        self._sync()
        with self._pending.order:
            self._pending.add_marker()

    def _finish(self) -> None:
        """Writes the last marker, and truncates the segment to its contents."""
        self._sync()
        marker = self._pending.last_marker()
        stop = self._written.offset + len(marker)
        if stop > self._segment_bytes:
            # Without space for the marker there is no failure: recovery then copies the last records.
            try:
                self._files.allocate(self._descriptor, self._segment_bytes, stop - self._segment_bytes)
            except OSError as error:
                if error.errno in NO_SPACE:
                    return
                raise
        write_all(self._files, self._descriptor, marker, self._written.offset)
        self._files.fdatasync(self._descriptor)
        self._durable.write(Position(self._written.segment, stop))
        self._files.truncate(self._descriptor, stop)
        self._files.fsync(self._descriptor)
