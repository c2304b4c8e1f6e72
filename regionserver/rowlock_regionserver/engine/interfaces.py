"""The interfaces of admission: to front ends, which pass requests and send answers, and to regions.

A front end parses only enough of a request to distinguish a get from a change. The request becomes plain values when
the engine calls `read`: a refused request is never read, and a worker reads a long one. The engine passes cells,
outcomes and errors to the request, which encodes them in the thread that made them. The responder gets encoded answers.
The engine counts their bytes, because the memory of answers is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.operations import (
    AnswerCell,
    ProcedureCall,
    RequestId,
    RowMutation,
    RowOutcome,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.procedures.runner import Runner
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sessions.session import SessionRef
from rowlock_regionserver.sources import Reading


class Request(Protocol):
    """A request as it was received. One thread at a time uses it."""

    @property
    def region_id(self) -> int: ...

    @property
    def timeout_ms(self) -> int:
        """How long the request may wait for a worker; 0: the server's default."""

    def byte_count(self) -> int:
        """The size of the request as it was received."""

    def row_count(self) -> int:
        """The number of rows in the request."""

    def failure(self, error: BaseException, doing: str) -> bytes:
        """The encoded answer of a request that failed as a whole. `doing` describes an unexpected error in the log."""


class GetRequest(Request, Protocol):
    """A read of some rows."""

    def read(self, rows_max: int | None = None) -> tuple[Sequence[bytes], Selection] | None:
        """Returns the rows and the selection; None if it has more than `rows_max` rows.

        Raises a RegionServerError if the request is invalid.
        """

    def answer(self, rows: list[Sequence[AnswerCell]]) -> bytes:
        """Encodes the answer. May clear `rows`, so that a large answer is in memory twice and not three times."""


@dataclass(frozen=True, slots=True)
class ScanToOpen:
    """A scan that a request opens, and how its answers are encoded, given the read point."""

    plan: ScanPlan
    encode: Callable[[ScanAnswer, int], EncodedMessage]
    snapshot_id: bytes
    session: SessionRef | None
    owner: str


class OpenScanRequest(Request, Protocol):
    """Opens a scan; or ends `held_scan`, if that is not 0."""

    @property
    def held_scan(self) -> int: ...

    def read(self) -> ScanToOpen:
        """Raises a RegionServerError if the request is invalid."""

    def answer(self, batches: Sequence[bytes], read_point: int, held_scan: int) -> bytes:
        """Encodes the answer with the encoded first answers of the scan. `held_scan`: 0 if it is complete."""


class ChangeRequest(Request, Protocol):
    """Changes of some rows, each of which succeeds or fails on its own."""

    def read(self, rows_max: int | None = None, parts_max: int | None = None) -> Sequence[RowMutation] | None:
        """Returns the mutations without invalid ones, whose errors `answer` adds.

        Returns None if there are more than `rows_max`, or many more than `parts_max` changes and checks in them. Raises
        a RegionServerError if the request as a whole is invalid. The second call is cheap.
        """

    def plain_change(self) -> RowMutation | None:
        """The mutation if it is the only one, is valid, and is a few puts and increments alone; else None."""

    def durability(self) -> Durability | None:
        """None: the table's. Raises InvalidRequestError for an unknown one, never if `plain_change` is a mutation."""

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        """Encodes the answer, given the outcomes of the mutations of `read` or `plain_change`, in their order."""


class PutRowsRequest(Request, Protocol):
    """Puts of many rows in columns, each of which succeeds or fails on its own. A worker executes it."""

    def read(self) -> tuple[PutBatch, Durability | None]:
        """Returns the rows, and the durability, or None for the table's.

        Raises a RegionServerError if the request is invalid.
        """

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        """Encodes the answer, given the outcome of each row, in order."""


class CallRequest(Request, Protocol):
    """The call of a row procedure. A worker executes it."""

    @property
    def name(self) -> str:
        """The procedure's name."""

    def read(self) -> tuple[ProcedureCall, Durability | None]:
        """Returns the call, and the durability, or None for the table's.

        Raises a RegionServerError if the request is invalid.
        """

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        """Encodes the answer, given the only outcome."""


class Responder(Protocol):
    """Sends the answers of one caller."""

    @property
    def is_gone(self) -> bool:
        """The caller has disconnected: no more of its requests need begin. Read from any thread."""

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that wait to be sent, reserved ones included. Read from any thread."""

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        """Counts an answer of a worker. Returns False, with `must_fit`, if it doesn't fit. From any thread."""

    def release(self, byte_count: int) -> None:
        """Ends a reservation, because the answer is sent next; on the loop."""

    def send(self, answer: bytes, count: int = 1) -> None:
        """Sends the encoded answers of `count` requests; on the loop, once for each request."""


class PointRegion(Protocol):
    """A region as point operations see it. Thread-safe."""

    @property
    def table_name(self) -> str: ...

    def get(
        self, rows: Sequence[bytes], selection: Selection, *, may_wait: bool, reached: Callable[[int], None]
    ) -> list[Sequence[AnswerCell]] | None:
        """Returns the rows' cells, in the order of `rows`; None if it would take long and may not wait.

        Calls `reached` after each row with the bytes read so far; `reached` may raise.
        """

    def mutate(
        self,
        mutations: Sequence[RowMutation],
        options: WriteOptions,
        done: Callable[[list[RowOutcome]], None],
        *,
        may_wait: bool,
    ) -> bool:
        """Makes the changes and calls `done` once, from any thread. False: it would have to wait and may not."""

    def mutate_each(
        self,
        mutations: Sequence[RowMutation],
        options: WriteOptions,
        done: Callable[[list[int], list[RowOutcome]], None],
    ) -> bool:
        """Makes changes of several requests; never waits. False: it would have to wait, and nothing was done.

        Calls `done`, from any thread, with the indices of some mutations and their outcomes, until each has its own.
        """

    def put_rows(self, batch: PutBatch, options: WriteOptions, done: Callable[[list[RowOutcome]], None]) -> None:
        """Makes the puts and calls `done` once, from any thread. Blocks."""

    def call(
        self, call: ProcedureCall, runner: Runner, options: WriteOptions, done: Callable[[list[RowOutcome]], None]
    ) -> None:
        """Calls a row procedure and calls `done` once with its outcome, from any thread. Blocks."""


class ScanAnswers(Protocol):
    """The answers of an open scan."""

    @property
    def bytes_held(self) -> int:
        """Memory held for the answers to come. From any thread."""

    @property
    def bytes_pending(self) -> int:
        """Bytes of rows that were found and not answered yet. For `is_slice_over`."""

    @property
    def is_at_end(self) -> bool:
        """Whether it is known that no answer follows the last one."""

    def __next__(self) -> ScanAnswer:
        """The next answer; blocks."""


class ScannedRegion(Protocol):
    """A region as scans see it."""

    def scan(
        self, plan: ScanPlan, *, is_slice_over: Callable[[], bool], reading: Callable[[], Reading]
    ) -> AbstractContextManager[tuple[int, ScanAnswers]]:
        """Returns a context with the read point and the answers, for worker threads. Leaving it closes the read point.

        Entering it and its answers block. The scan calls `is_slice_over` after each window; when that returns True, it
        yields an answer at once, with or without rows. While `reading` returns AT_ONCE nothing here blocks, and an
        answer may raise WouldWaitError.
        """


class BulkRequest(Protocol):
    """One batch of a bulk stream. A worker thread uses it."""

    @property
    def region_id(self) -> int: ...

    @property
    def session(self) -> SessionRef | None:
        """The session for whose bulk write the batch is staged; None: it is applied."""

    def read(self) -> tuple[BulkBatch, RequestId | None, Durability | None]:
        """The cells or rows, the request id, and the durability, or None for the table's.

        Raises a RegionServerError if the batch makes no sense.
        """


# A bulk batch as it was received.
BatchBytes: TypeAlias = bytes | bytearray | memoryview


class BulkCodec(Protocol):
    """How a front end encodes bulk batches and their answers."""

    def parse(self, data: BatchBytes) -> BulkRequest:
        """The batch as it came. Raises InvalidRequestError if the bytes are not a batch, which ends the stream."""

    def answer(self, outcome: BulkOutcome | Exception) -> bytes:
        """The encoded answer. From any thread."""


class BulkRegion(Protocol):
    """A region as bulk streams see it. Thread-safe."""

    def bulk_put(
        self,
        batch: BulkBatch,
        request: RequestId | None,
        options: WriteOptions,
        done: Callable[[BulkOutcome], None],
    ) -> None:
        """Blocks up to APPLY. Calls `done` once, from any thread, when the batch is published."""
