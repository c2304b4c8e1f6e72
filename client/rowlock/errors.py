"""The exceptions of the client, each with its evidence and whether a retry can help.

RowlockError
├── ServerError                The server failed unexpectedly or sent a malformed answer: a bug
├── InvalidArgumentError       The call is invalid; nothing was changed (a ValueError)
│   ├── LimitExceededError     A row, qualifier, cell, request or timestamp exceeds its limit
│   ├── NotACounterError       An increment, or `counter`, found a value that is not 8 bytes long
│   ├── CounterOverflowError   An increment would overflow a signed 64-bit integer
│   ├── FilterTypeError        A stored value or an operand does not fit the type that a filter compares
│   └── MappingError           A mapping is malformed, or a value does not fit it
├── TableNotFoundError         No table has this name
├── TableExistsError           A table with this name already exists
├── FamilyNotFoundError        The table has no such column family
├── NotServingRegionError      No server had the region before the deadline; nothing was changed
│   └── AnotherFolderError     The server serves another data folder; nothing was changed
├── RegionTooBusyError         The server's memory, log or a queue stayed full until the deadline; nothing was changed
│   └── DiskFullError          The server's disk is full: writes fail until space is free; reads still work
├── DeadlineError              Timed out; nothing was changed (a TimeoutError)
├── ServerUnavailableError     No server answers at the address, or the connection was lost (a ConnectionError)
│   ├── ServerStoppingError    The server is shutting down; nothing was changed
│   └── ServerRecoveringError  The server is still replaying its log; nothing was changed
├── UnknownOutcomeError        The change may or may not have been made
├── CorruptionError            The server found damaged data and serves none of it
├── LeaseExpiredError          A strict scan lost its read point: its caller was too slow, or the server was lost
├── SnapshotEndedError         The snapshot has ended; make a new one
├── SnapshotNotFoundError      No named snapshot has this name
├── SnapshotExistsError        A named snapshot with this name already exists
├── SessionEndedError          The session has ended, or never existed
├── LockUnavailableError       Others hold the lock; nothing was changed
├── TableInUseError            Open sessions use the table; nothing was changed
├── ConflictError              Rows have changed since the snapshot; nothing was written
├── ProcedureNotFoundError     The server has no row procedure of this name; nothing was changed
├── ProcedureFailedError       A row procedure raised an error or went beyond its limits; nothing was changed
├── ChangesExpiredError        The changes after the offset are not retained any more, or not all of them
├── BatchError                 Some rows of a batch were not changed, or may not have been
├── BulkError                  Some rows of a put_arrow were not written, or may not have been
├── PartlyDeletedError         A delete_range deleted a part of its rows
├── CompactionError            A compaction that was waited for failed, or did not start
├── EmbeddedServerError        The private server of `rowlock.open` could not be started or reached
└── ClosedError                The client is closed

Every error of a single change promises that nothing was changed, except UnknownOutcomeError. An unmet condition is no
error. The client has already retried where that could help: `can_retry` says whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock._partial_errors import BatchError, BulkError, CompactionError, PartlyDeletedError
from rowlock._rowlock_error import RowlockError


class ServerUnavailableError(RowlockError, ConnectionError):
    """No server answers at the address, or the connection was lost.

    never_left: True if the request certainly had no effect: there was no connection, or the server admitted nothing.
    """

    can_retry = True
    never_left = False


# Generated from rowlock_proto/errors.py by `make errors`: edit the table.


__all__ = [
    "AnotherFolderError",
    "BatchError",
    "BulkError",
    "ChangesExpiredError",
    "ClosedError",
    "CompactionError",
    "ConflictError",
    "CorruptionError",
    "CounterOverflowError",
    "DeadlineError",
    "DiskFullError",
    "EmbeddedServerError",
    "FamilyNotFoundError",
    "FilterTypeError",
    "InvalidArgumentError",
    "LeaseExpiredError",
    "LimitExceededError",
    "LockUnavailableError",
    "MappingError",
    "NotACounterError",
    "NotServingRegionError",
    "PartlyDeletedError",
    "ProcedureFailedError",
    "ProcedureNotFoundError",
    "RegionTooBusyError",
    "RowlockError",
    "ServerError",
    "ServerRecoveringError",
    "ServerStoppingError",
    "ServerUnavailableError",
    "SessionEndedError",
    "SnapshotEndedError",
    "SnapshotExistsError",
    "SnapshotNotFoundError",
    "TableExistsError",
    "TableInUseError",
    "TableNotFoundError",
    "UnknownOutcomeError",
]


class ServerError(RowlockError):
    """The server failed unexpectedly or sent a malformed answer: a bug.

    The outcome of a change is unknown then; see UnknownOutcomeError.
    """


class InvalidArgumentError(RowlockError, ValueError):
    """The call is invalid; nothing was changed."""


class NotACounterError(InvalidArgumentError):
    """An increment, or `counter`, found a value that is not 8 bytes long."""


class CounterOverflowError(InvalidArgumentError):
    """An increment would overflow a signed 64-bit integer."""


class FilterTypeError(InvalidArgumentError):
    """A stored value or an operand does not fit the type that a filter compares."""


class MappingError(InvalidArgumentError):
    """A mapping is malformed, or a value does not fit it."""


class TableNotFoundError(RowlockError):
    """No table has this name."""


class TableExistsError(RowlockError):
    """A table with this name already exists."""


class FamilyNotFoundError(RowlockError):
    """The table has no such column family."""


class NotServingRegionError(RowlockError):
    """No server had the region before the deadline; nothing was changed.

    The client looked the region up again before it raised this error.
    """

    can_retry = True


class AnotherFolderError(NotServingRegionError):
    """The server serves another data folder; nothing was changed.

    It served a different folder before, or `rowlock.open` was given a different one.
    """


class RegionTooBusyError(RowlockError):
    """The server's memory, log or a queue stayed full until the deadline; nothing was changed."""

    can_retry = True


class DiskFullError(RegionTooBusyError):
    """The server's disk is full: writes fail until space is free; reads still work."""


class DeadlineError(RowlockError, TimeoutError):
    """Timed out; nothing was changed."""

    can_retry = True


class ServerStoppingError(ServerUnavailableError):
    """The server is shutting down; nothing was changed."""


class CorruptionError(RowlockError):
    """The server found damaged data and serves none of it."""


class LeaseExpiredError(RowlockError):
    """A strict scan lost its read point: its caller was too slow, or the server was lost."""


class SnapshotNotFoundError(RowlockError):
    """No named snapshot has this name."""


class SnapshotExistsError(RowlockError):
    """A named snapshot with this name already exists."""


class ProcedureNotFoundError(RowlockError):
    """The server has no row procedure of this name; nothing was changed."""


class ProcedureFailedError(RowlockError):
    """A row procedure raised an error or went beyond its limits; nothing was changed."""


class ChangesExpiredError(RowlockError):
    """The changes after the offset are not retained any more, or not all of them."""


class EmbeddedServerError(RowlockError):
    """The private server of `rowlock.open` could not be started or reached.

    If it did not start, the message ends with its last output.
    """


class ClosedError(RowlockError):
    """The client is closed."""


# End of the generated part.


class LimitExceededError(InvalidArgumentError):
    """A row, qualifier, cell, request or timestamp exceeds its limit.

    `found` exceeds `limit_value`, the server's value of `limit`, in bytes or, for timestamps, in milliseconds.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        limit_value: int = 0,
        found: int = 0,
        table: str = "",
        row: bytes = b"",
        family: bytes = b"",
        qualifier: bytes = b"",
    ) -> None:
        super().__init__(message, table=table, row=row, family=family, qualifier=qualifier)
        self.limit = limit
        self.limit_value = limit_value
        self.found = found


class ServerRecoveringError(ServerUnavailableError):
    """The server is still replaying its log; nothing was changed."""

    never_left = True


class UnknownOutcomeError(RowlockError):
    """The change may or may not have been made.

    It was sent and no answer came, or the server does not know the outcome. Read the row to find out. `__cause__` is
    the last error.

    reason: why the outcome is unknown, without advice; empty if the server reported it.
    """

    reason: str = ""


class _EndedError(RowlockError):
    """Base of the errors of a snapshot or session that has ended: when, and why."""

    def __init__(self, message: str, *, table: str = "", ended_ms: int = 0, reason: str = "") -> None:
        super().__init__(message, table=table)
        self.ended_ms = ended_ms
        self.reason = reason


class SnapshotEndedError(_EndedError):
    """The snapshot has ended; make a new one.

    It was ended, its lease expired, its table was dropped or truncated, or its server stopped. Repeat the reads with
    the new one. ended_ms, reason: when and why it ended, as those of SessionEndedError.
    """


class SessionEndedError(_EndedError):
    """The session has ended, or never existed.

    What it held is gone: locks, snapshots, scans, staged batches. ended_ms: when it ended, by the server's clock in
    milliseconds since the epoch; 0: unknown. reason: why, in words.
    """


class _HeldError(RowlockError):
    """Base of the errors of what sessions hold: their ids."""

    def __init__(self, message: str, *, table: str = "", holders: Sequence[str] = ()) -> None:
        super().__init__(message, table=table)
        self.holders = tuple(holders)


class LockUnavailableError(_HeldError):
    """Others hold the lock; nothing was changed.

    holders: the ids of the sessions that hold it, or wait for it before this request; perhaps not all of them.
    """

    can_retry = True


class TableInUseError(_HeldError):
    """Open sessions use the table; nothing was changed.

    holders: the ids of these sessions; perhaps not all of them.
    """


class ConflictError(RowlockError):
    """Rows have changed since the snapshot; nothing was written.

    rows: some of these rows, at most 100.
    """

    def __init__(self, message: str, *, table: str = "", rows: Sequence[bytes] = ()) -> None:
        super().__init__(message, table=table)
        self.rows = list(rows)
