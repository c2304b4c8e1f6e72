"""The outcome of each row of a put_arrow: written, not written, or unknown."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock.errors import BulkError, ClosedError, InvalidArgumentError, RowlockError, UnknownOutcomeError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of a put_arrow that wrote all rows.

    row_count: rows of the input, with those whose values are all null; without a mapping each cell is a row of the
        input.
    cell_count: cells written; cells of one batch with the same key and timestamp count once.
    """

    row_count: int
    cell_count: int


class Portion:
    """The rows of the input that became one batch. They share one outcome, even if the batch was split by region."""

    __slots__ = ("error", "is_applied_in_part", "parts_left", "rows")

    def __init__(self, rows: range) -> None:
        self.rows = rows
        self.parts_left = 1
        self.is_applied_in_part = False
        self.error: RowlockError | None = None


class BulkOutcome:
    """Collects the outcomes of all batches. Not thread-safe."""

    def __init__(self) -> None:
        self.row_count = 0
        self._cell_count = 0
        self._applied: list[range] = []
        self._without_cells: list[range] = []
        self._failed: list[tuple[range, RowlockError]] = []
        self._unknown: list[tuple[range, RowlockError]] = []
        self._raised_by_input: Exception | None = None

    def part_applied(self, portion: Portion, cell_count: int) -> None:
        """Records that a part of a portion was written."""
        portion.is_applied_in_part = True
        self._cell_count += cell_count
        self._part_ended(portion)

    def had_no_cells(self, rows: range) -> None:
        """Records rows of which nothing is to be written."""
        self._without_cells.append(rows)
        self.row_count += len(rows)

    def part_failed(self, portion: Portion, error: RowlockError) -> None:
        """Records the error of a part: UnknownOutcomeError if it may have been written, else it was not."""
        if portion.error is None or isinstance(error, UnknownOutcomeError):
            portion.error = error
        self._part_ended(portion)

    def input_failed(self, row: int, error: Exception) -> None:
        """Records that the input raised an error before it gave this row."""
        self._raised_by_input = error
        failure = error if isinstance(error, RowlockError) else InvalidArgumentError(f"{type(error).__name__}: {error}")
        self._failed.append((range(row, row + 1), failure))

    def first_not_written(self, end: int) -> int:
        """Returns the first row before `end` that was not written, or may not have been; `end` if there is none."""
        return min([end, *(rows.start for rows, _ in self._failed), *(rows.start for rows, _ in self._unknown)])

    def result(self, table: str) -> BulkResult:
        """Returns the counts. Raises BulkError unless all rows were written.

        If no row was written, an InvalidArgumentError, a ClosedError or the input's own exception is raised as it is.
        """
        if not self._failed and not self._unknown:
            return BulkResult(self.row_count, self._cell_count)
        not_written = sorted(self._failed + self._unknown, key=lambda item: item[0].start)
        rows, error = not_written[0]
        cause: Exception = error
        if self._raised_by_input is not None and len(not_written) == 1:
            cause = self._raised_by_input
        is_callers_error = isinstance(cause, InvalidArgumentError | ClosedError) or not isinstance(cause, RowlockError)
        if is_callers_error and not self._applied and not self._unknown:
            raise cause
        outcome = "were not written" if not self._unknown else "may or may not have been written"
        reason = str(error)
        if isinstance(error, UnknownOutcomeError) and error.reason:
            reason = f"{error.reason}. Read them to find out."
        raise BulkError(
            f"{self.row_count} rows were written; rows {rows.start} to {rows.stop - 1} {outcome}: {reason}",
            applied=sorted(self._applied + self._without_cells, key=lambda rows: rows.start),
            failed=self._failed,
            unknown=self._unknown,
            table=table,
        ) from cause

    def _part_ended(self, portion: Portion) -> None:
        portion.parts_left -= 1
        if portion.parts_left:
            return
        if portion.error is None:
            self._applied.append(portion.rows)
            self.row_count += len(portion.rows)
        elif portion.is_applied_in_part or isinstance(portion.error, UnknownOutcomeError):
            # The portion does not record which rows went to which region, so the outcome of each row is unknown.
            self._unknown.append((portion.rows, portion.error))
        else:
            self._failed.append((portion.rows, portion.error))
