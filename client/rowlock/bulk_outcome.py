"""What became of each row of the input of a put_arrow: written, surely not written, or not known."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock.errors import BulkError, ClosedError, InvalidArgumentError, RowlockError, UnknownOutcomeError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a put_arrow wrote.

    row_count: rows of the input that were written.
    cell_count: cells written; of several with the same key, timestamp and batch one.
    """

    row_count: int
    cell_count: int


class Portion:
    """Rows of the input that became one batch, and are told of together when it had to be parted among regions."""

    __slots__ = ("error", "is_applied_in_part", "parts_left", "rows")

    def __init__(self, rows: range) -> None:
        self.rows = rows
        self.parts_left = 1
        self.is_applied_in_part = False
        self.error: RowlockError | None = None


class BulkOutcome:
    """Not thread-safe."""

    def __init__(self) -> None:
        self.row_count = 0
        self._cell_count = 0
        self._applied: list[range] = []
        self._failed: list[tuple[range, RowlockError]] = []
        self._unknown: list[tuple[range, RowlockError]] = []
        self._raised_by_input: Exception | None = None

    def part_applied(self, portion: Portion, cell_count: int) -> None:
        portion.is_applied_in_part = True
        self._cell_count += cell_count
        self._part_ended(portion)

    def part_failed(self, portion: Portion, error: RowlockError) -> None:
        """An UnknownOutcomeError leaves in doubt whether the part was written; others say that it was not."""
        if portion.error is None or isinstance(error, UnknownOutcomeError):
            portion.error = error
        self._part_ended(portion)

    def input_failed(self, row: int, error: Exception) -> None:
        """From this row on the input gave no more."""
        self._raised_by_input = error
        told = error if isinstance(error, RowlockError) else InvalidArgumentError(f"{type(error).__name__}: {error}")
        self._failed.append((range(row, row + 1), told))

    def result(self, table: str) -> BulkResult:
        """What was written; raises BulkError unless it is all.

        If nothing was, what the caller did wrong, or what the input raised, is raised as it is.
        """
        if not self._failed and not self._unknown:
            return BulkResult(self.row_count, self._cell_count)
        not_written = sorted(self._failed + self._unknown, key=lambda item: item[0].start)
        rows, error = not_written[0]
        cause: Exception = error
        if self._raised_by_input is not None and len(not_written) == 1:
            cause = self._raised_by_input
        is_the_caller_s = isinstance(cause, InvalidArgumentError | ClosedError) or not isinstance(cause, RowlockError)
        if is_the_caller_s and not self._applied and not self._unknown:
            raise cause
        told = "were not written" if not self._unknown else "may or may not have been written"
        why = str(error)
        if isinstance(error, UnknownOutcomeError) and error.reason:
            why = f"{error.reason}. Read them to find out."
        raise BulkError(
            f"{self.row_count} rows were written; rows {rows.start} to {rows.stop - 1} {told}: {why}",
            applied=self._applied,
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
            # Which of its rows went where nobody keeps: of each one it is not known.
            self._unknown.append((portion.rows, portion.error))
        else:
            self._failed.append((portion.rows, portion.error))
