"""Pending records: batches that are appended and not yet written, with their waiting callers, in log order.

Everything is guarded by `order`, the lock under which callers take write numbers and append. So all of it is short, and
none of it touches a file: positions in the log are assigned here, and the writer writes the files later. When a record
does not fit into the segment, the current batch is closed, and the next one begins the next segment, with its head.
Only the writer waits for that segment to exist.

The writing role is the right to write the log's files and to call completions. The writer has it while it works. While
the writer waits for work, a caller may claim it, and write its own records without waking another thread.

    holder      from                                      until
    NO_THREAD   the writer waits (`wait`), or a release   a claim; or the writer has work, and `wait` returns
    CALLER      `claim`: nobody holds the role, nothing   `release`: the caller has written what is pending, or leaves
                is pending, and the log is open           it to the writer
    WRITER      `wait` returns or raises                  the next `wait`; for good, if it returned None or raised

1. Only the holder writes or closes a file that is written, and calls completions. So batches are written one after the
   other, in log order, by either.
2. A caller claims the role before it appends, without waiting. The writer waits for the role, and holds no lock then.
3. While a caller holds the role nobody wakes the writer for a record. `release` makes up for that: under `order`, it
   wakes the writer if anything is left for it, from any thread. So whenever `order` is free, nobody holds the role and
   something is pending, the writer is awake or notified (`_check`).
4. A caller's failure ends the log as the writer's does: `fail`, then `release`. The writer, which still waits, raises
   it, so that one thread reports failures and closes the files.
5. `claim` fails for good once the log is closed or has failed.

Example. A worker appends while the event loop's thread holds the role, for a record of its own:

    loop      claim   append 7                      take 7, 8   write   complete 7, 8   release: nothing is pending
    worker                      append 8: no wake-up

If 8 waits for a sync, the loop takes neither, and `release` wakes the writer for both.
"""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.wal.batch import Batch, Complete, do_nothing
from rowlock_regionserver.wal.chains import Chains
from rowlock_regionserver.wal.marker import RegionState, encode_generation, encode_reservation
from rowlock_regionserver.wal.opening import BegunSegment
from rowlock_regionserver.wal.record import (
    GENERATION,
    MARKER,
    RESERVATION,
    SEGMENT_BYTES_MAX,
    SIZE_MASK,
    SIZE_ROUNDING,
    Position,
    encode_record,
    record_size,
    segment_seed,
)
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import KIND_MAX_OF_FORMAT_2, SegmentHeader, encode_head, version_for

_FSYNC = int(Durability.FSYNC)


class Holder(enum.Enum):
    """Who holds the writing role."""

    NO_THREAD = enum.auto()
    CALLER = enum.auto()
    WRITER = enum.auto()


# Python 3.11 finds a global ten times as fast as a member in its enum, and a change asks six times.
_NO_THREAD, _CALLER, _WRITER = Holder


class Pending:
    """The end of the log as callers see it. The caller holds `order`, unless a method says that it takes it."""

    def __init__(
        self,
        begun: BegunSegment,
        recovered: Recovered,
        segment_bytes: int,
        clock: Clock,
        condition: Callable[[threading.Lock], threading.Condition] = threading.Condition,
    ) -> None:
        """Continues at the end of the segment that was begun, in segments of `segment_bytes`.

        condition: makes what the writer waits on.
        """
        assert 0 < segment_bytes <= SEGMENT_BYTES_MAX, f"log segments of {segment_bytes} bytes"
        segment = begun.header.number
        self.order = threading.Lock()
        self._log_id = recovered.log_id
        self._segment_bytes = segment_bytes
        self._clock = clock
        # Set by the writer only, in one assignment each; read here without a lock.
        self.durable = Position(segment, begun.byte_count)
        self.written_bytes = 0

        # Guarded by self.order:
        self._wake = condition(self.order)
        self._holder = _WRITER
        self._is_waiting = False  # and not notified
        self._waits_for_marker = False  # for a limited time, then
        self._is_closing = False
        self._failure: BaseException | None = None
        self._taken_at = clock.monotonic()
        self._segment = segment
        self._version = begun.header.version
        self._seed = segment_seed(self._log_id, segment)
        self._offset = begun.byte_count
        self._capacity = begun.capacity
        self._chains = Chains(recovered, Position(segment, begun.head_bytes))
        # The segment began with copies of these changes, which pin it as if they had been appended.
        self._touched = {record.region_id: record.write_number for record in recovered.unproven_changes()}
        self._is_fresh = not self._touched  # the segment has only its head
        self._batches = [Batch(segment, begun.byte_count)]
        self._batch = self._batches[0]
        self._marker_end: Position | None = None
        self.appended_bytes = 0
        self.appended_records = 0

    # For callers.

    def append(
        self, region_id: int, write_number: int, kind: int, payload: bytes, durability: int, complete: Complete
    ) -> None:
        """Adds a change; `complete` is called when it is as durable as requested. Raises StoppingError."""
        assert 0 < kind < GENERATION, f"kind {kind} of region {region_id}"
        chains = self._chains
        previous = chains.last.get(region_id, 0)
        assert write_number > previous, f"write number {write_number} after {previous} in region {region_id}"
        if kind > KIND_MAX_OF_FORMAT_2 and self._version < version_for(kind):
            self._check_open()
            self._roll(version_for(kind))
        self._add(region_id, write_number, previous, kind, payload)
        chains.last[region_id] = self._touched[region_id] = write_number
        chains.news.add(region_id)
        self._batch.add(durability, complete)
        self.appended_records += 1
        self._wake_writer()

    def pass_through(self, durability: int, complete: Complete) -> None:
        """Adds a caller without a record: it completes when all that was appended before is as durable as requested."""
        self._check_open()
        self._batch.add(durability, complete)
        self._wake_writer()

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        """Adds a reservation, unless the log has it, and makes the region known.

        Later records complete when the reservation is durable.
        """
        assert region_id > 0, f"region {region_id}"
        bounds = self._chains.to_reserve(region_id, numbers_until, stamps_until)
        if bounds is not None:
            self._add_note(region_id, RESERVATION, encode_reservation(*bounds))
            self._chains.reserved[region_id] = bounds

    def note_manifest(self, region_id: int, generation: int) -> None:
        """Adds a note that the region's manifest of this generation is durable, unless the log has it.

        Adds none either if the region was dropped.
        """
        generations = self._chains.generations
        if region_id in self._chains.last and generations.get(region_id) != generation:
            self._add_note(region_id, GENERATION, encode_generation(generation))
            generations[region_id] = generation

    def note_catalog(self, generation: int) -> None:
        """Adds a note that the catalog of this generation is durable."""
        self._add(0, 0, 0, GENERATION, encode_generation(generation))
        self.pass_through(_FSYNC, do_nothing)
        self._chains.catalog_generation = generation

    def forget(self, region_id: int) -> None:
        """Removes the region: no later marker names it."""
        self._chains.forget(region_id)

    def known_regions(self) -> dict[int, RegionState]:
        """The states of all regions, as a full marker lists them."""
        return self._chains.states()

    def end(self) -> Position:
        """The position of the next record."""
        return Position(self._segment, self._offset)

    def close(self) -> None:
        """Ends appending; `wait` returns None when all is taken."""
        self._is_closing = True
        self._wake.notify()

    def pending_bytes(self) -> int:
        """Bytes that are appended and not yet written; without a lock, approximately."""
        return self.appended_bytes - self.written_bytes

    # For the writer. Only its thread calls `wait` and `take`.

    def wait(self, idle_ms: int) -> bool | None:
        """Gives up the writing role, and blocks until the writer has work and the role; takes `order` itself.

        Returns None when the log is closed and nothing is pending. Returns False when nothing was taken for `idle_ms`
        after records that no marker follows. Raises the error that was passed to `fail`.
        """
        with self.order:
            self._holder = _NO_THREAD
            self._taken_at = self._clock.monotonic()
            while self._holder is _CALLER or (self._failure is None and not self._has_work()):
                idle_seconds = None
                if self._holder is _NO_THREAD:
                    if self._is_closing:
                        self._holder = _WRITER
                        return None
                    if self.end() != self._marker_end:
                        idle_seconds = self._taken_at + idle_ms / 1000 - self._clock.monotonic()
                        if idle_seconds <= 0:
                            self._holder = _WRITER
                            return False
                self._is_waiting, self._waits_for_marker = True, idle_seconds is not None
                self._wake.wait(idle_seconds)
                self._is_waiting = False
            self._holder = _WRITER
            self.raise_failure()
            return True

    def take(self) -> list[Batch]:
        """Takes all pending batches, in log order. Takes `order` itself."""
        with self.order:
            return self._take()

    def _take(self) -> list[Batch]:
        taken = self._batches
        batch = Batch(self._segment, self._offset)
        batches = [batch]  # Before any change, as it takes memory.
        self._batch, self._batches = batch, batches
        return taken

    # For a caller that writes what it appends. They take `order` themselves.

    def claim(self) -> bool:
        """Claims the writing role, if nobody holds it and nothing is pending; never waits. `release` must follow."""
        with self.order:
            if self._holder is not _NO_THREAD or self._failure is not None or self._is_closing or self._has_work():
                return False
            self._holder = _CALLER
            return True

    def take_claimed(self, byte_count_max: int, offset_max: int) -> Batch | None:
        """Takes what is pending, for the caller that holds the role.

        Returns None if nothing is pending, or if the writer must write it: because someone waits for a sync, it begins
        a segment, it is longer than `byte_count_max`, it ends after `offset_max`, or the log has failed.
        """
        with self.order:
            assert self._holder is _CALLER, self._holder
            batch = self._batch
            if (
                len(self._batches) > 1
                or batch.synced_from is not None
                or not batch.completes
                or len(batch.data) > byte_count_max
                or self._offset > offset_max
                or self._failure is not None
            ):
                return None
            self._taken_at = self._clock.monotonic()
            self._take()
            return batch

    def release(self) -> None:
        """Ends a claim, and wakes the writer if anything is left for it to do, also to wait for the next marker."""
        with self.order:
            assert self._holder is _CALLER, self._holder
            self._holder = _NO_THREAD
            if (
                self._has_work()
                or self._is_closing
                or self._failure is not None
                or (not self._waits_for_marker and self.end() != self._marker_end)
            ):
                self._wake_writer()

    def add_marker(self) -> None:
        """Adds a marker that is synced, unless records are pending, which a marker will follow later.

        A marker begins no new segment, because that would begin with one anyway.
        """
        if self._has_work() or self._is_closing:
            return
        marker, is_full = self._chains.idle_marker(self.appended_bytes)
        start = self.end()
        if self._offset + record_size(len(marker)) <= self._capacity:
            self._add(0, 0, 0, MARKER, marker)
            self.pass_through(_FSYNC, do_nothing)
            self._chains.marked(self.end() if is_full else start, self.appended_bytes, is_full=is_full)
        self._marker_end = self.end()

    def last_marker(self) -> bytes:
        """Returns the record of the last marker, which the writer writes after `wait` has returned None."""
        assert self._is_closing, "the last marker of a log that is open"
        assert not self._has_work(), "the last marker before a pending record"
        marker = self._chains.full_marker(is_last=True)
        return encode_record(self._seed, self._offset, 0, 0, 0, self.durable, MARKER, marker)

    def fail(self, error: BaseException) -> None:
        """Ends appending and taking. The first error counts. Takes `order` itself."""
        with self.order:
            self._failure = self._failure or error
            self._wake.notify()

    def raise_failure(self) -> None:
        """Raises the error that was passed to `fail`, if any. Needs no lock."""
        if self._failure is not None:
            raise self._failure

    def _check(self) -> None:
        """Asserts the invariants: batches are adjacent, and every change is of a known region."""
        for batch, following in itertools.pairwise(self._batches):
            assert following.segment == batch.segment + 1, f"segment {following.segment} after {batch.segment}"
            assert following.offset == len(following.head), f"a batch at {following.offset} of a new segment"
        assert self._batch is self._batches[-1], "appending to a batch that is closed"
        end = self._batch.offset + len(self._batch.data)
        assert (self._batch.segment, end) == self.end(), f"the log ends at {self.end()}, its last batch at {end}"
        assert self.durable <= self.end(), f"durable up to {self.durable}, appended up to {self.end()}"
        if self._holder is _NO_THREAD and self._is_waiting:
            assert not self._has_work(), "records are pending, and nobody has woken the writer"
        for region_id, last in self._touched.items():
            assert self._chains.last.get(region_id, last) == last, f"region {region_id} ends at {last} and elsewhere"

    def _has_work(self) -> bool:
        batch = self._batch
        return len(self._batches) > 1 or bool(batch.data) or bool(batch.completes)

    def _wake_writer(self) -> None:
        if self._is_waiting and self._holder is not _CALLER:
            self._is_waiting = False
            self._wake.notify()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise StoppingError("the log has failed and the server is stopping; nothing was changed")
        if self._is_closing:
            raise StoppingError("the log is closed because the server is stopping; nothing was changed")

    def _add_note(self, region_id: int, kind: int, payload: bytes) -> None:
        """Adds a record of the log's own about a region, to be synced."""
        self._add(region_id, 0, self._chains.last[region_id], kind, payload)
        self._chains.news.add(region_id)
        self.pass_through(_FSYNC, do_nothing)

    def _add(self, region_id: int, write_number: int, previous: int, kind: int, payload: bytes) -> None:
        self._check_open()
        size = (len(payload) + SIZE_ROUNDING) & SIZE_MASK
        offset = self._offset
        # A record that is larger than a segment gets a segment of its own, which the writer extends.
        if offset + size > self._capacity and not self._is_fresh:
            self._roll(self._version)
            offset = self._offset
        self._batch.data += encode_record(
            self._seed, offset, region_id, write_number, previous, self.durable, kind, payload
        )
        self._offset = offset + size
        self._is_fresh = False
        self.appended_bytes += size

    def _roll(self, version: int) -> None:
        """Begins the next segment: closes the current batch, and starts one with a header and a marker.

        All that takes memory comes first: a segment that is begun in part would make the log unreadable.
        """
        header = SegmentHeader(
            self._segment + 1, self._log_id, self._segment, self._offset, self._segment_bytes, version
        )
        seed = segment_seed(self._log_id, header.number)
        head = encode_head(header, seed, self._chains.full_marker(), self.durable)
        batch = Batch(header.number, len(head), head, self._touched)
        touched: dict[int, int] = {}
        self._batches.append(batch)
        self._batch, self._touched = batch, touched
        self._segment, self._seed, self._offset = header.number, seed, batch.offset
        self._version = version
        self._is_fresh = True
        self._capacity = self._segment_bytes
        self._chains.marked(self.end(), self.appended_bytes, is_full=True)
