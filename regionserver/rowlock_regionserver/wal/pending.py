"""What was appended and is not yet written: batches of records with their waiting callers, in log order.

Everything is guarded by `order`, the lock under which callers take write numbers and append, so all of it is short
and none of it touches a file: places in the log are given out here, and the writer makes the files follow. When a
record does not fit the rest of a segment, the batch at hand is closed and the next one begins the next segment,
with its head; nobody waits for that segment to exist but the writer. What a caller is about to write by itself
(`hold`) does not wake the writer's thread.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.wal.batch import Batch, Complete, do_nothing
from rowlock_regionserver.wal.marker import BROKEN, Marker, RegionState, encode_reservation
from rowlock_regionserver.wal.record import (
    MARKER,
    RESERVATION,
    SEGMENT_BYTES_MAX,
    SIZE_MASK,
    SIZE_ROUNDING,
    Position,
    Record,
    encode_record,
    record_size,
    segment_seed,
)
from rowlock_regionserver.wal.segment import SegmentHeader, encode_head

_FSYNC = int(Durability.FSYNC)


class Pending:
    """The end of the log as callers see it. Methods are called with `order` held, but for those that take it."""

    def __init__(
        self,
        log_id: bytes,
        segment: int,
        begun_bytes: int,
        capacity: int,
        segment_bytes: int,
        regions: Mapping[int, RegionState],
        broken_regions: Iterable[int],
        is_incomplete: bool,
        clock: Clock,
    ) -> None:
        assert 0 < segment_bytes <= SEGMENT_BYTES_MAX, f"log segments of {segment_bytes} bytes"
        self.order = threading.Lock()
        self._log_id = log_id
        self._segment_bytes = segment_bytes
        self._broken = set(broken_regions)
        self._is_incomplete = is_incomplete
        self._clock = clock
        # Set by the writer alone, in one assignment each; read here without a lock.
        self.durable = Position(segment, begun_bytes)
        self.written_bytes = 0

        # Guarded by self.order:
        self._wake = threading.Condition(self.order)
        self._is_waiting = False
        self._is_held = False
        self._is_closing = False
        self._failure: BaseException | None = None
        self._taken_at = clock.monotonic()
        self._segment = segment
        self._seed = segment_seed(log_id, segment)
        self._offset = begun_bytes
        self._is_fresh = True  # the segment has nothing but its head
        self._capacity = capacity
        self._last = {region_id: state.last_logged for region_id, state in regions.items()}
        self._reserved = {region_id: (state.numbers_until, state.stamps_until) for region_id, state in regions.items()}
        self._touched: dict[int, int] = {}
        self._batches = [Batch(segment, begun_bytes)]
        self._batch = self._batches[0]
        self._marker_end: Position | None = None
        self.appended_bytes = 0
        self.appended_records = 0

    # What callers add.

    def append(
        self, region_id: int, write_number: int, kind: int, payload: bytes, durability: int, complete: Complete
    ) -> None:
        """Adds a change; `complete` is called once it is as durable as asked. StoppingError: nothing was added."""
        assert 0 < kind < RESERVATION, f"kind {kind} of region {region_id}"
        previous = self._last.get(region_id, 0)
        assert write_number > previous, f"write number {write_number} after {previous} in region {region_id}"
        self._add(region_id, write_number, previous, kind, payload)
        self._last[region_id] = self._touched[region_id] = write_number
        self._batch.add(durability, complete)
        self.appended_records += 1
        self._wake_writer()

    def pass_through(self, durability: int, complete: Complete) -> None:
        """Adds a caller without a record: it completes after all that was appended before it, as durable as asked."""
        self._check_open()
        self._batch.add(durability, complete)
        self._wake_writer()

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        """Adds a reservation, and makes the region known. What is appended after it completes once it is durable."""
        assert region_id > 0, f"region {region_id}"
        numbers_before, _ = self._reserved.get(region_id, (0, 0))
        numbers_until = max(numbers_until, numbers_before)
        previous = self._last.setdefault(region_id, 0)
        self._reserved[region_id] = (numbers_until, stamps_until)
        self._add(region_id, 0, previous, RESERVATION, encode_reservation(numbers_until, stamps_until))
        self.pass_through(_FSYNC, do_nothing)

    def touch(self, records: Iterable[Record]) -> None:
        """The segment began with copies of these records, which pin it as if they had been appended."""
        for record in records:
            self._touched[record.region_id] = record.write_number
            self._is_fresh = False

    def forget(self, region_id: int) -> None:
        """No later marker names the region."""
        self._last.pop(region_id, None)
        self._reserved.pop(region_id, None)
        self._broken.discard(region_id)

    def known_regions(self) -> dict[int, RegionState]:
        """What a marker says at this moment."""
        known = {
            region_id: RegionState(last_logged, *self._reserved.get(region_id, (0, 0)))
            for region_id, last_logged in self._last.items()
        }
        known.update((region_id, RegionState(BROKEN)) for region_id in self._broken)
        return known

    def end(self) -> Position:
        """Where the next record will lie."""
        return Position(self._segment, self._offset)

    def close(self) -> None:
        """Nothing is appended any more; `take` answers None once all is taken."""
        self._is_closing = True
        self._wake.notify()

    def pending_bytes(self) -> int:
        """Bytes that are appended and not yet written; needs no lock, and is then about right."""
        return self.appended_bytes - self.written_bytes

    # What is taken to be written. Only who has the writer's turn takes.

    def wait(self, idle_ms: int) -> bool | None:
        """Blocks until something is pending; takes `order` itself.

        None: closed, and nothing is left. False: nothing came for `idle_ms` after records which no marker follows.
        Raises what was given to `fail`.
        """
        with self.order:
            self._taken_at = self._clock.monotonic()
            while self._failure is None and not self._has_work():
                if self._is_closing:
                    return None
                idle_seconds = None
                if self.end() != self._marker_end:
                    idle_seconds = self._taken_at + idle_ms / 1000 - self._clock.monotonic()
                    if idle_seconds <= 0:
                        return False
                self._is_waiting = True
                self._wake.wait(idle_seconds)
                self._is_waiting = False
            self.raise_failure()
            return True

    def take(self) -> list[Batch]:
        """All that is pending, in log order; nothing, when somebody else took it. Takes `order` itself."""
        with self.order:
            return self._taken() if self._has_work() else []

    def hold(self) -> None:
        """What is appended from now on wakes nobody, because the caller will `take_held`. Needs no lock."""
        self._is_held = True

    def take_held(self, byte_count_max: int) -> Batch | None:
        """Ends `hold`, and takes what is pending if it is short and lies in the segment's rest. Takes `order` itself.

        None: nothing is pending, or the writer's thread is woken for it.
        """
        with self.order:
            self._is_held = False
            batch = self._batch
            is_small = len(self._batches) == 1 and not batch.head and self._offset <= self._capacity
            if is_small and len(batch.data) <= byte_count_max and self._failure is None and self._has_work():
                self._taken_at = self._clock.monotonic()
                was_marked = Position(batch.segment, batch.offset) == self._marker_end
                self._taken()
                if was_marked:  # The thread waits without end, and must now look for when the log is idle.
                    self._wake_writer()
                return batch
            if self._has_work():
                self._wake_writer()
            return None

    def add_marker(self) -> None:
        """Adds a marker that is synced; unless something else is pending, which will be followed by its own.

        It is not worth a new segment, which would begin with one anyway.
        """
        if self._has_work() or self._is_closing:
            return
        marker = self._marker()
        if self._offset + record_size(len(marker)) <= self._capacity:
            self._add(0, 0, 0, MARKER, marker)
            self.pass_through(_FSYNC, do_nothing)
        self._marker_end = self.end()

    def last_marker(self) -> bytes:
        """The record of a marker at the end of the log, for the writer to write after `wait` has answered None."""
        assert self._is_closing, "the last marker of a log that is open"
        assert not self._has_work(), "the last marker before something that is pending"
        return encode_record(self._seed, self._offset, 0, 0, 0, self.durable, MARKER, self._marker())

    def fail(self, error: BaseException) -> None:
        """Nothing is appended or taken any more. The first error stays. Takes `order` itself."""
        with self.order:
            self._failure = self._failure or error
            self._wake.notify()

    def raise_failure(self) -> None:
        """Raises what was given to `fail`, if anything was. Needs no lock."""
        if self._failure is not None:
            raise self._failure

    def _check(self) -> None:
        """What must hold at any moment: batches lie side by side, and every change is of a known region."""
        for batch, following in itertools.pairwise(self._batches):
            assert following.segment == batch.segment + 1, f"segment {following.segment} after {batch.segment}"
            assert following.offset == len(following.head), f"a batch at {following.offset} of a new segment"
        assert self._batch is self._batches[-1], "appending to a batch that is closed"
        end = self._batch.offset + len(self._batch.data)
        assert (self._batch.segment, end) == self.end(), f"the log ends at {self.end()}, its last batch at {end}"
        assert self.durable <= self.end(), f"durable up to {self.durable}, appended up to {self.end()}"
        for region_id, last in self._touched.items():
            assert self._last.get(region_id, last) == last, f"region {region_id} ends at {last} and elsewhere"

    def _has_work(self) -> bool:
        batch = self._batch
        return len(self._batches) > 1 or bool(batch.data) or bool(batch.completes)

    def _taken(self) -> list[Batch]:
        taken = self._batches
        self._batch = Batch(self._segment, self._offset)
        self._batches = [self._batch]
        return taken

    def _wake_writer(self) -> None:
        if self._is_waiting and not self._is_held:
            self._is_waiting = False
            self._wake.notify()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise StoppingError("The log has failed and the server is going down; nothing was changed.")
        if self._is_closing:
            raise StoppingError("The log is closed, the server is going down; nothing was changed.")

    def _marker(self) -> bytes:
        return Marker(self.known_regions(), self._is_incomplete).encode()

    def _add(self, region_id: int, write_number: int, previous: int, kind: int, payload: bytes) -> None:
        self._check_open()
        size = (len(payload) + SIZE_ROUNDING) & SIZE_MASK
        offset = self._offset
        # A record that is larger than a segment lies alone in one, which the writer makes larger for it.
        if offset + size > self._capacity and not self._is_fresh:
            self._roll()
            offset = self._offset
        self._batch.data += encode_record(
            self._seed, offset, region_id, write_number, previous, self.durable, kind, payload
        )
        self._offset = offset + size
        self._is_fresh = False
        self.appended_bytes += size

    def _roll(self) -> None:
        """Begins the next segment: the batch at hand ends here, and a new one starts with a header and a marker."""
        header = SegmentHeader(self._segment + 1, self._log_id, self._segment, self._offset)
        self._segment = header.number
        self._seed = segment_seed(self._log_id, header.number)
        head = encode_head(header, self._seed, self._marker(), self.durable)
        self._offset = len(head)
        self._is_fresh = True
        self._capacity = self._segment_bytes
        self._batch = Batch(header.number, len(head), head, self._touched)
        self._batches.append(self._batch)
        self._touched = {}
