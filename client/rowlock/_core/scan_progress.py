"""The progress of a scan, without I/O: the next region, the complete rows, and the resume key after a failure.

A region answers with batches of cells at one read point. The scan returns complete rows only: a row that continues in
the next batch is held back until it is complete. (In row form every row is.) So after a lost connection the scan can
resume after the last complete row, or at the server's resume key (row_reached) if that is further, at a new read point;
no row is ever combined from two read points. A strict scan fails instead, if a region has begun to answer. A scan of a
snapshot resumes at the same read point.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import Ints, bools_of, cells_schema, one_array
from rowlock._codec.arrow_stream import read_stream
from rowlock._codec.line_rows import LineReader, LineRows
from rowlock._codec.newest_rows import NewestRows, read_newest_rows
from rowlock._codec.row_form import RowFormReader
from rowlock._codec.scan_message import ScanMessage
from rowlock._core.retry import Attempts, Kind
from rowlock._core.scan_plan import RowRange, ScanPlan
from rowlock._core.waiting import Waiting
from rowlock.errors import (
    LeaseExpiredError,
    NotServingRegionError,
    RegionTooBusyError,
    RowlockError,
    ServerError,
    ServerUnavailableError,
)
from rowlock.schema import Region

# The schema of a scan's batches of cells.
CELL_SCHEMA = cells_schema(nullable=())

# The rows of a batch: cells, or another form of them, which scans that are read as dicts take.
Received: TypeAlias = pa.Table | NewestRows | LineRows


class ScanProgress:
    """The state of one scan. Not thread-safe."""

    def __init__(self, plan: ScanPlan, timeout_s: float) -> None:
        self.plan = plan
        self.timeout_s = timeout_s
        self.has_resumed = False
        self._remaining = plan.ranges
        self._rows_remaining = plan.limit
        self._row_form = None if plan.row_form is None else RowFormReader.of(plan.row_form, plan.template)
        self._line_reader = LineReader()
        self._held: pa.Table | None = None
        self._region_has_answered = False
        self._attempts: Attempts | None = None
        self._waiting = Waiting(f"a scan of {plan.table!r}")
        # The server of the last request.
        self._server = ""

    @property
    def is_done(self) -> bool:
        """Whether no range is left, or the limit is reached."""
        return not self._remaining or self._rows_remaining == 0

    @property
    def bounds(self) -> RowRange:
        """The smallest range that contains all remaining ranges."""
        return self._remaining[0][0], self._remaining[-1][1]

    def request_for(self, regions: tuple[Region, ...]) -> tuple[Region, region_pb2.ScanRequest]:
        """Returns the next region to scan and the request for it. regions: those that overlap `bounds`, in row order.

        Raises NotServingRegionError if none of them has the next rows.
        """
        region = regions[-1 if self.plan.is_reverse else 0]
        self._check_is_next(region)
        self._server = region.server
        request = region_pb2.ScanRequest()
        request.CopyFrom(self.plan.template)
        request.region_id = region.region_id
        request.row_limit = self._rows_remaining or 0
        for start, stop in self._remaining:
            clipped = _clipped(start, stop, region)
            if clipped is not None:
                request.ranges.add(start=clipped[0], stop=clipped[1])
        self._held = None
        self._region_has_answered = False
        return region, request

    def received(self, batch: ScanMessage) -> Received | None:
        """Returns the rows that this batch completes; None if there are none. Raises ServerError if it is malformed."""
        self._region_has_answered = True
        self._attempts = None
        self._waiting.progressed()
        rows: Received | None
        if batch.newest_rows is not None:
            rows = self._newest_rows(batch.newest_rows)
        elif batch.line_columns:
            rows = self._line_rows(batch)
        else:
            rows = self._complete_rows(batch)
        if batch.row_reached and not batch.row_continues:
            self._resume_at(batch.row_reached)
        return rows

    def _newest_rows(self, message: region_pb2.NewestRows) -> NewestRows:
        if not self.plan.template.newest_rows or self._held is not None:
            raise ServerError(
                "a batch of a scan has its newest rows, which were not requested or follow a part of a row"
            )
        rows = read_newest_rows(message)
        self._returned(len(rows.rows), rows.rows[-1])
        return rows

    def _line_rows(self, batch: ScanMessage) -> Received:
        if not self.plan.template.lines or self._held is not None or batch.row_continues:
            raise ServerError(
                "a batch of a scan has rows in columns, which were not requested, or a part of a row as such or before"
            )
        rows = self._line_reader.read(batch)
        last_row: bytes | None = rows.keys[-1].as_py()
        self._returned(len(rows.keys), last_row)
        return rows if self.plan.template.newest_rows else rows.cells()

    def _complete_rows(self, batch: ScanMessage) -> pa.Table | None:
        if self._row_form is not None:
            rows = self._row_form.read(batch)
            return self._passed_on(rows) if rows.num_rows else None
        cells = read_cells(batch.arrow)
        if self._held is not None:
            cells = pa.concat_tables([self._held, cells]).combine_chunks()
            self._held = None
        if batch.row_continues and cells.num_rows:
            last_start = _start_of_last_row(cells)
            self._held = cells.slice(last_start)
            cells = cells.slice(0, last_start)
        return self._passed_on(cells) if cells.num_rows else None

    def region_is_done(self, region: Region) -> pa.Table | None:
        """Records that the region has answered all its rows. Returns the row that was held back, if any."""
        held, self._held = self._held, None
        rows = self._passed_on(held) if held is not None else None
        self._region_has_answered = False
        if self.plan.is_reverse:
            self._cut(stop=region.start) if region.start else self._finish()
        elif region.stop:
            self._cut(start=region.stop)
        else:
            self._finish()
        return rows

    def failed(self, error: RowlockError, now: float) -> float:
        """Returns the pause in seconds before the next request. Raises the scan's final error if it can't resume."""
        self._held = None
        can_resume = isinstance(
            error, ServerUnavailableError | LeaseExpiredError | NotServingRegionError | RegionTooBusyError
        )
        if self._region_has_answered and can_resume and not self.plan.template.snapshot_id:
            if self.plan.is_strict:
                raise LeaseExpiredError(
                    f"the scan of {self.plan.table!r} lost its read point, and strict=True forbids a new "
                    f"one: {error.message}",
                    table=self.plan.table,
                ) from error
            self.has_resumed = True
            self._region_has_answered = False
        if self._attempts is None:
            self._attempts = Attempts(now, self.timeout_s, Kind.READ, busy_s=self.plan.busy_timeout_s)
        if isinstance(error, LeaseExpiredError) and can_resume:
            # Retried like a lost connection: a new request gets a new lease.
            error = ServerUnavailableError(error.message)
        pause_s = self._attempts.failed(error, now, was_sent=False)
        self._waiting.failed(error, self._server, now, self._attempts.ends_at)
        return pause_s

    def _check_is_next(self, region: Region) -> None:
        """Raises NotServingRegionError if the region does not have the next row; scanning it would skip rows."""
        start, stop = self.bounds
        if self.plan.is_reverse:
            has_next = not region.stop or (stop != b"" and region.start < stop <= region.stop)
        else:
            has_next = region.start <= start and (not region.stop or start < region.stop)
        if not has_next:
            raise NotServingRegionError(
                f"no server has the next rows of table {self.plan.table!r} at this moment; retry",
                table=self.plan.table,
            )

    def _passed_on(self, rows: pa.Table) -> pa.Table:
        """Counts complete rows as returned, and returns them."""
        last_row: bytes | None = rows.column("row")[-1].as_py()
        row_count = 0
        if self._rows_remaining is not None:
            row_count = len(row_starts(rows)) if self._row_form is None else rows.num_rows
        self._returned(row_count, last_row)
        return rows

    def _returned(self, row_count: int, last_row: bytes | None) -> None:
        """Counts rows as returned. `last_row` is None if the batch has a resume key."""
        if self._rows_remaining is not None:
            self._rows_remaining = max(0, self._rows_remaining - row_count)
        if last_row is not None:
            self._resume_at(last_row if self.plan.is_reverse else last_row + b"\0")

    def _resume_at(self, row: bytes) -> None:
        """Removes the rows before this one from the remaining ranges; in a reverse scan this row and those after it."""
        if self.plan.is_reverse:
            self._cut(stop=row)
        else:
            self._cut(start=row)

    def _cut(self, start: bytes = b"", stop: bytes = b"") -> None:
        """Cuts the remaining ranges to [start, stop)."""
        remaining: list[RowRange] = []
        for first, last in self._remaining:
            cut = _intersection(first, last, start, stop)
            if cut is not None:
                remaining.append(cut)
        self._remaining = tuple(remaining)

    def _finish(self) -> None:
        self._remaining = ()


def read_cells(arrow: bytes | pa.Buffer) -> pa.Table:
    """Returns the cells of a batch. Raises ServerError unless they are valid and have the protocol's schema."""
    return read_stream(arrow, CELL_SCHEMA.equals, "a batch of a scan").combine_chunks()


def row_starts(cells: pa.Table) -> Ints:
    """Returns the index of each row's first cell; a row's cells are contiguous. Vectorised, O(cells)."""
    from rowlock._codec.late_compute import compute as pc

    if cells.num_rows == 0:
        return np.empty(0, np.int64)
    rows = one_array(cells.column("row"))
    changes = np.flatnonzero(bools_of(pc.not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))))
    return np.concatenate([np.zeros(1, np.int64), changes + 1])


def _start_of_last_row(cells: pa.Table) -> int:
    return int(row_starts(cells)[-1])


def _clipped(start: bytes, stop: bytes, region: Region) -> RowRange | None:
    return _intersection(start, stop, region.start, region.stop)


def _intersection(start: bytes, stop: bytes, other_start: bytes, other_stop: bytes) -> RowRange | None:
    """Returns the intersection of two ranges; None if it is empty. Empty bounds are open."""
    first = max(start, other_start)
    last = min(stop, other_stop) if stop and other_stop else stop or other_stop
    return (first, last) if not last or first < last else None
