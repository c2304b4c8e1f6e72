"""A region that waits on request, so that tests control each step of a request."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.slow_calls import SlowCalls
from rowlock_regionserver.errors import InvalidRequestError, NotServingRegionError, RegionTooBusyError
from rowlock_regionserver.operations import (
    AnswerCell,
    ProcedureCall,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.procedures.runner import Runner
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.bulk.row_batch import BulkBatch, RowBatch
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sources import Reading

from tests.waiting import WAIT_S

REGION_ID = 7
NEVER_SLOW = SlowCalls(lambda _: "", Config(slow_call_ms=0), Clock())
Done = Callable[[list[RowOutcome]], None]
DoneEach = Callable[[list[int], list[RowOutcome]], None]


class FakeRegion:
    """Answers rows that begin with b"slow" only from a thread that may wait, and then only when `gate` is open.

    Changes of rows that begin with b"later" are published when the test calls what is in `unpublished`; those that come
    with b"full" are refused. There is no memory for the later answer of rows that begin with b"later large".
    """

    table_name = "t"

    def __init__(self) -> None:
        self.neighbour: FakeRegion | None = None  # another region
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)  # released by each request that has begun to wait
        self.unpublished: list[Callable[[], None]] = []
        self.begun: list[bytes] = []  # rows, in the order in which their requests were made
        self.changed: list[list[RowMutation]] = []  # by each call
        self.alone: list[bytes] = []  # of these, the changes with `is_alone`
        self.value = b"v"
        self.timestamp = 5
        self.results: tuple[AnswerCell, ...] = ()  # of each change
        self.batches: list[Sequence[ScanAnswer]] = []
        self.open_scans = 0
        self.after_window: Callable[[int], None] = lambda _: None
        self.bulk_batches: list[BulkBatch] = []
        self.put_batches: list[PutBatch] = []
        self.put_threads: set[int] = set()  # that made them
        self.unpublished_bulk: list[Callable[[BulkOutcome], None]] = []

    def region(self, region_id: int) -> FakeRegion:
        if self.neighbour is not None and region_id == REGION_ID + 1:
            return self.neighbour
        if region_id != REGION_ID:
            raise NotServingRegionError(f"region {region_id} is not here")
        return self

    def _wait(self, row: bytes) -> None:
        if row.startswith(b"slow"):
            self.waiting.release()
            assert self.gate.wait(WAIT_S)

    def get(
        self, rows: Sequence[bytes], selection: Selection, *, may_wait: bool, reached: Callable[[int], None]
    ) -> list[Sequence[AnswerCell]] | None:
        if rows[0].startswith(b"slow") and not may_wait:
            return None
        self._wait(rows[0])
        self.begun.append(rows[0])
        if rows[0] == b"bug":
            raise ZeroDivisionError("a bug")
        if rows[0].endswith(b"large"):
            raise MemoryError
        reached(len(self.value) * len(rows))
        return [[(b"f", b"q", 1, self.value)] for _ in rows]

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        row = mutations[0].row if mutations else b""
        if row.startswith(b"slow") and not may_wait:
            return False
        self._wait(row)
        self._begin(mutations)
        self.begun.append(row)
        if options.is_alone:
            self.alone.append(row)
        outcomes: list[RowOutcome] = [RowResult(timestamp=self.timestamp, results=self.results) for _ in mutations]
        if row.startswith(b"later"):
            self.unpublished.append(lambda: done(outcomes))
        else:
            done(outcomes)
        return True

    def put_rows(self, batch: PutBatch, options: WriteOptions, done: Done) -> None:
        self.put_batches.append(batch)
        self.put_threads.add(threading.get_ident())
        self.mutate(batch.mutations(), options, done, may_wait=True)

    def call(self, call: ProcedureCall, runner: Runner, options: WriteOptions, done: Done) -> None:
        self._wait(call.row)
        self.begun.append(call.row)
        with runner.ready(call.name, options.deadline):
            done([RowResult(timestamp=self.timestamp, answer=self.value + call.argument)])

    def mutate_each(self, mutations: Sequence[RowMutation], options: WriteOptions, done: DoneEach) -> bool:
        if any(mutation.row.startswith(b"slow") for mutation in mutations):
            return False
        self._begin(mutations)
        self.begun += [mutation.row for mutation in mutations]
        outcomes = [self._outcome(place, mutation.row) for place, mutation in enumerate(mutations)]
        later = [place for place, mutation in enumerate(mutations) if mutation.row.startswith(b"later")]
        at_once = [place for place in range(len(mutations)) if place not in later]
        if at_once:
            done(at_once, [outcomes[place] for place in at_once])
        if any(mutation.row.startswith(b"later large") for mutation in mutations):
            raise MemoryError
        if later:
            self.unpublished.append(lambda: done(later, [outcomes[place] for place in later]))
        return True

    def _begin(self, mutations: Sequence[RowMutation]) -> None:
        rows = [mutation.row for mutation in mutations]
        if b"full" in rows:
            raise RegionTooBusyError("no room for it", retry_after_ms=1)
        self.changed.append(list(mutations))
        if b"bug" in rows:
            raise ZeroDivisionError("a bug")

    def _outcome(self, place: int, row: bytes) -> RowOutcome:
        if row == b"refused":
            return InvalidRequestError("a bad row")
        return RowResult(timestamp=self.timestamp + place, results=self.results)

    @property
    def changed_together(self) -> list[list[bytes]]:
        """The rows that each call changed."""
        return [[mutation.row for mutation in mutations] for mutations in self.changed]

    @contextmanager
    def scan(
        self, plan: ScanPlan, *, is_slice_over: Callable[[], bool], reading: Callable[[], Reading]
    ) -> Iterator[tuple[int, FakeAnswers]]:
        self.open_scans += 1
        try:
            yield 11, FakeAnswers(self._answers(plan) if plan.row_limit else self._signs_of_life(is_slice_over))
        finally:
            self.open_scans -= 1

    def _answers(self, plan: ScanPlan) -> Iterator[ScanAnswer]:
        for number in range(plan.row_limit):
            if plan.reverse:
                self._wait(b"slow")
            self.begun.append(b"%d" % number)
            self.after_window(number)
            yield answer(number)

    def _signs_of_life(self, is_slice_over: Callable[[], bool]) -> Iterator[ScanAnswer]:
        """Endless windows of rows that are not answered."""
        for window in itertools.count():
            self.after_window(window)
            if is_slice_over():
                yield ScanAnswer(answer(0).table.slice(0, 0), 0, False, resume_key=b"row%d" % window)

    def bulk_put(
        self,
        batch: BulkBatch,
        request: RequestId | None,
        options: WriteOptions,
        done: Callable[[BulkOutcome], None],
    ) -> None:
        self.bulk_batches.append(batch)
        rows = batch.rows if isinstance(batch, RowBatch) else batch.column("row")
        self._wait(rows[0].as_py())
        self.unpublished_bulk.append(done)


class FakeAnswers:
    """The answers of any scan, which holds 1000 bytes."""

    bytes_held = 1000
    bytes_pending = 0
    is_at_end = False

    def __init__(self, answers: Iterator[ScanAnswer]) -> None:
        self._answers = answers

    def __next__(self) -> ScanAnswer:
        return next(self._answers)


def answer(number: int) -> ScanAnswer:
    table = pa.table(
        {
            "row": pa.array([b"row%d" % number], pa.binary()),
            "family": pa.array([b"f"], pa.binary()),
            "qualifier": pa.array([b"q"], pa.binary()),
            "timestamp": pa.array([1], pa.int64()),
            "value": pa.array([b"v"], pa.binary()),
        },
        schema=ANSWER_SCHEMA,
    )
    return ScanAnswer(table, 1, False)
