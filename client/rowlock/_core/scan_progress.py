"""How far a scan has come, without I/O: which region is next, which rows are whole, where it goes on after a loss.

A region answers batches of cells at one read point. Cells are handed on only as whole rows: a row that goes on in the
next batch is held back until it is complete; in row form each is. So after a lost connection the scan can go on behind
the last whole row, or from the row that the server has reached without answering one, at a new read point, and no row
is ever pieced together from two. A strict scan fails instead, once a region has begun to answer. A scan of a snapshot
goes on at the same read point, so nothing is lost.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import Ints, bools_of, cells_schema, one_array
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

# What a scan answers.
CELL_SCHEMA = cells_schema(nullable=())


class ScanProgress:
    """One scan. Not thread-safe."""

    def __init__(self, plan: ScanPlan, timeout_s: float) -> None:
        self.plan = plan
        self.timeout_s = timeout_s
        self.has_resumed = False
        self._left = plan.ranges
        self._rows_left = plan.limit
        self._row_form = None if plan.row_form is None else RowFormReader.of(plan.row_form, plan.template)
        self._held: pa.Table | None = None
        self._region_has_answered = False
        self._attempts: Attempts | None = None
        self._waiting = Waiting(f"a scan of {plan.table!r}")
        # Which was asked last.
        self._server = ""

    @property
    def is_done(self) -> bool:
        return not self._left or self._rows_left == 0

    @property
    def bounds(self) -> RowRange:
        """The range that holds all that is left."""
        return self._left[0][0], self._left[-1][1]

    def request_for(self, regions: tuple[Region, ...]) -> tuple[Region, region_pb2.ScanRequest]:
        """The next region to scan, of those that touch `bounds` in row order, and what to ask of it.

        Raises NotServingRegionError when the rows that come next are in none of them.
        """
        region = regions[-1 if self.plan.is_reverse else 0]
        self._check_is_next(region)
        self._server = region.server
        request = region_pb2.ScanRequest()
        request.CopyFrom(self.plan.template)
        request.region_id = region.region_id
        request.row_limit = self._rows_left or 0
        for start, stop in self._left:
            clipped = _clipped(start, stop, region)
            if clipped is not None:
                request.ranges.add(start=clipped[0], stop=clipped[1])
        self._held = None
        self._region_has_answered = False
        return region, request

    def received(self, batch: ScanMessage) -> pa.Table | None:
        """The whole rows that this batch completes, None if there are none; raises ServerError if it is none."""
        self._region_has_answered = True
        self._attempts = None
        self._waiting.over()
        rows = self._whole_rows(batch)
        if batch.row_reached and not batch.row_continues:
            self._go_on_from(batch.row_reached)
        return rows

    def _whole_rows(self, batch: ScanMessage) -> pa.Table | None:
        if self._row_form is not None:
            rows = self._row_form.read(batch.arrow)
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
        """The region has answered all; gives what was held back, if anything."""
        rest, self._held = self._held, None
        passed = self._passed_on(rest) if rest is not None else None
        self._region_has_answered = False
        if self.plan.is_reverse:
            self._cut(stop=region.start) if region.start else self._finish()
        elif region.stop:
            self._cut(start=region.stop)
        else:
            self._finish()
        return passed

    def failed(self, error: RowlockError, now: float) -> float:
        """The pause in seconds before the scan goes on; raises what it ends with if it can't."""
        self._held = None
        may_go_on = isinstance(
            error, ServerUnavailableError | LeaseExpiredError | NotServingRegionError | RegionTooBusyError
        )
        if self._region_has_answered and may_go_on and not self.plan.template.snapshot_id:
            if self.plan.is_strict:
                raise LeaseExpiredError(
                    f"the scan of {self.plan.table!r} lost its read point, and strict=True forbids to go on at a new "
                    f"one: {error.message}",
                    table=self.plan.table,
                ) from error
            self.has_resumed = True
            self._region_has_answered = False
        if self._attempts is None:
            self._attempts = Attempts(now, self.timeout_s, Kind.READ, busy_s=self.plan.busy_timeout_s)
        if isinstance(error, LeaseExpiredError) and may_go_on:
            # The lease is gone for good; a new request opens another.
            error = ServerUnavailableError(error.message)
        pause_s = self._attempts.failed(error, now, was_sent=False)
        self._waiting.met(error, self._server, now, self._attempts.given_up_at)
        return pause_s

    def _check_is_next(self, region: Region) -> None:
        """A region that lies beyond the rows that come next would pass them over."""
        start, stop = self.bounds
        if self.plan.is_reverse:
            has_next = not region.stop or (stop != b"" and region.start < stop <= region.stop)
        else:
            has_next = region.start <= start and (not region.stop or start < region.stop)
        if not has_next:
            raise NotServingRegionError(
                f"no server has the rows of table {self.plan.table!r} that come next, at this moment",
                table=self.plan.table,
            )

    def _passed_on(self, whole_rows: pa.Table) -> pa.Table:
        last_row: bytes = whole_rows.column("row")[-1].as_py()
        if self._rows_left is not None:
            row_count = len(row_starts(whole_rows)) if self._row_form is None else whole_rows.num_rows
            self._rows_left = max(0, self._rows_left - row_count)
        self._go_on_from(last_row if self.plan.is_reverse else last_row + b"\0")
        return whole_rows

    def _go_on_from(self, row: bytes) -> None:
        """What comes before the row is done, or backwards what does not."""
        if self.plan.is_reverse:
            self._cut(stop=row)
        else:
            self._cut(start=row)

    def _cut(self, start: bytes = b"", stop: bytes = b"") -> None:
        """Only what lies in [start, stop) is left."""
        left: list[RowRange] = []
        for first, last in self._left:
            cut = _intersection(first, last, start, stop)
            if cut is not None:
                left.append(cut)
        self._left = tuple(left)

    def _finish(self) -> None:
        self._left = ()


def read_cells(arrow: bytes | pa.Buffer) -> pa.Table:
    """The cells of a batch; raises ServerError unless they have the protocol's schema and are valid."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(arrow)) as reader:
            table = reader.read_all()
        if not table.schema.equals(CELL_SCHEMA, check_metadata=False):
            raise ServerError(f"a batch of a scan has the wrong schema: {table.schema}")
        # A forged offset would otherwise be followed out of the buffer.
        table.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise ServerError(f"a batch of a scan is not what the server sent: {error}") from error
    return table.combine_chunks()


def row_starts(cells: pa.Table) -> Ints:
    """The index of each row's first cell; equal rows stand together. Vectorised, O(cells)."""
    import pyarrow.compute as pc

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
    """What two ranges share, None if nothing; empty bounds are open."""
    first = max(start, other_start)
    last = min(stop, other_stop) if stop and other_stop else stop or other_stop
    return (first, last) if not last or first < last else None
