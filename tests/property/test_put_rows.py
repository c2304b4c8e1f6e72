"""Puts in columns give what the same puts give as row mutations: each row's outcome, and all versions of all cells.

Some rows are refused, some occur twice, and some were made before, so that their ids have answers or are below the
client's floor. Regions crash, flush, and take other changes in between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import Delete, DeleteKind, Put, RowOutcome, RowResult, ScanPlan, Selection
from rowlock_regionserver.region.bulk.put_batch import PutBatch

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.seeds import drawn_seed
from tests.unit.region.lone_region import LoneRegion
from tests.unit.region.row_batches import Name, Row, row_batch

CASES = case_count(20, 10)
ALL = ScanPlan(selection=Selection(versions=100))
CLIENTS = [b"a" * 16, b"b" * 16]
NAMES: list[Name] = [(family, qualifier) for family in (b"f", b"g") for qualifier in (b"", b"a", b"b", b"c")]


class Numbers:
    """The sequences of two clients, and the floor that each sends."""

    def __init__(self) -> None:
        self.last = dict.fromkeys(CLIENTS, 0)
        self.floors = dict.fromkeys(CLIENTS, 0)

    def take(self, client: bytes, count: int) -> list[int]:
        self.last[client] += count
        return [*range(self.last[client] - count + 1, self.last[client] + 1)]


def random_puts(generator: random.Random, numbers: Numbers, now_ms: int) -> PutBatch:
    """Rows, most of which are new, valid and distinct; in half of the batches all are."""
    has_faults = generator.random() < 0.5
    names = generator.sample(NAMES, generator.randint(1, len(NAMES)))
    if has_faults and generator.random() < 0.2:
        names.append((b"unknown", b""))
    count = generator.choice([1, 3, 20, 80])
    keys = [b"%03d" % number for number in generator.sample(range(200), count)]
    if has_faults and generator.random() < 0.5:
        keys[generator.randrange(count)] = generator.choice([b"", b"k" * 2000, keys[0]])
    timestamps: list[int | None] = generator.choice([[None], [5, 6], [None, 5, now_ms]])
    if has_faults and generator.random() < 0.2:
        timestamps.append(generator.choice([-1, now_ms + (1 << 40)]))
    null_rate = generator.choice([0.0, 0.3, 0.95 if has_faults else 0.3])
    rows: list[Row] = []
    for key in keys:
        values = [
            None
            if generator.random() < null_rate
            else generator.randbytes(generator.choice([0, 1, 20, 900] if has_faults else [0, 1, 20]))
            for _ in names
        ]
        if not has_faults and all(value is None for value in values):
            values[0] = b"v"
        rows.append((key, generator.choice(timestamps), values))
    client = generator.choice(CLIENTS)
    sequences = numbers.take(client, count) if generator.random() < 0.8 else []
    if sequences and has_faults and generator.random() < 0.2:
        sequences[generator.randrange(count)] = generator.choice([0, sequences[0]])
    return PutBatch(row_batch(names, rows), client, sequences, numbers.floors[client])


def repeated(generator: random.Random, earlier: Sequence[PutBatch], numbers: Numbers) -> PutBatch:
    """Some rows of an earlier batch, with their sequences, as if its answer had been lost."""
    batch = generator.choice(earlier)
    start = generator.randrange(len(batch))
    (*_, rest) = [*batch.pieces(start, 1 << 30)][1:] or [batch] if start else [batch]
    return replace(rest, floor=numbers.floors[batch.client])


def shown(outcomes: Sequence[RowOutcome]) -> list[object]:
    return [
        (type(outcome), outcome.message, outcome.row) if isinstance(outcome, RegionServerError) else outcome
        for outcome in outcomes
    ]


def region(folder: Path, config: Config, clock: ManualClock) -> LoneRegion:
    folder.mkdir()
    return LoneRegion(folder, config, clock, UnsyncedFiles(), Durability.OS)


def with_small_pieces(lone: LoneRegion, rows_max: int) -> LoneRegion:
    lone.region._writers.column_puts._piece_rows_max = rows_max
    return lone


def test_puts_in_columns_do_what_mutations_do(tmp_path: Path) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    for case in range(CASES):
        config = Config(
            log_segment_bytes=1 << 20,
            bulk_file_bytes_min=generator.choice([1, 300, 1 << 20]),
            row_bytes_max=1000,
            cell_bytes_max=800,
        )
        clocks = [ManualClock(), ManualClock()]
        in_columns, as_mutations = (region(tmp_path / f"{case} {number}", config, clocks[number]) for number in (0, 1))
        piece_rows = generator.choice([2, 7, 1000])
        numbers, batches = Numbers(), list[PutBatch]()
        for step in range(generator.randint(2, 8)):
            is_repeat = bool(batches) and generator.random() < 0.3
            batch = (
                repeated(generator, batches, numbers)
                if is_repeat
                else random_puts(generator, numbers, clocks[0].now_ms())
            )
            where = f"seed {seed}, case {case}, step {step}: {batch}"
            with_small_pieces(in_columns, piece_rows)
            found = in_columns.put_rows(batch)
            expected = as_mutations.mutate(*batch.mutations())
            assert shown(found) == shown(expected), where
            batches.append(batch)
            check(in_columns, as_mutations, where)
            if generator.random() < 0.3:
                client = generator.choice(CLIENTS)
                numbers.floors[client] = generator.randint(numbers.floors[client], numbers.last[client] + 1)
            event, row = generator.random(), b"%03d" % generator.randrange(200)
            for each, clock in zip((in_columns, as_mutations), clocks, strict=True):
                clock.advance(2)
                if event < 0.2:
                    each.crash()
                elif event < 0.4:
                    each.flush()
                elif event < 0.6:
                    each.change(row, Put(b"f", b"a", b"later"), Put(b"g", b"", b"later", 5))
                elif event < 0.8:
                    each.change(row, Delete(DeleteKind.ROW))
            check(in_columns, as_mutations, where)
        for each in (in_columns, as_mutations):
            each.stop()
            assert each.fatal == []


def check(in_columns: LoneRegion, as_mutations: LoneRegion, where: str) -> None:
    in_columns.region._check()
    assert in_columns.scan(ALL) == as_mutations.scan(ALL), where
    for row in (b"000", b"100", b"150"):
        assert in_columns.cells(row, versions=100) == as_mutations.cells(row, versions=100), where


def test_rows_without_faults_are_made_together(tmp_path: Path) -> None:
    # Otherwise the comparison would compare mutations with mutations.
    lone = region(tmp_path / "region", Config(), ManualClock())
    before = lone.parts.mvcc.last
    rows: list[Row] = [(b"%03d" % number, None, [b"1", b"2"]) for number in range(200)]
    outcomes = lone.put_rows(PutBatch(row_batch(NAMES[:2], rows), CLIENTS[0], range(1, 201), 1))
    assert outcomes == [RowResult(timestamp=lone.region.newest_stamp)] * 200
    assert lone.parts.mvcc.last == before + 1
    lone.stop()
