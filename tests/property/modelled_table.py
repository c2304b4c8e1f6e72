"""A table of a server whose rows are changed, and a plain model of all its writes.

The model keeps each write with a number of its own, in the order in which they were acknowledged; a row is always in
one region, so that order is the region's. Each outcome is compared with what the model says it must be.
"""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, DELETE_VERSION, NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import NotACounterError, RegionServerError
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    AnswerCell,
    Append,
    Change,
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.region import Region

from tests.crash.simulated_files import UnsyncedFiles
from tests.property.altered_model import Alter, AlteredModel
from tests.property.list_source import Write
from tests.unit.host.table_of_regions import TableOfRegions
from tests.unit.region.row_batches import row_batch
from tests.waiting import WAIT_S

ROWS = [b"%02d" % number for number in range(14)]
FAMILY_NAMES = (b"f", b"g")
COUNTERS, TEXTS = [b"", b"n"], [b"t", b"u"]
COLUMNS = [(family, qualifier) for family in FAMILY_NAMES for qualifier in (*COUNTERS, *TEXTS)]
KINDS = {
    DeleteKind.VERSION: DELETE_VERSION,
    DeleteKind.COLUMN: DELETE_COLUMN,
    DeleteKind.FAMILY: DELETE_FAMILY,
    DeleteKind.ROW: DELETE_FAMILY,
}
# What an acknowledged request is repeated within.
REPEATED_MAX = 8
CLIENT = b"c" * 16

Column = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Request:
    """An acknowledged mutation that may be repeated."""

    mutation: RowMutation
    outcome: RowOutcome
    region_id: int

    @property
    def is_saved_durably(self) -> bool:
        """Whether it has changed something; else only its region saves the answer, in memory."""
        return isinstance(self.outcome, RowResult) and bool(self.outcome.timestamp)


class ModelledTable(TableOfRegions):
    """Table `t` of a server, and the model of its writes."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self.folder, self.generator = folder, generator
        self.clock = ManualClock()
        self.config = Config(
            log_segment_bytes=1 << 18,
            disk_free_bytes_min=0,
            compaction_threads=0,
            lock_wait_ms=0,
            bulk_file_bytes_min=generator.choice([1, 1 << 18]),
            scan_window_bytes=generator.choice([300, 1 << 20]),
            flush_window_bytes=300,
            compaction_window_bytes=300,
            block_cache_bytes=generator.choice([0, 1 << 20]),
            long_work_pause_percent=0,
        )
        super().__init__(self.open())
        families = [self.random_family(name) for name in FAMILY_NAMES]
        self.server.create_table("t", families, properties={"compaction.automatic": "false"})
        self.families = tuple(families)
        self.writes: list[Write] = []
        self.alters: tuple[Alter, ...] = ()
        self.number = self.sequence = self.value = 0
        self.repeatable: list[Request] = []
        self.counts: Counter[str] = Counter()

    def random_family(self, name: bytes) -> Family:
        """Returns a family with random limits; mostly f has no time to live, as tables of counters have none."""
        generator = self.generator
        lives = name == b"g" or generator.random() < 0.1
        return Family(
            0,
            name,
            versions=generator.randint(1, 3),
            min_versions=generator.choice([0, 0, 1]) if lives else 0,
            time_to_live_ms=generator.choice([0, 30, 60]) if lives else 0,
            block_bytes=4096,
        )

    def open(self) -> RegionServer:
        return RegionServer.open(self.folder, self.config, self.clock, UnsyncedFiles(), lambda error: None)

    @property
    def model(self) -> AlteredModel:
        return AlteredModel(self.families, tuple(self.writes), ReadPoint(NEWEST, self.clock.now_ms()), self.alters)

    def newest(self, row: bytes) -> dict[Column, AnswerCell]:
        """Returns the newest visible cell of each column of a row."""
        of_row = replace(self.model, writes=tuple([write for write in self.writes if write.row == row]))
        return {(cell[0], cell[1]): cell for cell in of_row.row(row, Selection())}

    # ---- random values

    def new_value(self, qualifier: bytes) -> bytes:
        """Returns a value that no other put has: mostly a counter in a column of counters."""
        self.value += 1
        if qualifier in COUNTERS and self.generator.random() < 0.9:
            return struct.pack(">q", self.value << 20)
        return b"text %d" % self.value + bytes(self.generator.choice([0, 0, 60]))

    def timestamp(self) -> int | None:
        return self.generator.choice([None, None, self.clock.now_ms() - self.generator.randint(-15, 40)])

    def request(self) -> RequestId | None:
        if self.generator.random() < 0.3:
            return None
        self.sequence += 1
        return RequestId(CLIENT, self.sequence, max(1, self.sequence - REPEATED_MAX))

    def mutation(self, row: bytes) -> RowMutation:
        """Returns changes of different columns of a row, or a delete of a family or the row."""
        generator = self.generator
        if generator.random() < 0.1:
            kind = generator.choice([DeleteKind.FAMILY, DeleteKind.ROW])
            family = generator.choice(FAMILY_NAMES) if kind is DeleteKind.FAMILY else b""
            return RowMutation(row, (Delete(kind, family, b"", self.timestamp()),), request=self.request())
        columns = generator.sample(COLUMNS, generator.choice([1, 1, 1, 3]))
        return RowMutation(row, tuple([self.change_of(*column) for column in columns]), request=self.request())

    def change_of(self, family: bytes, qualifier: bytes) -> Change:
        generator = self.generator
        match generator.randrange(10):
            case 0:
                return Delete(DeleteKind.COLUMN, family, qualifier, self.timestamp())
            case 1:
                return Delete(DeleteKind.VERSION, family, qualifier, self.timestamp())
            case 2 if qualifier in TEXTS:
                return Append(family, qualifier, b"+%d" % generator.randrange(10))
            case 3 | 4 | 5 | 6 if qualifier in COUNTERS:
                return Increment(family, qualifier, generator.choice([1, -1, 7]))
            case _:
                return Put(family, qualifier, self.new_value(qualifier), self.timestamp())

    # ---- changes of rows

    def change_a_row(self) -> None:
        mutation = self.mutation(self.generator.choice(ROWS))
        self.settle(mutation, self.sent(mutation))

    def count_often(self) -> None:
        """Increments one counter more often than a row may have cells before it is pruned."""
        row, column = self.generator.choice(ROWS), (self.generator.choice(FAMILY_NAMES), b"n")
        for _ in range(20):
            mutation = RowMutation(row, (Increment(*column, 1),), request=self.request())
            self.settle(mutation, self.sent(mutation))

    def repeat(self) -> None:
        """Sends an acknowledged request again, wherever its row is now: the answer is the same, and nothing changes."""
        requests = [each for each in self.repeatable if self.may_be_repeated(each)]
        if requests:
            request = self.generator.choice(requests)
            self.check_repeated(request, self.sent(request.mutation))

    def may_be_repeated(self, request: Request) -> bool:
        return request.is_saved_durably or self.region_of(request.mutation.row).region_id == request.region_id

    def change_several(self) -> None:
        """Changes rows of one region by one call, as coalesced changes are; some are repeated, and some are refused."""
        region = self.generator.choice(self.regions)
        rows = self.rows_of(region)
        if not rows:
            return
        chosen: list[RowMutation | Request] = [self.mutation(self.generator.choice(rows)) for _ in range(5)]
        floor = self.sequence - REPEATED_MAX
        there = [
            each
            for each in self.repeatable
            if each.mutation.row in rows and sequence_of(each) >= floor and self.may_be_repeated(each)
        ]
        if there and self.generator.random() < 0.7:
            chosen.insert(self.generator.randrange(5), self.generator.choice(there))
        mutations = [each.mutation if isinstance(each, Request) else each for each in chosen]
        outcomes: dict[int, RowOutcome] = {}
        is_done = threading.Event()

        def done(indices: list[int], found: list[RowOutcome]) -> None:
            outcomes.update(zip(indices, found, strict=True))
            if len(outcomes) == len(mutations):
                is_done.set()

        if not region.mutate_each(mutations, self.options(), done):
            for mutation in [each for each in chosen if not isinstance(each, Request)]:
                self.settle(mutation, self.sent(mutation))
            return
        assert is_done.wait(WAIT_S)
        self.counts["calls for several rows"] += 1
        for place, each in enumerate(chosen):
            if isinstance(each, Request):
                self.check_repeated(each, outcomes[place])
            else:
                self.settle(each, outcomes[place])

    def put_in_columns(self) -> None:
        """Puts many rows of a region in columns, each a change of its own."""
        region = self.generator.choice(self.regions)
        rows = self.rows_of(region)
        if not rows:
            return
        names = self.generator.sample(COLUMNS, 2)
        of_rows = [(row, self.timestamp(), [self.new_value(qualifier) for _, qualifier in names]) for row in rows]
        outcomes: list[RowOutcome] = []
        is_done = threading.Event()

        def done(found: list[RowOutcome]) -> None:
            outcomes.extend(found)
            is_done.set()

        region.put_rows(PutBatch(row_batch(names, of_rows)), self.options(), done)
        assert is_done.wait(WAIT_S)
        for (row, timestamp, values), outcome in zip(of_rows, outcomes, strict=True):
            assert isinstance(outcome, RowResult)
            self.number += 1
            for column, value in zip(names, values, strict=True):
                self.write(row, *column, outcome.timestamp if timestamp is None else timestamp, PUT, value)

    def sent(self, mutation: RowMutation) -> RowOutcome:
        outcomes: list[RowOutcome] = []
        is_done = threading.Event()

        def done(found: list[RowOutcome]) -> None:
            outcomes.extend(found)
            is_done.set()

        region = self.region_of(mutation.row)
        if not (self.generator.random() < 0.5 and region.mutate([mutation], self.options(), done, may_wait=False)):
            region.mutate([mutation], self.options(), done, may_wait=True)
        assert is_done.wait(WAIT_S)
        (outcome,) = outcomes
        return outcome

    def options(self) -> WriteOptions:
        return WriteOptions(self.clock.monotonic() + WAIT_S)

    def rows_of(self, region: Region) -> list[bytes]:
        return [row for row in ROWS if region.start <= row and (not region.stop or row < region.stop)]

    # ---- outcomes

    def settle(self, mutation: RowMutation, outcome: RowOutcome) -> None:
        """Compares the outcome of a new request with the model, and makes its changes there."""
        newest = self.newest(mutation.row)
        if self.is_refused(mutation, newest):
            assert isinstance(outcome, NotACounterError), (mutation, outcome)
            self.counts["refusals"] += 1
        else:
            assert isinstance(outcome, RowResult), (mutation, outcome)
            assert not outcome.repeated_request, mutation
            self.number += 1
            results = [self.apply(mutation.row, change, outcome.timestamp, newest) for change in mutation.changes]
            assert list(outcome.results) == [each for each in results if each is not None], (mutation, outcome)
            self.counts["changes"] += 1
        if mutation.request is not None:
            self.repeatable.append(Request(mutation, outcome, self.region_of(mutation.row).region_id))
            floor = mutation.request.floor
            self.repeatable = [each for each in self.repeatable if sequence_of(each) >= floor]

    def is_refused(self, mutation: RowMutation, newest: dict[Column, AnswerCell]) -> bool:
        counters = [newest.get(change[:2]) for change in mutation.changes if isinstance(change, Increment)]
        return any(cell is not None and len(cell[3]) != 8 for cell in counters)

    def apply(self, row: bytes, change: Change, stamp: int, newest: dict[Column, AnswerCell]) -> AnswerCell | None:
        """Makes a change in the model. Returns the new cell of an increment or append."""
        match change:
            case Put(family, qualifier, value, timestamp):
                self.write(row, family, qualifier, stamp if timestamp is None else timestamp, PUT, value)
                return None
            case Delete(kind, family, qualifier, timestamp):
                self.delete(row, kind, family, qualifier, timestamp, stamp, newest)
                return None
            case Increment(family, qualifier, _) | Append(family, qualifier, _):
                before = newest.get((family, qualifier))
                value = new_value(change, None if before is None else before[3])
                timestamp = stamp if before is None else max(stamp, before[2])
                self.write(row, family, qualifier, timestamp, PUT, value)
                return family, qualifier, timestamp, value

    def delete(
        self,
        row: bytes,
        kind: DeleteKind,
        family: bytes,
        qualifier: bytes,
        timestamp: int | None,
        stamp: int,
        newest: dict[Column, AnswerCell],
    ) -> None:
        if timestamp is None and kind is DeleteKind.VERSION:
            found = newest.get((family, qualifier))
            if found is None:
                return
            timestamp = found[2]
        for name in FAMILY_NAMES if kind is DeleteKind.ROW else (family,):
            self.write(row, name, qualifier, stamp if timestamp is None else timestamp, KINDS[kind], b"")

    def write(self, row: bytes, family: bytes, qualifier: bytes, timestamp: int, kind: int, value: bytes) -> None:
        self.writes.append(Write(row, family, qualifier, timestamp, self.number, kind, value))

    def check_repeated(self, request: Request, outcome: RowOutcome) -> None:
        before = request.outcome
        if isinstance(before, RegionServerError):
            assert type(outcome) is type(before), (request, outcome)
        else:
            assert isinstance(outcome, RowResult), (request, outcome)
            assert outcome == before._replace(repeated_request=True), (request, outcome)
        self.counts["repeats"] += 1


def sequence_of(request: Request) -> int:
    assert request.mutation.request is not None
    return request.mutation.request.sequence


def new_value(change: Increment | Append, before: bytes | None) -> bytes:
    if isinstance(change, Append):
        return (before or b"") + change.suffix
    (number,) = struct.unpack(">q", before or bytes(8))
    return struct.pack(">q", number + change.amount)
