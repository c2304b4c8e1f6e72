"""One send of a batch, or one read of many rows, without I/O: the rows still to do, and the outcome of each row.

A send has one deadline. Rows are sent as columns where that is faster and the server knows it (put_rows.py), and as
mutations otherwise; the rows that a request in columns leaves out are in the next one. Each row's change is repeated
under its own sequence number until it is answered. A row occurs only once in a send, so a repetition can't overwrite a
later change of the same row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.wire_errors import error_from
from rowlock._core.conversation import Request
from rowlock._core.put_rows import Line, PutRow, chosen_rows, fitting_lines
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind
from rowlock._core.uptime import uptime_s
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import (
    BatchError,
    ClosedError,
    InvalidArgumentError,
    LimitExceededError,
    NotServingRegionError,
    RowlockError,
    ServerError,
    UnknownOutcomeError,
)
from rowlock.schema import Region

# Rows read with one request: bounds what one answer can hold.
ROWS_PER_REQUEST = 1000


class BatchSend:
    """The changes of one send, by row. Times are seconds on time.monotonic(). Not thread-safe."""

    def __init__(
        self,
        table: str,
        lines: Mapping[bytes, Line],
        sequence: int,
        durability: types_pb2.Durability,
        now: float,
        timeout_s: float,
        repeated_for_s: float = REPEATED_FOR_S,
        request_bytes_max: int = 1 << 31,
    ) -> None:
        """request_bytes_max: of the server."""
        self.table = table
        self._bytes_max = request_bytes_max * 7 // 8  # A message is larger than its rows.
        self.deadline = now + timeout_s
        self._began_s = uptime_s()
        self._repeated_for_s = repeated_for_s
        self._timeout_s = timeout_s
        self._durability = durability
        self._lines = lines
        self._pending = dict(lines)
        for number, line in enumerate(lines.values(), sequence):
            line.sequence = number
        self._requested: Sequence[bytes] = ()
        # Set when the server refuses a request in columns as a whole: it may be of an earlier version after all.
        self._is_mutations_only = False
        self._attempts: dict[bytes, Attempts] = {}
        self._applied: list[bytes] = []
        self._failed: list[tuple[bytes, RowlockError]] = []
        self._unknown: list[tuple[bytes, RowlockError]] = []
        self.pause_s = 0.0
        self.has_moved = False
        """Whether the region of the last request did not have all of its rows: it was split, say. Look it up again."""
        self.unmet_count = 0
        """Rows whose condition did not hold; they count as applied."""

    @property
    def is_done(self) -> bool:
        """Whether every row has its outcome."""
        return not self._pending

    @property
    def first_row(self) -> bytes:
        """The first row without an outcome."""
        return next(iter(self._pending))

    def prepare(self, now: float) -> None:
        """Prepares the next attempt: sets the age of each mutation in doubt.

        A mutation that is too old to repeat ends. After the deadline all end, also those that were never sent.
        """
        if now >= self.deadline:
            for row in list(self._pending):
                self._end(row, self._attempts_of(row).timed_out(was_sent=False))
        for row, attempts in self._attempts.items():
            if row in self._pending:
                try:
                    self._pending[row].age_ms = attempts.age_ms()
                except RowlockError as error:
                    self._end(row, error)

    def request_for(self, region: Region, *, takes_columns: bool = False) -> Request:
        """Returns a request with pending rows of the region, which has `first_row`, in columns or as mutations.

        takes_columns: whether the region's server knows requests in columns.
        """
        lines = [line for row, line in self._pending.items() if region.holds(row)]
        in_columns = chosen_rows(lines, self._bytes_max) if takes_columns and not self._is_mutations_only else []
        if in_columns:
            self._requested = [line.row for line in in_columns]
            with Uninterrupted():
                from rowlock._core.put_rows_message import put_rows_message

            message = put_rows_message(in_columns, self._durability)
        else:
            fitting = fitting_lines(lines, self._bytes_max)
            self._requested = [line.row for line in fitting]
            message = region_pb2.PointRequests()
            mutate = message.requests.add().mutate
            mutate.durability = self._durability
            mutate.mutations.extend([line.mutation() if isinstance(line, PutRow) else line for line in fitting])
        return Request(self.table, self._requested[0], message, is_change=True)

    def absorb(self, request: Request, failure: RowlockError | None, now: float) -> None:
        """Records the outcome of the last request's rows. Sets `pause_s`, the seconds to wait before the next one.

        Also sets `has_moved`. Rows that the server has answered are done; the others are repeated with their numbers,
        in the regions that have them then.
        """
        rows = self._requested
        self.pause_s = 0.0
        self.has_moved = isinstance(failure, NotServingRegionError)
        is_in_columns = request.point.HasField("put_rows")
        is_refused = isinstance(failure, LimitExceededError) or (
            isinstance(failure, InvalidArgumentError) and not request.is_in_doubt
        )
        if is_in_columns and is_refused:
            self._is_mutations_only = True
            return
        if failure is None and request.answer is None:
            for row in rows:
                self._end(row, self._attempts_of(row).timed_out(was_sent=request.sent))
            return
        if failure is None:
            assert request.answer is not None, "handled above"
            if is_in_columns and not request.answer.put_rows.results:
                for row in rows:
                    del self._pending[row]
                self._applied += rows
                return
            results = (request.answer.put_rows if is_in_columns else request.answer.mutate).results
            for row, result in zip(rows, results, strict=True):
                if result.HasField("error"):
                    error = error_from(result.error)
                    self.has_moved |= isinstance(error, NotServingRegionError)
                    self._repeat(row, error, now, was_sent=False)
                else:
                    del self._pending[row]
                    self._applied.append(row)
                    self.unmet_count += not result.condition_met
            return
        for row in rows:
            self._repeat(row, failure, now, was_sent=request.is_in_doubt)

    def not_located(self, error: RowlockError, now: float) -> None:
        """Records that the region of `first_row` could not be found."""
        self.pause_s = 0.0
        self._repeat(self.first_row, error, now, was_sent=False)

    def finish(self) -> int:
        """Returns how many rows were changed. Raises BatchError unless all were, or ClosedError if none was sent."""
        if not self._failed and not self._unknown:
            return len(self._applied)
        count = len(self._applied) + len(self._failed) + len(self._unknown)
        outcomes = [f"{len(self._failed)} of {count} rows of a batch were not changed"] if self._failed else []
        if self._unknown:
            outcomes.append(f"{len(self._unknown)} of {count} rows of a batch may or may not have been changed")
        # In the order of the batch, whatever was sent first.
        place = {row: place for place, row in enumerate(self._lines)}
        self._applied.sort(key=place.__getitem__)
        for outcome in (self._failed, self._unknown):
            outcome.sort(key=lambda row_and_error: place[row_and_error[0]])
        row, error = (self._failed or self._unknown)[0]
        if isinstance(error, ClosedError) and not self._applied and not self._unknown:
            raise error
        raise BatchError(
            f"{'; '.join(outcomes)}. The first is row {row_text(row)}: {error}",
            applied=self._applied,
            failed=self._failed,
            unknown=self._unknown,
            table=self.table,
        ) from error

    def _repeat(self, row: bytes, error: RowlockError, now: float, *, was_sent: bool) -> None:
        try:
            pause = self._attempts_of(row).failed(error, now, was_sent=was_sent)
        except RowlockError as final:
            # One error may end many rows, and each raise would make its traceback longer.
            self._end(row, final.with_traceback(None))
        else:
            self.pause_s = max(self.pause_s, pause)

    def _attempts_of(self, row: bytes) -> Attempts:
        found = self._attempts.get(row)
        if found is None:
            start = self.deadline - self._timeout_s
            found = self._attempts[row] = Attempts(
                start,
                self._timeout_s,
                Kind.NUMBERED_CHANGE,
                began_s=self._began_s,
                repeated_for_s=self._repeated_for_s,
            )
        return found

    def _end(self, row: bytes, error: RowlockError) -> None:
        del self._pending[row]
        (self._unknown if isinstance(error, UnknownOutcomeError) else self._failed).append((row, error))


class RowsRead:
    """The rows of one read of many. Each request reads its rows at one read point."""

    def __init__(self, table: str, rows: Sequence[bytes], *, rows_per_request: int = ROWS_PER_REQUEST) -> None:
        self.table = table
        self._rows_per_request = rows_per_request
        self._pending = dict.fromkeys(rows)
        self._cells: dict[bytes, Sequence[types_pb2.Cell]] = {}

    @property
    def is_done(self) -> bool:
        """Whether every row was read."""
        return not self._pending

    @property
    def first_row(self) -> bytes:
        """The first row that was not read yet."""
        return next(iter(self._pending))

    def rows_for(self, region: Region) -> list[bytes]:
        """Returns the rows of the next request to the region, at most ROWS_PER_REQUEST; they include `first_row`."""
        held = (row for row in self._pending if region.holds(row))
        return [row for row, _ in zip(held, range(self._rows_per_request), strict=False)]

    def absorb(self, rows: Sequence[bytes], answer: region_pb2.PointAnswer) -> None:
        """Records the answer to a request for these rows. Raises ServerError if it has another number of rows."""
        if len(rows) != len(answer.get.rows):
            raise ServerError(f"the server answered {len(answer.get.rows)} of {len(rows)} rows")
        for row, cells in zip(rows, answer.get.rows, strict=True):
            self._cells[row] = cells.cells
            del self._pending[row]

    def cells_of(self, row: bytes) -> Sequence[types_pb2.Cell]:
        """Returns the cells of a row that was read."""
        return self._cells[row]
