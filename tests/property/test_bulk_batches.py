"""Bulk batches against a plain model, with changes between a batch's arrangement and its turn at the gate.

The clock advances meanwhile, a row changes, the table is altered, or the memstore is flushed. The log refuses some
batches, and some are sent again. No reader sees a batch before it is published. After that every read returns what the
model has: from memory, after the log was replayed, after a flush and after a compaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import Put, RequestId, ScanPlan, Selection
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.seeds import drawn_seed
from tests.unit.region.conftest import bulk_batch
from tests.unit.region.lone_region import LoneRegion, Step
from tests.unit.region.row_batches import Cell, Name, Row, cells_of_rows, row_batch

CASES = case_count(60, 12)
ALL = ScanPlan(selection=Selection(versions=100))
NAMES: list[Name] = [(family, qualifier) for family in (b"f", b"g") for qualifier in (b"", b"a", b"b")]
VERSIONS = {b"f": 1, b"g": 3}


class Model:
    """The puts that no delete covers, by column and timestamp."""

    def __init__(self) -> None:
        self._values: dict[tuple[bytes, bytes, bytes], dict[int, bytes]] = {}

    def write(self, cells: list[Cell], stamp: int) -> None:
        """Writes cells one after the other, as if each were a write of its own."""
        for row, family, qualifier, own, value in cells:
            timestamp = stamp if own is None else own
            versions = self._values.setdefault((row, family, qualifier), {})
            if value is None:
                for covered in [each for each in versions if each <= timestamp]:
                    del versions[covered]
            else:
                versions[timestamp] = value

    def scan(self) -> list[tuple[bytes, bytes, bytes, int, bytes]]:
        return [
            (*column, timestamp, versions[timestamp])
            for column, versions in sorted(self._values.items())
            for timestamp in sorted(versions, reverse=True)[: VERSIONS[column[1]]]
        ]


class Case:
    """One region, its model, and the batches that it got."""

    def __init__(self, generator: random.Random, folder: Path) -> None:
        folder.mkdir()
        self.generator = generator
        self.clock = ManualClock()
        config = Config(log_segment_bytes=1 << 20, bulk_file_bytes_min=generator.choice([0, 300, 3000, 1 << 20]))
        self.lone = LoneRegion(folder, config, self.clock, UnsyncedFiles(), Durability.OS)
        self.model = Model()
        self.sequence = 0
        self.seen_early: list[bool] = []

    def timestamps(self) -> list[int | None]:
        now_ms = self.clock.now_ms()
        ahead: list[int | None] = [now_ms + ms for ms in (0, 1, 2, 3, 30, 31)]
        return self.generator.choice([[None], [5, 6], [now_ms], [None, 5], [None, 5, now_ms - 1, *ahead], ahead])

    def value(self) -> bytes:
        return self.generator.randbytes(self.generator.choice([0, 1, 8, 8, 8, 60]))

    def batch(self) -> tuple[BulkBatch, list[Cell]]:
        generator = self.generator
        keys = [b"%03d" % number for number in range(generator.choice([2, 20, 200]))]
        count = generator.choice([1, 4, 30, 80])
        timestamps = self.timestamps()
        if generator.random() < 0.4:
            cells: list[Cell] = [
                (
                    generator.choice(keys),
                    *generator.choice(NAMES),
                    generator.choice(timestamps),
                    None if generator.random() < 0.1 else self.value(),
                )
                for _ in range(count)
            ]
            if generator.random() < 0.5:
                cells.sort(key=lambda cell: cell[:3])
            return bulk_batch(*cells), cells
        names = generator.sample(NAMES, generator.randint(1, len(NAMES)))
        drawn = generator.choices(keys, k=count)
        if generator.random() < 0.6:
            drawn = sorted(set(drawn))
        null_rates = [generator.choice([0.0, 0.1, 0.9]) for _ in names]
        rows: list[Row] = [
            (
                key,
                generator.choice(timestamps),
                [None if generator.random() < rate else self.value() for rate in null_rates],
            )
            for key in drawn
        ]
        nulls_delete = generator.random() < 0.3
        return (
            row_batch(names, rows, nulls_delete=nulls_delete),
            cells_of_rows(names, rows, nulls_delete=nulls_delete),
        )

    def write(self) -> None:
        """Writes a batch, perhaps twice or in vain; other things happen while it waits for the gate."""
        generator, lone = self.generator, self.lone
        batch, cells = self.batch()
        self.sequence += 1
        request = RequestId(b"c" * 16, self.sequence, 0) if generator.random() < 0.5 else None
        if cells and generator.random() < 0.1:
            lone.steps.at_next(Step.ALONE, self.wait)
            lone.log.refuses = True
            with pytest.raises(StoppingError):
                lone.bulk(batch, request)
            lone.log.refuses = False
            self.check()
            if generator.random() < 0.5:
                return
        if cells:  # Else it does not come to the gate.
            meanwhile = generator.choice([self.wait, self.change, self.alter, self.flush_and_wait])
            lone.steps.at_next(Step.ALONE, meanwhile)
            lone.steps.at_next(Step.BEGIN, self.note_whether_seen)
        outcome = lone.bulk(batch, request)
        assert isinstance(outcome, BulkResult)
        self.model.write(cells, outcome.timestamp)
        self.check()
        if request is not None and cells and generator.random() < 0.5:
            self.clock.advance(2)
            again = lone.bulk(batch, request)
            assert isinstance(again, BulkResult)
            assert again.repeated_request
            assert again.timestamp == outcome.timestamp

    def note_whether_seen(self) -> None:
        """Before a batch has its number, and after it was applied."""
        self.seen_early.append(self.lone.scan(ALL) != self.model.scan())

    def wait(self) -> None:
        self.clock.advance(self.generator.choice([0, 1, 2, 3, 30, 31, 200]))

    def change(self) -> None:
        """A row changes."""
        row = b"%03d" % self.generator.randrange(20)
        family, qualifier = self.generator.choice(NAMES)
        self.clock.advance(1)
        stamp = self.lone.change(row, Put(family, qualifier, b"changed")).timestamp
        self.model.write([(row, family, qualifier, stamp, b"changed")], stamp)
        self.wait()

    def alter(self) -> None:
        """Adds a family, or removes it."""
        if b"h" in self.lone.table.by_name:
            self.lone.alter(drop_families=[b"h"])
        else:
            self.lone.alter([Family(max(family.number for family in self.lone.table.families) + 1, b"h")])
        self.wait()

    def flush_and_wait(self) -> None:
        self.lone.flush()
        self.wait()

    def compact(self) -> None:
        self.lone.flush()
        for facts in self.lone.region.compaction_facts():
            plan = pick_requested(facts.files, CompactionSettings(), major=True)
            if plan is not None:
                self.lone.region.compact(facts.family.number, plan, Progress())

    def check(self) -> None:
        lone = self.lone
        expected = self.model.scan()
        assert lone.scan(ALL) == expected
        for row in {cell[0] for cell in expected[:: max(1, len(expected) // 5)]}:
            of_row = [cell[1:] for cell in expected if cell[0] == row]
            assert lone.cells(row, versions=100) == of_row
        held = 0
        for store in lone.parts.stores.all():
            store.memstore._check()
            held += store.memstore.bytes_held
            for segment in store.memstore.sources():
                if not isinstance(segment, RowSegment):
                    chunk = segment.read_rows(b"", b"", 1 << 30)
                    numbers = cast(list[int], chunk.table.column("write_number").to_pylist())  # never null
                    assert (min(numbers), max(numbers)) == (segment.write_number_min, segment.write_number_max)
                    timestamps = cast(list[int], chunk.table.column("timestamp").to_pylist())
                    assert (min(timestamps), max(timestamps)) == (chunk.timestamp_min, segment.timestamp_max)
        assert lone.region.memstore_bytes == held
        assert lone.memory.bytes_held == held


def test_bulk_batches_leave_what_their_cells_leave_one_after_the_other(tmp_path: Path) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    for number in range(CASES):
        case = Case(generator, tmp_path / str(number))
        events: list[Callable[[], object]] = [case.lone.crash, case.lone.flush, case.compact, case.wait, case.wait]
        for _ in range(generator.randint(2, 8)):
            case.write()
            case.check()
            generator.choice(events)()
            case.check()
        assert not any(case.seen_early), f"seed {seed}, case {number}"
        assert case.lone.fatal == []
        case.lone.stop()
