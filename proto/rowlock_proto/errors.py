"""The table of errors: for each, its code and gRPC status and its classes in the server and in the client.

Both exception trees and both code maps come from this table. `make errors` writes the classes and the drawn trees into
client/rowlock/errors.py and regionserver/rowlock_regionserver/errors.py. The client's _codec/wire_errors.py and the
server's rpc/messages/failures.py build their maps from it when they are imported.

To add an error, add a row and run `make errors`. An error with a code also needs a line in `Error.Code` and one in the
table above it, both in v1/types.proto; then `make proto` generates all of it.

A class with its own attributes is written by hand in its `errors.py`, outside the generated part, or imported there.
It also has a row, because the drawn tree and the maps need it. A test compares the class with the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """The code of an error in messages, and the gRPC status of a call that ends with it."""

    name: str  # in Error.Code
    status: str  # in grpc.StatusCode


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """One exception class of one side."""

    name: str
    parents: str  # as in the class statement; the parent in the tree comes first
    summary: str = ""  # in place of the row's
    details: str = ""  # the rest of the docstring


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One error. A class without a code is sent with the code of its parent."""

    summary: str  # the first line of the docstring, which the drawn tree shows too
    code: Code | None = None
    can_retry: bool = False
    server: ErrorClass | None = None
    client: ErrorClass | None = None


# In the order of the drawn trees, each parent before its children.
ERRORS: Sequence[ErrorRow] = (
    ErrorRow("Base of all errors of the client.", client=ErrorClass("RowlockError", "Exception")),
    ErrorRow(
        "Base of all errors of the region server.",
        code=Code("INTERNAL", "INTERNAL"),
        server=ErrorClass("RegionServerError", "Exception"),
        client=ErrorClass(
            "ServerError",
            "RowlockError",
            "The server failed unexpectedly or sent a malformed answer: a bug.",
            "The outcome of a change is unknown then; see UnknownOutcomeError.",
        ),
    ),
    ErrorRow(
        "The request is invalid; nothing was changed.",
        code=Code("INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        server=ErrorClass("InvalidRequestError", "RegionServerError"),
        client=ErrorClass(
            "InvalidArgumentError", "RowlockError, ValueError", "The call is invalid; nothing was changed."
        ),
    ),
    ErrorRow(
        "A row, qualifier, cell, request or timestamp exceeds its limit.",
        code=Code("LIMIT_EXCEEDED", "INVALID_ARGUMENT"),
        server=ErrorClass("LimitExceededError", "InvalidRequestError"),
        client=ErrorClass("LimitExceededError", "InvalidArgumentError"),
    ),
    ErrorRow(
        "An increment found a value that is not 8 bytes long.",
        code=Code("NOT_A_COUNTER", "FAILED_PRECONDITION"),
        server=ErrorClass("NotACounterError", "InvalidRequestError"),
        client=ErrorClass(
            "NotACounterError",
            "InvalidArgumentError",
            "An increment, or `counter`, found a value that is not 8 bytes long.",
        ),
    ),
    ErrorRow(
        "An increment would overflow a signed 64-bit integer.",
        code=Code("COUNTER_OVERFLOW", "OUT_OF_RANGE"),
        server=ErrorClass("CounterOverflowError", "InvalidRequestError"),
        client=ErrorClass("CounterOverflowError", "InvalidArgumentError"),
    ),
    ErrorRow(
        "A stored value or an operand does not fit the type that a filter compares.",
        code=Code("FILTER_TYPE_MISMATCH", "FAILED_PRECONDITION"),
        server=ErrorClass("FilterTypeError", "InvalidRequestError"),
        client=ErrorClass("FilterTypeError", "InvalidArgumentError"),
    ),
    ErrorRow(
        "A mapping is malformed, or a value does not fit it.",
        client=ErrorClass("MappingError", "InvalidArgumentError"),
    ),
    ErrorRow(
        "No table has this name.",
        code=Code("TABLE_NOT_FOUND", "NOT_FOUND"),
        server=ErrorClass("TableNotFoundError", "RegionServerError"),
        client=ErrorClass("TableNotFoundError", "RowlockError"),
    ),
    ErrorRow(
        "A table with this name already exists.",
        code=Code("TABLE_EXISTS", "ALREADY_EXISTS"),
        server=ErrorClass("TableExistsError", "RegionServerError"),
        client=ErrorClass("TableExistsError", "RowlockError"),
    ),
    ErrorRow(
        "The table has no such column family.",
        code=Code("FAMILY_NOT_FOUND", "NOT_FOUND"),
        server=ErrorClass("FamilyNotFoundError", "RegionServerError"),
        client=ErrorClass("FamilyNotFoundError", "RowlockError"),
    ),
    ErrorRow(
        "This server does not serve the region; look it up again.",
        code=Code("NOT_SERVING_REGION", "ABORTED"),
        can_retry=True,
        server=ErrorClass("NotServingRegionError", "RegionServerError"),
        client=ErrorClass(
            "NotServingRegionError",
            "RowlockError",
            "No server had the region before the deadline; nothing was changed.",
            "The client looked the region up again before it raised this error.",
        ),
    ),
    ErrorRow(
        "The server serves another data folder; nothing was changed.",
        code=Code("ANOTHER_DATA_FOLDER", "ABORTED"),
        can_retry=True,
        server=ErrorClass(
            "AnotherFolderError", "RegionServerError", "The call names another data folder; nothing was changed."
        ),
        client=ErrorClass(
            "AnotherFolderError",
            "NotServingRegionError",
            details="It served a different folder before, or `rowlock.open` was given a different one.",
        ),
    ),
    ErrorRow(
        "Memory, the log or a queue is full; nothing was changed.",
        code=Code("REGION_TOO_BUSY", "RESOURCE_EXHAUSTED"),
        can_retry=True,
        server=ErrorClass("RegionTooBusyError", "RegionServerError", details="Retry after `retry_after_ms`."),
        client=ErrorClass(
            "RegionTooBusyError",
            "RowlockError",
            "The server's memory, log or a queue stayed full until the deadline; nothing was changed.",
        ),
    ),
    ErrorRow(
        "The server's disk is full: writes fail until space is free; reads still work.",
        code=Code("DISK_FULL", "RESOURCE_EXHAUSTED"),
        can_retry=True,
        server=ErrorClass("DiskFullError", "RegionTooBusyError"),
        client=ErrorClass("DiskFullError", "RegionTooBusyError"),
    ),
    ErrorRow(
        "The process or the system has no file descriptor left; nothing was changed.",
        can_retry=True,
        server=ErrorClass("TooManyOpenFilesError", "RegionTooBusyError"),
    ),
    ErrorRow(
        "The process lacks memory or address space; nothing was changed.",
        can_retry=True,
        server=ErrorClass("OutOfMemoryError", "RegionTooBusyError"),
    ),
    ErrorRow(
        "Timed out; nothing was changed.",
        code=Code("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
        can_retry=True,
        server=ErrorClass("DeadlineError", "RegionServerError"),
        client=ErrorClass("DeadlineError", "RowlockError, TimeoutError"),
    ),
    ErrorRow(
        "No server answers at the address, or the connection was lost.",
        can_retry=True,
        client=ErrorClass("ServerUnavailableError", "RowlockError, ConnectionError"),
    ),
    ErrorRow(
        "The server is shutting down; nothing was changed.",
        code=Code("SERVER_STOPPING", "UNAVAILABLE"),
        can_retry=True,
        server=ErrorClass("StoppingError", "RegionServerError"),
        client=ErrorClass("ServerStoppingError", "ServerUnavailableError"),
    ),
    ErrorRow(
        "The server is still replaying its log; nothing was changed.",
        code=Code("SERVER_RECOVERING", "UNAVAILABLE"),
        can_retry=True,
        server=ErrorClass("RecoveringError", "RegionServerError"),
        client=ErrorClass("ServerRecoveringError", "ServerUnavailableError"),
    ),
    ErrorRow(
        "The change may or may not have been made.",
        code=Code("UNKNOWN_OUTCOME", "UNKNOWN"),
        server=ErrorClass("UnknownOutcomeError", "RegionServerError"),
        client=ErrorClass("UnknownOutcomeError", "RowlockError"),
    ),
    ErrorRow(
        "Stored bytes are not what was written.",
        code=Code("CORRUPTION", "DATA_LOSS"),
        server=ErrorClass("CorruptionError", "RegionServerError"),
        client=ErrorClass("CorruptionError", "RowlockError", "The server found damaged data and serves none of it."),
    ),
    ErrorRow(
        "The client did not take a scan's next batch in time.",
        code=Code("LEASE_EXPIRED", "ABORTED"),
        server=ErrorClass("LeaseExpiredError", "RegionServerError"),
        client=ErrorClass(
            "LeaseExpiredError",
            "RowlockError",
            "A strict scan lost its read point: its caller was too slow, or the server was lost.",
        ),
    ),
    ErrorRow(
        "The snapshot has ended, or never existed.",
        code=Code("SNAPSHOT_ENDED", "ABORTED"),
        server=ErrorClass("SnapshotEndedError", "RegionServerError"),
        client=ErrorClass(
            "SnapshotEndedError",
            "RowlockError",
            "The snapshot has ended; make a new one.",
        ),
    ),
    ErrorRow(
        "No named snapshot has this name.",
        code=Code("SNAPSHOT_NOT_FOUND", "NOT_FOUND"),
        server=ErrorClass("SnapshotNotFoundError", "RegionServerError"),
        client=ErrorClass("SnapshotNotFoundError", "RowlockError"),
    ),
    ErrorRow(
        "A named snapshot with this name already exists.",
        code=Code("SNAPSHOT_EXISTS", "ALREADY_EXISTS"),
        server=ErrorClass("SnapshotExistsError", "RegionServerError"),
        client=ErrorClass("SnapshotExistsError", "RowlockError"),
    ),
    ErrorRow(
        "The session has ended, or never existed.",
        code=Code("SESSION_ENDED", "ABORTED"),
        server=ErrorClass("SessionEndedError", "RegionServerError"),
        client=ErrorClass("SessionEndedError", "RowlockError"),
    ),
    ErrorRow(
        "Others hold the lock; nothing was changed.",
        code=Code("LOCK_UNAVAILABLE", "ABORTED"),
        can_retry=True,
        server=ErrorClass("LockUnavailableError", "RegionServerError"),
        client=ErrorClass("LockUnavailableError", "RowlockError"),
    ),
    ErrorRow(
        "Open sessions use the table; nothing was changed.",
        code=Code("TABLE_IN_USE", "FAILED_PRECONDITION"),
        server=ErrorClass("TableInUseError", "RegionServerError"),
        client=ErrorClass("TableInUseError", "RowlockError"),
    ),
    ErrorRow(
        "Rows have changed since the snapshot; nothing was written.",
        code=Code("CONFLICT", "ABORTED"),
        server=ErrorClass("ConflictError", "RegionServerError"),
        client=ErrorClass("ConflictError", "RowlockError"),
    ),
    ErrorRow(
        "The server has no row procedure of this name; nothing was changed.",
        code=Code("PROCEDURE_NOT_FOUND", "NOT_FOUND"),
        server=ErrorClass("ProcedureNotFoundError", "RegionServerError"),
        client=ErrorClass("ProcedureNotFoundError", "RowlockError"),
    ),
    ErrorRow(
        "A row procedure raised an error or went beyond its limits; nothing was changed.",
        code=Code("PROCEDURE_FAILED", "FAILED_PRECONDITION"),
        server=ErrorClass("ProcedureFailedError", "RegionServerError"),
        client=ErrorClass("ProcedureFailedError", "RowlockError"),
    ),
    ErrorRow(
        "The changes after the offset are not retained any more, or not all of them.",
        code=Code("CHANGES_EXPIRED", "OUT_OF_RANGE"),
        server=ErrorClass("ChangesExpiredError", "RegionServerError"),
        client=ErrorClass("ChangesExpiredError", "RowlockError"),
    ),
    ErrorRow(
        "Some rows of a batch were not changed, or may not have been.",
        client=ErrorClass("BatchError", "RowlockError"),
    ),
    ErrorRow(
        "Some rows of a put_arrow were not written, or may not have been.",
        client=ErrorClass("BulkError", "RowlockError"),
    ),
    ErrorRow(
        "A delete_range deleted a part of its rows.",
        client=ErrorClass("PartlyDeletedError", "RowlockError"),
    ),
    ErrorRow(
        "A compaction that was waited for failed, or did not start.",
        client=ErrorClass("CompactionError", "RowlockError"),
    ),
    ErrorRow(
        "The private server of `rowlock.open` could not be started or reached.",
        client=ErrorClass(
            "EmbeddedServerError", "RowlockError", details="If it did not start, the message ends with its last output."
        ),
    ),
    ErrorRow("The client is closed.", client=ErrorClass("ClosedError", "RowlockError")),
    ErrorRow(
        "The data folder is unusable; the message says why and what to do.",
        server=ErrorClass("DataFolderError", "RegionServerError"),
    ),
    ErrorRow(
        "Another process serves the data folder.",
        server=ErrorClass("FolderInUseError", "DataFolderError"),
    ),
)
