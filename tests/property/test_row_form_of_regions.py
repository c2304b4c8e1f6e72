"""A region's scan in row form is its scan of cells, laid out by hand, and rows leave what their cells leave.

Two regions get the same changes, one bulk batches of rows, the other the same batches as cells. Between them: points,
deletes, flushes, crashes, families that are dropped and added, cells that expire. Earlier read points stay open. Some
scans take rows compressed, which the client decodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock._codec.row_form import FormColumn as ClientColumn
from rowlock._codec.row_form import RowFormReader
from rowlock._codec.scan_message import parse_scan_message
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.cells import Compression, Durability, Family, ReadPoint
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import joined
from rowlock_regionserver.errors import FilterTypeError, RegionServerError
from rowlock_regionserver.operations import (
    Change,
    Check,
    ColumnComparison,
    ColumnPresence,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    FormColumn,
    FormPart,
    Increment,
    Put,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.rpc.messages.scan_batches import scan_message
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.storefile import row_digests

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.test_bulk_rows import random_batch
from tests.seeds import drawn_seed
from tests.unit.compressed_rows import take_every_row_compressed
from tests.unit.region.lone_region import LoneRegion
from tests.unit.region.row_batches import cell_batch, cells_of_rows, row_batch
from tests.unit.scan.whole_scans import all_rows_at

CASES = case_count(12, 2)
QUALIFIERS = [b"", b"a", b"b", b"c", b"nobody's"]
FORM = [FormColumn(family, name, part) for family in (b"f", b"g") for name in QUALIFIERS for part in FormPart]
Cell = tuple[bytes, bytes, bytes, int, bytes]
FormRow = tuple[object, ...]


def random_families(generator: random.Random) -> list[Family]:
    return [
        Family(
            0,
            name,
            versions=generator.choice([1, 1, 2, 5]),
            min_versions=generator.choice([0, 0, 1]),
            time_to_live_ms=generator.choice([0, 0, 0, 12]),
            block_bytes=generator.choice([4096, 128 << 10]),
            compression=generator.choice([Compression.NONE, Compression.LZ4, Compression.ZSTD]),
        )
        for name in (b"f", b"g")
    ]


def cells_at(region: LoneRegion, plan: ScanPlan, read_point: ReadPoint) -> list[Cell]:
    with region.region.scan(plan, all_rows_at(read_point)) as (_, answers):
        return [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()]


def rows_at(
    region: LoneRegion, plan: ScanPlan, read_point: ReadPoint, between: Callable[[], None] = lambda: None
) -> list[FormRow] | bytes:
    """Returns the rows, or the row at which a value does not fit its type."""
    rows: list[FormRow] = []
    try:
        with region.region.scan(plan, all_rows_at(read_point)) as (_, answers):
            for answer in answers:
                table = received(answer, plan) if plan.compressed else answer.table
                table.validate(full=True)
                rows += zip(*[column.to_pylist() for column in table.columns], strict=True)
                between()
    except FilterTypeError as error:
        return error.row
    return rows


def received(answer: ScanAnswer, plan: ScanPlan) -> pa.Table:
    """Returns the rows as the client reads them from the answer's message."""
    columns = [
        ClientColumn(column.family, column.qualifier, column.part is FormPart.TIMESTAMP)
        for column in plan.row_form or ()
    ]
    reader = RowFormReader.of(columns, region_pb2.ScanRequest())
    return reader.read(parse_scan_message(joined(scan_message(answer, 5))))


def laid_out(cells: Sequence[Cell], form: Sequence[FormColumn]) -> list[FormRow]:
    rows: list[FormRow] = []
    for row, of_row in groupby(cells, lambda cell: cell[0]):
        newest: dict[tuple[bytes, bytes], Cell] = {}
        for cell in of_row:
            newest.setdefault(cell[1:3], cell)
        found = [newest.get((column.family, column.qualifier)) for column in form]
        parts = [4 if column.part is FormPart.VALUE else 3 for column in form]
        rows.append((row, *(cell and cell[part] for cell, part in zip(found, parts, strict=True))))
    return rows


def random_plan(generator: random.Random) -> ScanPlan:
    where = generator.choice(
        [
            None,
            None,
            ColumnPresence(b"f", generator.choice(QUALIFIERS), generator.random() < 0.5),
            ColumnComparison(b"g", b"a", CompareOp.GREATER, b"\x80", ValueType.BYTES),
            ColumnComparison(b"f", b"b", CompareOp.LESS, bytes(8), ValueType.INT64),
        ]
    )
    bounds = sorted(b"%03d" % generator.randrange(40) for _ in range(2))
    return ScanPlan(
        Selection(where=where),
        generator.choice([(), (), ((bounds[0], bounds[1] + b"!"),)]),
        generator.choice([0, 0, 1, 7]),
        generator.random() < 0.4,
        generator.choice([1, 300, 1 << 20]),
        generator.choice([1, 3, 50_000]),
    )


class Pair:
    """The two regions, and what they held at earlier read points."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self.generator = generator
        config = Config(
            log_segment_bytes=1 << 20,
            bulk_file_bytes_min=generator.choice([1, 300, 1 << 20]),
            scan_window_bytes=generator.choice([500, 5000, 8 << 20]),
            flush_window_bytes=generator.choice([300, 256 << 10]),
            flush_merge_window_bytes=generator.choice([1000, 1 << 20]),
            block_cache_bytes=generator.choice([0, 64 << 20]),
        )
        self.clocks = [ManualClock(), ManualClock()]
        self.regions = []
        for number, clock in enumerate(self.clocks):
            of_region = folder / str(number)
            of_region.mkdir()
            self.regions.append(LoneRegion(of_region, config, clock, UnsyncedFiles(), Durability.OS))
        self.held: list[tuple[tuple[ReadPoint, ReadPoint], list[Cell]]] = []
        self.alter(random_families(generator), [])

    def now_ms(self) -> int:
        """Sets both clocks to the later one: a flush may wait for the next millisecond, and so move its clock."""
        now_ms = max(clock.now_ms() for clock in self.clocks)
        for clock in self.clocks:
            clock.advance(now_ms - clock.now_ms())
        return now_ms

    def alter(self, families: Sequence[Family], dropped: Sequence[bytes]) -> None:
        self.release()
        for region in self.regions:
            if dropped:
                region.alter([], dropped)
            region.alter(families)

    def release(self) -> None:
        for read_points, _ in self.held:
            for region, read_point in zip(self.regions, read_points, strict=True):
                region.region.close_read_point(read_point)
        self.held = []

    def change(self, where: str) -> None:
        generator = self.generator
        of_rows, of_cells = self.regions
        names, rows, fixed = random_batch(generator, self.now_ms())
        event = generator.random()
        if event < 0.6:
            nulls_delete = generator.random() < 0.2
            # A batch without a cell takes a stamp, and the stamps of both must stay the same.
            if cells_of_rows(names, rows, nulls_delete=nulls_delete):
                outcome = of_rows.bulk(row_batch(names, rows, nulls_delete=nulls_delete, fixed=fixed))
                assert isinstance(outcome, BulkResult), where
                assert outcome == of_cells.bulk(cell_batch(names, rows, nulls_delete=nulls_delete)), where
            return
        key, (family, qualifier) = rows[0][0], names[0]
        timestamp = generator.choice([None, 4, 5])
        if event < 0.7:
            changes: list[Change] = [Put(family, qualifier, generator.choice([b"", b"12345678"]), timestamp)]
        elif event < 0.8:
            changes = [Increment(family, qualifier, 3)]
        else:
            changes = [Delete(generator.choice(list(DeleteKind)), family, qualifier, timestamp)]
        values = [None, b"12345678", *[value for _, _, of_row in rows for value in of_row]]
        condition = None
        if generator.random() < 0.3:
            check = Check(family, qualifier, generator.choice(list(CompareOp)), generator.choice(values))
            condition = Condition((check,))
        results = []
        for region in self.regions:
            try:
                results.append(repr(region.change(key, *changes, condition=condition)))
            except RegionServerError as error:
                results.append(repr(error))
        assert results[0] == results[1], where

    def event(self) -> None:
        event = self.generator.random()
        if event < 0.1:
            self.release()
            for region in self.regions:
                region.crash()
        elif event < 0.35:
            for region in self.regions:
                region.flush()
        elif event < 0.42:
            name = self.generator.choice([b"f", b"g"])
            self.alter([each for each in random_families(self.generator) if each.name == name], [name])
        elif event < 0.55:
            self.now_ms()
            points = self.regions[0].region.open_read_point(), self.regions[1].region.open_read_point()
            self.held.append((points, cells_at(self.regions[0], ALL, points[0])))
        for clock in self.clocks:
            clock.advance(self.generator.choice([1, 2, 5]))

    def check(self, where: str) -> None:
        self.now_ms()
        with_now = [region.region.open_read_point() for region in self.regions]
        now = cells_at(self.regions[0], ALL, with_now[0])
        assert now == cells_at(self.regions[1], ALL, with_now[1]), where
        for key in [b"%03d" % self.generator.randrange(40) for _ in range(3)]:
            gets = [region.cells(key, versions=100) for region in self.regions]
            assert gets[0] == gets[1] == [cell[1:] for cell in now if cell[0] == key], where
        for points, cells in [((with_now[0], with_now[1]), now), *self.held[-3:]]:
            plan = random_plan(self.generator)
            form = tuple(self.generator.sample(FORM, self.generator.choice([0, 1, 3, len(FORM)])))
            in_rows = replace(plan, row_form=form, fixed_size=self.generator.random() < 0.5)
            in_rows = replace(in_rows, compressed=in_rows.fixed_size and self.generator.random() < 0.7)
            between = self.flush_sometimes if self.generator.random() < 0.3 else lambda: None
            for region, point in zip(self.regions, points, strict=True):
                again = cells_at(region, ALL, point)
                assert again == cells, where
                found = rows_at(region, in_rows, point, between)
                try:
                    expected: list[FormRow] | bytes = laid_out(
                        cells_at(region, replace(plan, selection=replace(plan.selection, versions=100)), point), form
                    )
                except FilterTypeError as error:
                    expected = error.row
                assert found == expected, f"{where}, {in_rows}, {point}"
        for region, point in zip(self.regions, with_now, strict=True):
            region.region.close_read_point(point)

    def flush_sometimes(self) -> None:
        if self.generator.random() < 0.1:
            self.regions[0].flush()

    def stop(self) -> None:
        self.release()
        for region in self.regions:
            region.stop()
            assert region.fatal == []


ALL = ScanPlan(selection=Selection(versions=100))


def test_rows_of_a_region_are_its_cells_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Row groups of few rows, which one family may have alone.
    monkeypatch.setattr(row_digests, "ROWS_MIN", 1)
    monkeypatch.setattr(row_digests, "CANDIDATE_BITS", 1)
    take_every_row_compressed(monkeypatch)
    seed = drawn_seed()
    for case in range(CASES):
        generator = random.Random(f"{seed} {case}")
        (tmp_path / str(case)).mkdir()
        pair = Pair(tmp_path / str(case), generator)
        for step in range(generator.randint(3, 14)):
            where = f"seed {seed}, case {case}, step {step}"
            pair.change(where)
            pair.check(where)
            pair.event()
            pair.check(where)
        pair.stop()
