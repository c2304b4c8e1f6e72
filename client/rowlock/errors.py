"""What can go wrong for a client, each with its evidence and whether a retry can help.

RowlockError
├── InvalidArgumentError       the call is wrong; nothing was changed                        (a ValueError)
│   ├── LimitExceededError         a row, qualifier, cell, request or timestamp is beyond its limit
│   ├── NotACounterError           an increment met a cell that is not 8 bytes
│   ├── CounterOverflowError       an increment would leave 64 signed bits
│   ├── FilterTypeError            a stored value or an operand does not fit the type a filter reads it as
│   └── MappingError               a mapping is malformed, or a value does not fit it
├── TableNotFoundError
├── TableExistsError
├── FamilyNotFoundError
├── NotServingRegionError      the region moved or the table was made anew; looked up again before it is raised
│   └── AnotherFolderError         at the address is the server of another data folder
├── RegionTooBusyError         memory, log or a queue of the server is at its bound; nothing was changed
│   └── DiskFullError              writes are refused, reads go on
├── DeadlineError              given up in time; nothing was changed                         (a TimeoutError)
├── ServerUnavailableError     no server answers at the address                              (a ConnectionError)
│   ├── ServerStoppingError        the server is going down; nothing was changed
│   └── ServerRecoveringError      the server has not finished reading its log yet; nothing was changed
├── UnknownOutcomeError        the change may or may not have happened
├── CorruptionError            the server found damage; what it says can't be read
├── LeaseExpiredError          a strict scan lost its read point
├── SnapshotEndedError         the snapshot is not there any more; make a new one
├── ServerError                the server failed in a way that it does not know; a bug
├── BatchError                 some rows of a batch were not changed, or it is not known
├── BulkError                  some rows of a put_arrow were not written, or it is not known
├── EmbeddedServerError        the private server of rowlock.open could not be started
└── ClosedError                the client was closed

Every error of a single change but UnknownOutcomeError promises that nothing was changed. A check that
was not met is not an error. Retries that can help were already made when one of these is raised: `can_retry` says
whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RowlockError(Exception):
    """Base of all; the message is one sentence: what, where, and what to do. Evidence that is not known is empty."""

    can_retry: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        table: str = "",
        row: bytes = b"",
        family: bytes = b"",
        qualifier: bytes = b"",
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.row = row
        self.family = family
        self.qualifier = qualifier
        self.retry_after_ms = retry_after_ms

    @property
    def column(self) -> bytes:
        """`family:qualifier` when the error concerns one column, else empty."""
        return self.family + b":" + self.qualifier if self.family else b""

    def __str__(self) -> str:
        # OSError's own __str__ would look for errno.
        return self.message


class InvalidArgumentError(RowlockError, ValueError):
    """The call is wrong; nothing was changed."""


class LimitExceededError(InvalidArgumentError):
    """`found` is beyond `limit_value`, the server's value of `limit` (bytes, or milliseconds for timestamps)."""

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
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(
            message, table=table, row=row, family=family, qualifier=qualifier, retry_after_ms=retry_after_ms
        )
        self.limit = limit
        self.limit_value = limit_value
        self.found = found


class NotACounterError(InvalidArgumentError):
    """An increment, or `counter`, met a cell that is not 8 bytes."""


class CounterOverflowError(InvalidArgumentError):
    """An increment would leave 64 signed bits."""


class FilterTypeError(InvalidArgumentError):
    """A stored value or an operand does not fit the type that a filter reads it as."""


class MappingError(InvalidArgumentError):
    """A mapping is malformed, or a value does not fit what it says."""


class TableNotFoundError(RowlockError):
    """No table of that name."""


class TableExistsError(RowlockError):
    """There is a table of that name."""


class FamilyNotFoundError(RowlockError):
    """The table has no such column family."""


class NotServingRegionError(RowlockError):
    """No server had the region until the deadline, though it was looked up again; nothing was changed."""

    can_retry = True


class AnotherFolderError(NotServingRegionError):
    """The server has another data folder than before, or than the one that was opened; nothing was changed."""


class RegionTooBusyError(RowlockError):
    """Memory, log or a queue of the server stayed at its bound until the deadline; nothing was changed."""

    can_retry = True


class DiskFullError(RegionTooBusyError):
    """The server has no space: writes are refused, reads go on, and writes go on by themselves when there is space."""


class DeadlineError(RowlockError, TimeoutError):
    """Given up in time; of a change: nothing was changed."""

    can_retry = True


class ServerUnavailableError(RowlockError, ConnectionError):
    """No server answers at the address, or the connection was lost.

    never_left: there was no connection to begin with, or the server let nothing in: surely nothing was begun.
    """

    can_retry = True
    never_left = False


class ServerStoppingError(ServerUnavailableError):
    """The server is going down; nothing was changed."""


class ServerRecoveringError(ServerUnavailableError):
    """The server has not finished reading its log yet; nothing was changed."""

    never_left = True


class UnknownOutcomeError(RowlockError):
    """The change was sent, and no answer came: it may or may not have happened.

    `__cause__` is what was met last. To find out, read the row. reason: why it is not known, without an advice; empty
    where the server says that it is not known.
    """

    reason: str = ""


class CorruptionError(RowlockError):
    """The server found bytes that are not what was written, and serves nothing of them."""


class LeaseExpiredError(RowlockError):
    """A strict scan lost its read point: it waited too long for its caller, or the server went away."""


class SnapshotEndedError(RowlockError):
    """The snapshot is not there any more: it was ended, not used for its lease, or its table or server went away.

    Make a new one, and begin anew what was read by it.
    """


class ServerError(RowlockError):
    """The server failed in a way that it does not know: a bug. Of a change see UnknownOutcomeError."""


class BatchError(RowlockError):
    """Some rows of one send of a batch were not changed, or it is not known whether they were.

    applied: rows that were changed by this send.
    failed:  (row, error) of those that surely were not.
    unknown: (row, error) of those that may or may not have been.
    All sends before this one were applied whole; what comes after it was never sent.
    """

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
    """Some rows of a put_arrow were not written, or it is not known whether they were.

    Ranges are half-open, of row numbers of the input counted from 0 over all its batches.
    applied: ranges that were written.
    failed:  (range, error) of those that surely were not.
    unknown: (range, error) of those that may or may not have been.
    Rows after all of these were never sent.
    """

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


class EmbeddedServerError(RowlockError):
    """The private server of `rowlock.open` could not be started; the message ends with its last words."""


class ClosedError(RowlockError):
    """The client was closed."""
