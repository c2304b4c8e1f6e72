"""The exceptions of the region server, each with its evidence and whether a retry can help.

RegionServerError
├── InvalidRequestError        The request is invalid; nothing was changed
│   ├── LimitExceededError     A row, qualifier, cell, request or timestamp exceeds its limit
│   ├── NotACounterError       An increment found a value that is not 8 bytes long
│   ├── CounterOverflowError   An increment would overflow a signed 64-bit integer
│   └── FilterTypeError        A stored value or an operand does not fit the type that a filter compares
├── TableNotFoundError         No table has this name
├── TableExistsError           A table with this name already exists
├── FamilyNotFoundError        The table has no such column family
├── NotServingRegionError      This server does not serve the region; look it up again
├── AnotherFolderError         The call names another data folder; nothing was changed
├── RegionTooBusyError         Memory, the log or a queue is full; nothing was changed
│   ├── DiskFullError          The server's disk is full: writes fail until space is free; reads still work
│   ├── TooManyOpenFilesError  The process or the system has no file descriptor left; nothing was changed
│   └── OutOfMemoryError       The process lacks memory or address space; nothing was changed
├── DeadlineError              Timed out; nothing was changed
├── StoppingError              The server is shutting down; nothing was changed
├── RecoveringError            The server is still replaying its log; nothing was changed
├── UnknownOutcomeError        The change may or may not have been made
├── CorruptionError            Stored bytes are not what was written
├── LeaseExpiredError          The client did not take a scan's next batch in time
├── SnapshotEndedError         The snapshot has ended, or never existed
├── SnapshotNotFoundError      No named snapshot has this name
├── SnapshotExistsError        A named snapshot with this name already exists
├── SessionEndedError          The session has ended, or never existed
├── LockUnavailableError       Others hold the lock; nothing was changed
├── TableInUseError            Open sessions use the table; nothing was changed
├── ConflictError              Rows have changed since the snapshot; nothing was written
├── ProcedureNotFoundError     The server has no row procedure of this name; nothing was changed
├── ProcedureFailedError       A row procedure raised an error or went beyond its limits; nothing was changed
├── ChangesExpiredError        The changes after the offset are not retained any more, or not all of them
└── DataFolderError            The data folder is unusable; the message says why and what to do
    └── FolderInUseError       Another process serves the data folder
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Self

from rowlock_regionserver.system_errors import NO_RESOURCES

# A request can fail in each of 100,000 rows, so the length of a message is bounded, whatever it quotes.
MESSAGE_CHARACTERS_MAX = 1000
_LISTED_CHARACTERS_MAX = 200


class RegionServerError(Exception):
    """Base of all errors of the region server.

    `message` is one sentence: what failed, where, and what to do. A long one is cut in the middle.
    """

    can_retry: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        row: bytes = b"",
        table: str = "",
        family: bytes = b"",
        qualifier: bytes = b"",
        retry_after_ms: int = 0,
    ) -> None:
        message = shortened(message)
        super().__init__(message)
        self.message = message
        self.row = row
        self.table = table
        self.family = family
        self.qualifier = qualifier
        self.retry_after_ms = retry_after_ms

    def without_frames(self) -> Self:
        """Drops the traceback and the causes, so that this error can be stored, and returns it.

        The frames of a traceback hold the request, and often the very object that stores the error. Such a cycle would
        keep both alive until the cyclic garbage collector runs.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


# Generated from rowlock_proto/errors.py by `make errors`: edit the table.


class InvalidRequestError(RegionServerError):
    """The request is invalid; nothing was changed."""


class NotACounterError(InvalidRequestError):
    """An increment found a value that is not 8 bytes long."""


class CounterOverflowError(InvalidRequestError):
    """An increment would overflow a signed 64-bit integer."""


class FilterTypeError(InvalidRequestError):
    """A stored value or an operand does not fit the type that a filter compares."""


class TableNotFoundError(RegionServerError):
    """No table has this name."""


class TableExistsError(RegionServerError):
    """A table with this name already exists."""


class FamilyNotFoundError(RegionServerError):
    """The table has no such column family."""


class NotServingRegionError(RegionServerError):
    """This server does not serve the region; look it up again."""

    can_retry = True


class AnotherFolderError(RegionServerError):
    """The call names another data folder; nothing was changed."""

    can_retry = True


class RegionTooBusyError(RegionServerError):
    """Memory, the log or a queue is full; nothing was changed.

    Retry after `retry_after_ms`.
    """

    can_retry = True


class DiskFullError(RegionTooBusyError):
    """The server's disk is full: writes fail until space is free; reads still work."""


class TooManyOpenFilesError(RegionTooBusyError):
    """The process or the system has no file descriptor left; nothing was changed."""


class OutOfMemoryError(RegionTooBusyError):
    """The process lacks memory or address space; nothing was changed."""


class DeadlineError(RegionServerError):
    """Timed out; nothing was changed."""

    can_retry = True


class StoppingError(RegionServerError):
    """The server is shutting down; nothing was changed."""

    can_retry = True


class RecoveringError(RegionServerError):
    """The server is still replaying its log; nothing was changed."""

    can_retry = True


class UnknownOutcomeError(RegionServerError):
    """The change may or may not have been made."""


class LeaseExpiredError(RegionServerError):
    """The client did not take a scan's next batch in time."""


class SnapshotNotFoundError(RegionServerError):
    """No named snapshot has this name."""


class SnapshotExistsError(RegionServerError):
    """A named snapshot with this name already exists."""


class ProcedureNotFoundError(RegionServerError):
    """The server has no row procedure of this name; nothing was changed."""


class ProcedureFailedError(RegionServerError):
    """A row procedure raised an error or went beyond its limits; nothing was changed."""


class ChangesExpiredError(RegionServerError):
    """The changes after the offset are not retained any more, or not all of them."""


class DataFolderError(RegionServerError):
    """The data folder is unusable; the message says why and what to do."""


class FolderInUseError(DataFolderError):
    """Another process serves the data folder."""


# End of the generated part.


class LimitExceededError(InvalidRequestError):
    """A row, qualifier, cell, request or timestamp exceeds its limit.

    `found` exceeds `limit_value`, the configured value of `limit`.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        limit_value: int,
        found: int,
        row: bytes = b"",
        table: str = "",
        family: bytes = b"",
        qualifier: bytes = b"",
    ) -> None:
        super().__init__(message, row=row, table=table, family=family, qualifier=qualifier)
        self.limit = limit
        self.limit_value = limit_value
        self.found = found


class CorruptionError(RegionServerError):
    """Stored bytes are not what was written.

    The file is `path`, the place is the byte at `offset`; `expected` and `found` say what should be there and what is.
    `what_is_wrong` takes the place of these three in the message, for a file that can't be read.
    """

    def __init__(
        self,
        path: Path | str,
        offset: int,
        expected: str,
        found: str,
        *,
        what_to_do: str = "run 'rowlock-server verify' on the data folder, with the server stopped",
        what_is_wrong: str = "",
    ) -> None:
        what_is_wrong = what_is_wrong or f"is damaged at byte {offset}: expected {expected}, found {found}"
        super().__init__(f"{path} {what_is_wrong}. None of it is served; {what_to_do}.")
        self.path = Path(path)
        self.offset = offset
        self.expected = expected
        self.found = found

    @classmethod
    def missing(cls, path: Path | str, expected: str, found: str, what_is_wrong: str = "") -> CorruptionError:
        """For a file or folder that is missing or unreadable, which the operator may be able to restore."""
        return cls(
            path,
            0,
            expected,
            found,
            what_is_wrong=what_is_wrong,
            what_to_do="restore it, or make it readable for this user, and restart the server; "
            "'rowlock-server salvage' extracts the intact data",
        )

    @classmethod
    def of(cls, error: OSError, path: Path) -> CorruptionError:
        """For an OSError at `path`, or at the file that the error itself names. The message says that it is unreadable.

        Raises the error if the process or the machine lacks descriptors or memory: the file may be intact.
        """
        if error.errno in NO_RESOURCES:
            raise error
        reason = error.strerror or str(error)
        return cls.missing(error.filename or path, "a readable file", reason, f"can't be read: {reason}")


class _EndedError(RegionServerError):
    """Base of the errors of a snapshot or session that has ended: when, and why."""

    def __init__(self, message: str, *, table: str = "", ended_ms: int = 0, reason: str = "") -> None:
        super().__init__(message, table=table)
        self.ended_ms = ended_ms
        self.reason = reason


class SnapshotEndedError(_EndedError):
    """The snapshot has ended, or never existed.

    ended_ms: when it ended, by the server's clock in milliseconds since the epoch; 0: unknown. reason: why, in words.
    """


class SessionEndedError(_EndedError):
    """The session has ended, or never existed.

    What it held is gone: locks, snapshots, scans, staged batches. ended_ms: when it ended, by the server's clock in
    milliseconds since the epoch; 0: unknown. reason: why, in words.
    """


class _HeldError(RegionServerError):
    """Base of the errors of what sessions hold: their ids."""

    def __init__(self, message: str, *, table: str = "", holders: Collection[str] = ()) -> None:
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


class ConflictError(RegionServerError):
    """Rows have changed since the snapshot; nothing was written.

    rows: some of these rows, at most 100.
    """

    def __init__(self, message: str, *, table: str = "", rows: Collection[bytes] = ()) -> None:
        super().__init__(message, table=table)
        self.rows = list(rows)


def shortened(message: str) -> str:
    """The message, cut in the middle if it is too long: its end has the advice."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    half = MESSAGE_CHARACTERS_MAX // 2 - 3
    return f"{message[:half]} ... {message[-half:]}"


def listed(names: Collection[bytes]) -> str:
    """As many names as fit an error message, and how many more there are."""
    shown: list[str] = []
    characters = 0
    for name in names:
        text = name.decode("utf-8", "backslashreplace")
        characters += len(text) + 2
        if shown and characters > _LISTED_CHARACTERS_MAX:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown)
