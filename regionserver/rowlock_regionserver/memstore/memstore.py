"""One family's memstore: the active segment, which takes writes, and the immutable segments that wait for a flush.

Immutable segments come from `switch`, which seals the active one, and from `add_segment`, which adds a bulk batch. Both
are called with the region's gate held exclusively, so no write is between BEGIN and APPLY. `insert_segment` adds puts
that came as columns, and `merge_run` merges such segments later; both are called with the gate held shared. A flush
writes the segments that `switch` returns, and drops exactly those when the manifest names the file; newer ones may have
been added by then.

Pruning looks at one segment alone. That is correct because no other segment has a tombstone from between two of its
writes: a bulk batch with tombstones seals the active segment too.

Readers call `sources` and hold the tuple: it never changes, and a dropped segment lives until its last reader is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rowlock_regionserver.cells import NEWEST, Cell, PastLimits, ProtectedReadPoints
from rowlock_regionserver.config import MIB
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.row_segment import PRUNE_CELLS_MIN, RowSegment

# At least this many segments of bulk batches are merged at once, into one of at most this many bytes: some 10 ms.
MERGED_COUNT_MIN = 4
MERGED_BYTES_MAX = 2 * MIB

BulkSegment = ArrowSegment | LinesSegment
Segment = RowSegment | BulkSegment


@dataclass(frozen=True, slots=True)
class MemstoreStatistics:
    """The contents of a memstore, over all of its segments. A row counts once for each segment that has it."""

    segment_count: int  # the active one included
    row_count: int
    cell_count: int
    tombstone_count: int
    bytes_held: int


class Memstore:
    """One family's cells of one region that are not yet flushed. Any number of threads may use it."""

    def __init__(
        self,
        versions: int,
        *,
        recovering: bool = False,
        prune_cells_min: int = PRUNE_CELLS_MIN,
        past: tuple[PastLimits, ...] = (),
    ) -> None:
        """`versions` and `past` are the family's; replay may bring cells from before its alters.

        If `recovering`, it must not be read before `recovered()`, but may be flushed.
        """
        self._past = past
        self._prune_cells_min = prune_cells_min
        self._lock = threading.Lock()
        self._merging = threading.Lock()  # held by the thread that merges outside of self._lock
        # Guarded by self._lock for writing; read without it, each field by a single access:
        self._versions = versions
        self._is_recovering = recovering
        self._segments: tuple[Segment, ...] = (self._new_segment(),)
        # Segments with write numbers up to this are never merged: a flush has them, or they don't fit one segment.
        self._unmerged_through = 0
        # Segments with this write number or a greater one are not merged now: a commit may take them back.
        self._merged_before = NEWEST

    def _new_segment(self) -> RowSegment:
        return RowSegment(
            self._versions,
            recovering=self._is_recovering,
            prune_cells_min=self._prune_cells_min,
            past=self._past if self._is_recovering else (),
        )

    def apply(self, row: bytes, cells: Sequence[Cell], protected_read_points: Callable[[], ProtectedReadPoints]) -> int:
        """Adds one write's cells to the row; see RowSegment.apply. The caller holds the gate."""
        return self.active.apply(row, cells, protected_read_points)

    def take_back(self, row: bytes, write_number: int) -> int:
        """Undoes `apply` for a write that the log refused. Returns the growth of memory, which is 0 or less.

        The caller has held the gate exclusively since it called `apply`.
        """
        return self.active.take_back(row, write_number)

    @property
    def active(self) -> RowSegment:
        """The segment that takes writes. It stays the same while the gate is held."""
        active = self._segments[0]
        assert isinstance(active, RowSegment), "the first segment is not the active one"
        return active

    def sources(self) -> tuple[Segment, ...]:
        """Returns all segments in a tuple that never changes: the active one, then newest to oldest."""
        return self._segments

    @property
    def bytes_held(self) -> int:
        """The bytes in Python's memory, over all segments."""
        return sum(segment.bytes_held for segment in self._segments)

    def switch(self, *, versions: int | None = None) -> tuple[Segment, ...]:
        """Seals the active segment and starts a new one. Returns all immutable segments that hold cells, newest first.

        `versions` applies to the new segment, if the family was altered. The caller holds the gate exclusively.
        """
        with self._lock:
            self._versions = versions or self._versions
            active, sealed = self.active, self._segments[1:]
            active.seal()
            if active.cell_count:
                sealed = (active, *sealed)
            self._unmerged_through = max([segment.write_number_max for segment in sealed], default=0)
            self._segments = (self._new_segment(), *sealed)
        return sealed

    def add_segment(self, segment: BulkSegment) -> int:
        """Adds a bulk batch, or a part of one. Returns the growth of memory. The caller holds the gate exclusively.

        Merges earlier batches. No flush or undo knows these by their segments, unlike the new one; see `merge_before`.
        """
        with self._lock:
            active, *sealed = self._segments
            held = sum(each.bytes_held for each in sealed)
            for form in (ArrowSegment, LinesSegment):
                sealed = [*self._merged(form, sealed, segment.write_number_max)]
            grown = segment.bytes_held + sum(each.bytes_held for each in sealed) - held
            if segment.has_tombstones and active.cell_count:
                self.active.seal()
                self._segments = (self._new_segment(), segment, active, *sealed)
            else:
                self._segments = (active, segment, *sealed)
        return grown

    def merge_before(self, write_number: int) -> None:
        """Lets only segments from before this write be merged, until it is called again; NEWEST: all."""
        with self._lock:
            self._merged_before = write_number

    def insert_segment(self, segment: BulkSegment) -> int:
        """Adds puts of many rows, by one write. Returns the growth of memory. O(segments).

        The caller holds the gate, the row locks and the log's order lock.
        """
        assert not segment.has_tombstones, "pruning of the active segment would not see these tombstones"
        with self._lock:
            active, *sealed = self._segments
            self._segments = (active, segment, *sealed)
        return segment.bytes_held

    def merge_run(self, change: Callable[[Callable[[], None]], None], grown: Callable[[int], None]) -> None:
        """Merges segments of puts and bulk batches, if several have about the same size, and no other thread does.

        The caller holds the gate, shared or exclusively, and none of the locks below it: merging takes some
        milliseconds. `change` runs an action that exchanges segments, and publishes its effect to readers. `grown` is
        called with the growth of memory, after each exchange.
        """
        if not self._merging.acquire(blocking=False):
            return  # The next batch does it.
        try:
            for form in (ArrowSegment, LinesSegment):
                with self._lock:
                    run = self._run_of(form, self._segments[1:], NEWEST)
                if len(run) < MERGED_COUNT_MIN:
                    continue
                merged = form.merged(run)  # type: ignore[arg-type]  # all are of this form
                change(partial(self._exchange, run, merged, grown))
        finally:
            self._merging.release()

    def _exchange(self, run: Sequence[BulkSegment], merged: BulkSegment | None, grown: Callable[[int], None]) -> None:
        """Puts a merged segment in the place of a run, unless a bulk batch has merged some of it meanwhile."""
        with self._lock:
            if not all(segment in self._segments for segment in run):
                return
            if merged is None:
                self._unmerged_through = max(self._unmerged_through, run[0].write_number_max)
                return
            place = self._segments.index(run[0])
            rest = [segment for segment in self._segments[place:] if segment not in run]
            self._segments = (*self._segments[:place], merged, *rest)
        grown(merged.bytes_held - sum([segment.bytes_held for segment in run]))

    def _merged(
        self, form: type[ArrowSegment | LinesSegment], sealed: Sequence[Segment], write_number: int
    ) -> Sequence[Segment]:
        """Merges the newest bulk segments of this form from before this write, if several have about the same size.

        So each cell is merged a few times only, and there are few segments, however small the batches are.
        """
        run = self._run_of(form, sealed, write_number)
        if len(run) < MERGED_COUNT_MIN:
            return sealed
        merged = form.merged(run)  # type: ignore[arg-type]  # all are of this form
        if merged is None:
            self._unmerged_through = run[0].write_number_max
            return sealed
        place = sealed.index(run[0])
        return [*sealed[:place], merged, *(segment for segment in sealed[place:] if segment not in run)]

    def _run_of(
        self, form: type[ArrowSegment | LinesSegment], sealed: Sequence[Segment], write_number: int
    ) -> list[BulkSegment]:
        """Returns the newest segments of this form from before this write that should be one."""
        run: list[BulkSegment] = []
        byte_count = 0
        write_number = min(write_number, self._merged_before)
        for segment in sealed:
            if not isinstance(segment, form) or segment.write_number_max >= write_number:
                continue
            is_much_larger = bool(run) and segment.byte_count > 2 * byte_count
            byte_count += segment.byte_count
            if is_much_larger or byte_count > MERGED_BYTES_MAX or segment.write_number_min <= self._unmerged_through:
                break
            run.append(segment)
        return run

    def drop(self, segments: Sequence[Segment]) -> None:
        """Removes immutable segments: their cells are in a live store file, or the log refused their bulk batch."""
        dropped = {id(segment) for segment in segments}
        with self._lock:
            assert id(self._segments[0]) not in dropped, "the active segment can't be dropped"
            remaining = tuple(segment for segment in self._segments if id(segment) not in dropped)
            count = len(self._segments) - len(remaining)
            assert count == len(dropped), f"{len(dropped)} segments to drop, {count} of them held"
            self._segments = remaining

    def recovered(self) -> None:
        """Ends recovery, so that reads may begin."""
        with self._lock:
            self._is_recovering = False
            self.active.recovered()

    def statistics(self) -> MemstoreStatistics:
        segments = self._segments
        return MemstoreStatistics(
            segment_count=len(segments),
            row_count=sum(segment.row_count for segment in segments),
            cell_count=sum(segment.cell_count for segment in segments),
            tombstone_count=sum(segment.tombstone_count for segment in segments),
            bytes_held=sum(segment.bytes_held for segment in segments),
        )

    def _check(self) -> None:
        """Asserts every invariant, of the segments too. O(cells)."""
        with self._lock:
            segments = self._segments
            assert isinstance(segments[0], RowSegment), "the first segment is not the active one"
            assert not segments[0].is_sealed, "the active segment is sealed"
            for segment in segments[1:]:
                assert not isinstance(segment, RowSegment) or segment.is_sealed, "an immutable segment takes writes"
        for segment in segments:
            segment._check()
