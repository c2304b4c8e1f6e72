"""What can go wrong in a region server, each with its evidence and whether a retry can help.

RegionServerError
├── InvalidRequestError        the request is wrong; nothing was changed
│   ├── LimitExceededError         a row, qualifier, cell, request or timestamp is beyond its limit
│   ├── NotACounterError           an increment met a cell that is not 8 bytes
│   ├── CounterOverflowError       an increment would leave 64 signed bits
│   └── FilterTypeError            a stored value does not fit the type a filter reads it as
├── TableNotFoundError
├── TableExistsError
├── FamilyNotFoundError
├── NotServingRegionError      look the region up again
├── RegionTooBusyError         memory, log or a queue is at its bound; try again
│   ├── DiskFullError              writes are refused, reads go on
│   └── TooManyOpenFilesError      the process has no descriptor left; try again
├── DeadlineError              given up before anything was changed
├── UnknownOutcomeError        the change may or may not have happened
├── CorruptionError            bytes on disk or wire are not what was written
├── LeaseExpiredError          a scan waited too long, or the server started anew
├── SnapshotEndedError         the snapshot is not there, or not any more
├── StoppingError              the server is going down
├── RecoveringError            the server has not finished reading its log yet
├── AnotherFolderError         the client means the server of another data folder
└── DataFolderError            the folder can't be used: another version, read-only, not ours
    └── FolderInUseError           another process serves it
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Self

# A request can fail in each of 100,000 rows, so what an error says is bounded, whatever it quotes.
MESSAGE_CHARACTERS_MAX = 1000
_LISTED_CHARACTERS_MAX = 200


class RegionServerError(Exception):
    """Base of all; `message` is one sentence: what, where, and what to do. The middle of a long one is left out."""

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
        """The same error, fit to be kept as a value beside others.

        The frames that it came through hold the request, and often the very place where the error is kept: it would
        live, and the request with it, until the cyclic collector comes by.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class InvalidRequestError(RegionServerError):
    """The caller's mistake; nothing was changed."""


class LimitExceededError(InvalidRequestError):
    """`found` is beyond `limit_value`, the configured value of `limit`."""

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


class NotACounterError(InvalidRequestError):
    """An increment met a cell that is not 8 bytes."""


class CounterOverflowError(InvalidRequestError):
    """An increment would leave 64 signed bits."""


class FilterTypeError(InvalidRequestError):
    """A stored value or an operand does not fit the type that a filter reads it as."""


class TableNotFoundError(RegionServerError):
    """No table of that name."""


class TableExistsError(RegionServerError):
    """There is a table of that name."""


class FamilyNotFoundError(RegionServerError):
    """The table has no such column family."""


class NotServingRegionError(RegionServerError):
    """This server does not have the region; look it up again."""

    can_retry = True


class RegionTooBusyError(RegionServerError):
    """Memory, log or a queue is at its bound; nothing was changed, try again after `retry_after_ms`."""

    can_retry = True


class DiskFullError(RegionTooBusyError):
    """No space for the log: writes are refused, reads go on, and writes go on by themselves when there is space."""


class TooManyOpenFilesError(RegionTooBusyError):
    """The process, or the system, has no file descriptor left; nothing was changed, try again."""


class DeadlineError(RegionServerError):
    """Given up before anything was changed."""

    can_retry = True


class UnknownOutcomeError(RegionServerError):
    """The change may or may not have happened."""


class CorruptionError(RegionServerError):
    """Bytes are not what was written: `path` at `offset`, `expected` and `found`."""

    def __init__(
        self,
        path: Path | str,
        offset: int,
        expected: str,
        found: str,
        *,
        what_to_do: str = "stop the server and run 'rowlock-server verify' on its folder",
    ) -> None:
        super().__init__(
            f"{path} is damaged at byte {offset}: expected {expected}, found {found}. "
            f"Nothing of it is served; {what_to_do}."
        )
        self.path = Path(path)
        self.offset = offset
        self.expected = expected
        self.found = found

    @classmethod
    def missing(cls, path: Path | str, expected: str, found: str) -> CorruptionError:
        """For a file or folder that is not there or can't be read, which can perhaps be mended."""
        return cls(
            path,
            0,
            expected,
            found,
            what_to_do="put it back, or make it readable for this user, and start the server again; "
            "'rowlock-server salvage' writes out what is whole",
        )

    @classmethod
    def of(cls, error: OSError, path: Path) -> CorruptionError:
        """What the system said of the file at `path`, or of one that it names itself."""
        return cls.missing(error.filename or path, "a readable file", error.strerror or str(error))


class LeaseExpiredError(RegionServerError):
    """A scan waited too long for its caller, or the server started anew."""


class SnapshotEndedError(RegionServerError):
    """The snapshot is not there, or not any more; nothing else is read in its place."""


class StoppingError(RegionServerError):
    """The server is going down; nothing was changed."""

    can_retry = True


class RecoveringError(RegionServerError):
    """The server has not finished reading its log yet; nothing was changed."""

    can_retry = True


class AnotherFolderError(RegionServerError):
    """The call was meant for the server of another data folder; nothing was changed."""

    can_retry = True


class DataFolderError(RegionServerError):
    """The data folder can't be used as it is; the message says why and what to do."""


class FolderInUseError(DataFolderError):
    """Another process serves the data folder."""


def shortened(message: str) -> str:
    """The message, with its beginning and its end, which has the advice, if it is too long as a whole."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    half = MESSAGE_CHARACTERS_MAX // 2 - 3
    return f"{message[:half]} ... {message[-half:]}"


def listed(names: Collection[bytes]) -> str:
    """The first names, as many as fit an error message, and how many more there are."""
    shown: list[str] = []
    characters = 0
    for name in names:
        text = name.decode("utf-8", "backslashreplace")
        characters += len(text) + 2
        if shown and characters > _LISTED_CHARACTERS_MAX:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown)
