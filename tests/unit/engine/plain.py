"""A front end without a protocol: requests of plain values, and a caller that stores the answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import EVERYTHING, AnswerCell, Put, RowMutation, RowOutcome, Selection

from tests.unit.engine.fakes import REGION_ID, FakeRegion

Cells = list[Sequence[AnswerCell]]


class PlainRequest:
    """The common part of gets and changes. Answers have `answer_bytes` bytes; -1: a change fails to encode its own."""

    def __init__(self, region_id: int, timeout_ms: int) -> None:
        self.region_id = region_id
        self.timeout_ms = timeout_ms
        self.answer_bytes = 1
        self.readers: list[int] = []  # the thread of each call of `read`
        self.error: BaseException | None = None

    def byte_count(self) -> int:
        return 10

    def failure(self, error: BaseException, doing: str) -> bytes:
        self.error = error
        return b"e"


class PlainGet(PlainRequest):
    def __init__(self, *rows: bytes, region_id: int = REGION_ID, timeout_ms: int = 0) -> None:
        super().__init__(region_id, timeout_ms)
        self.rows = rows
        self.cells: Cells | None = None

    def row_count(self) -> int:
        return len(self.rows)

    def read(self, rows_max: int | None = None) -> tuple[Sequence[bytes], Selection] | None:
        if rows_max is not None and len(self.rows) > rows_max:
            return None
        self.readers.append(threading.get_ident())
        return self.rows, EVERYTHING

    def answer(self, rows: Cells) -> bytes:
        self.cells = rows
        return bytes(self.answer_bytes)


class PlainChange(PlainRequest):
    """A put of one column in each row."""

    def __init__(
        self,
        *rows: bytes,
        puts: int = 1,
        durability: Durability | None = None,
        region_id: int = REGION_ID,
        timeout_ms: int = 0,
    ) -> None:
        super().__init__(region_id, timeout_ms)
        self.mutations = tuple([RowMutation(row, (Put(b"f", b"q", b"v"),) * puts) for row in rows])
        self._durability = durability
        self.outcomes: Sequence[RowOutcome] | None = None

    def row_count(self) -> int:
        return len(self.mutations)

    def read(self, rows_max: int | None = None, parts_max: int | None = None) -> Sequence[RowMutation] | None:
        part_count = sum([len(mutation.changes) for mutation in self.mutations])
        if (rows_max is not None and len(self.mutations) > rows_max) or (
            parts_max is not None and part_count > parts_max
        ):
            return None
        self.readers.append(threading.get_ident())
        return self.mutations

    def plain_change(self) -> RowMutation | None:
        return self.mutations[0] if len(self.mutations) == 1 else None

    def durability(self) -> Durability | None:
        return self._durability

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        if self.answer_bytes < 0:
            raise MemoryError
        self.outcomes = outcomes
        return bytes(self.answer_bytes)


class Caller:
    """A responder that stores the answers, and the threads that sent them."""

    def __init__(self) -> None:
        self.is_gone = False
        self.unread_bytes = 0
        self.sent: list[tuple[bytes, int]] = []
        self.senders: set[int] = set()
        self.reserved_bytes = 0
        self.has_room = True

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        if must_fit and not self.has_room:
            return False
        self.reserved_bytes += byte_count
        return True

    def release(self, byte_count: int) -> None:
        self.reserved_bytes -= byte_count

    def send(self, answer: bytes, count: int = 1) -> None:
        self.sent.append((answer, count))
        self.senders.add(threading.get_ident())

    @property
    def answered_count(self) -> int:
        return sum([count for _, count in self.sent])


class FrontEnd:
    """The admission of one server, and one caller."""

    def __init__(self, region: FakeRegion, workers: Workers, config: Config) -> None:
        self.clock = ManualClock()
        self.ledger = Ledger(config)
        self.points = Points(region.region, workers, config, self.clock, self.ledger, lambda: 1)
        self.caller = Caller()
        self.loop = asyncio.get_running_loop()

    async def until_answered(self, count: int) -> None:
        while self.caller.answered_count < count:
            await asyncio.sleep(0)
