"""Short ways to call a region, and to wait for what it answers."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import (
    AnswerCell,
    Change,
    Condition,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.region import Region

from tests.waiting import WAIT_S


class RegionCalls(ABC):
    """Calls one region, and waits for the answers."""

    clock: Clock

    @property
    @abstractmethod
    def region(self) -> Region: ...

    def mutate(self, *mutations: RowMutation, durability: Durability | None = None) -> list[RowOutcome]:
        """The outcomes, once published."""
        outcomes: list[RowOutcome] = []
        told = threading.Event()

        def done(them: list[RowOutcome]) -> None:
            outcomes.extend(them)
            told.set()

        options = WriteOptions(self.clock.monotonic() + WAIT_S, durability)
        assert self.region.mutate(mutations, options, done, may_wait=True)
        assert told.wait(WAIT_S)
        return outcomes

    def put_rows(self, batch: PutBatch, durability: Durability | None = None) -> list[RowOutcome]:
        """The outcomes of puts in columns, once published."""
        outcomes: list[RowOutcome] = []
        told = threading.Event()

        def done(them: list[RowOutcome]) -> None:
            outcomes.extend(them)
            told.set()

        self.region.put_rows(batch, WriteOptions(self.clock.monotonic() + WAIT_S, durability), done)
        assert told.wait(WAIT_S)
        return outcomes

    def change(
        self,
        row: bytes,
        *changes: Change,
        condition: Condition | None = None,
        otherwise: Sequence[Change] = (),
        request: RequestId | None = None,
    ) -> RowResult:
        """The result of one row's mutation; raises what it answers."""
        (outcome,) = self.mutate(RowMutation(row, changes, condition, tuple(otherwise), request))
        if isinstance(outcome, RegionServerError):
            raise outcome
        return outcome

    def bulk(
        self, batch: BulkBatch, request: RequestId | None = None, durability: Durability | None = None
    ) -> BulkOutcome:
        """The outcome of a bulk batch, once published."""
        outcomes: list[BulkOutcome] = []
        told = threading.Event()

        def done(outcome: BulkOutcome) -> None:
            outcomes.append(outcome)
            told.set()

        self.region.bulk_put(batch, request, WriteOptions(self.clock.monotonic() + WAIT_S, durability), done)
        assert told.wait(WAIT_S)
        return outcomes[0]

    def cells(self, row: bytes, versions: int = 1) -> list[AnswerCell]:
        answer = self.region.get([row], Selection(versions=versions), may_wait=True)
        assert answer is not None
        return list(answer[0])

    def values(self, row: bytes) -> dict[bytes, bytes]:
        """Newest values by `family:qualifier`."""
        return {family + b":" + qualifier: value for family, qualifier, _, value in self.cells(row)}

    def scan(self, plan: ScanPlan | None = None) -> list[tuple[bytes, bytes, bytes, int, bytes]]:
        """(row, family, qualifier, timestamp, value) of a scan."""
        with self.region.scan(plan or ScanPlan()) as (_, answers):
            return [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()]
