"""The exceptions of calls that may have done a part of their work, which they say; errors.py has the others."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock._rowlock_error import RowlockError

# The module that tracebacks and pickles name.
_MODULE = "rowlock.errors"


class BatchError(RowlockError):
    """Some rows of a batch were not changed, or may not have been.

    A batch sends its rows in several requests. Those before the failed one were applied in full; those after it were
    never sent. Of the failed request:

    applied: rows that were changed.
    failed:  (row, error) of rows that were not changed.
    unknown: (row, error) of rows that may or may not have been changed.
    """

    __module__ = _MODULE

    def __init__(
        self,
        message: str,
        *,
        applied: Sequence[bytes] = (),
        failed: Sequence[tuple[bytes, RowlockError]] = (),
        unknown: Sequence[tuple[bytes, RowlockError]] = (),
        table: str = "",
    ) -> None:
        super().__init__(message, table=table)
        self.applied = list(applied)
        self.failed = list(failed)
        self.unknown = list(unknown)


class BulkError(RowlockError):
    """Some rows of a put_arrow were not written, or may not have been.

    Ranges are half-open. They hold row numbers of the input, counted from 0 across all its batches.

    applied: ranges that were written.
    failed:  (range, error) of ranges that were not written.
    unknown: (range, error) of ranges that may or may not have been written.

    Rows after all of these were never sent.
    """

    __module__ = _MODULE

    def __init__(
        self,
        message: str,
        *,
        applied: Sequence[range] = (),
        failed: Sequence[tuple[range, RowlockError]] = (),
        unknown: Sequence[tuple[range, RowlockError]] = (),
        table: str = "",
    ) -> None:
        super().__init__(message, table=table)
        self.applied = list(applied)
        self.failed = list(failed)
        self.unknown = list(unknown)


class PartlyDeletedError(RowlockError):
    """A delete_range deleted a part of its rows.

    The same call again deletes the others. `__cause__` is the error that ended this one.

    row_count: rows that were deleted. row: the first one that may still exist; all before it in the range are deleted.
    """

    __module__ = _MODULE

    def __init__(self, message: str, *, row_count: int = 0, row: bytes = b"", table: str = "") -> None:
        super().__init__(message, row=row, table=table)
        self.row_count = row_count


class CompactionError(RowlockError):
    """A compaction that was waited for failed, or did not start.

    The table is intact. ids: of the compactions that did not succeed; the message has the error of the first one.
    """

    __module__ = _MODULE

    def __init__(self, message: str, *, ids: Sequence[int] = (), table: str = "") -> None:
        super().__init__(message, table=table)
        self.ids = list(ids)
