"""A batch of rows leaves what the same batch as cells leaves: in memory, after a replay of the log, after a flush."""

from __future__ import annotations

import random
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import Put, ScanPlan, Selection
from rowlock_regionserver.region.bulk.bulk_load import BulkResult

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.seeds import drawn_seed
from tests.unit.region.lone_region import LoneRegion
from tests.unit.region.row_batches import Name, Row, cell_batch, cells_of_rows, row_batch

CASES = case_count(25, 12)
ALL = ScanPlan(selection=Selection(versions=100))


def random_batch(generator: random.Random, now_ms: int) -> tuple[list[Name], list[Row], list[int]]:
    names = [(family, qualifier) for family in (b"f", b"g") for qualifier in (b"", b"a", b"b", b"c")]
    names = generator.sample(names, generator.randint(1, len(names)))
    widths = [generator.choice([None, None, 1, 8]) for _ in names]
    nulls = [generator.choice([0.0, 0.1, 0.98, 1.0]) for _ in names]
    keys = [b"%03d" % number for number in range(generator.choice([3, 40, 400]))]
    count = generator.choice([1, 5, 60])
    drawn = generator.choices(keys, k=count) if generator.random() < 0.5 else generator.sample(keys * 40, count)
    if generator.random() < 0.5:
        drawn.sort()
    timestamps: list[int | None] = generator.choice([[None], [5, 6], [None, 5, now_ms, now_ms + 3]])
    rows: list[Row] = []
    for key in drawn:
        values = [
            None
            if generator.random() < rate
            else generator.randbytes(generator.choice([0, 1, 5, 20]) if width is None else width)
            for width, rate in zip(widths, nulls, strict=True)
        ]
        rows.append((key, generator.choice(timestamps), values))
    fixed = [
        place
        for place, width in enumerate(widths)
        if width is not None and any(values[place] is not None for _, _, values in rows)
    ]
    return names, rows, fixed


def region(folder: Path, config: Config, clock: ManualClock) -> LoneRegion:
    folder.mkdir()
    return LoneRegion(folder, config, clock, UnsyncedFiles(), Durability.OS)


def test_rows_leave_what_their_cells_leave(tmp_path: Path) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    for case in range(CASES):
        config = Config(log_segment_bytes=1 << 20, bulk_file_bytes_min=generator.choice([1, 300, 1 << 20]))
        clocks = [ManualClock(), ManualClock()]
        of_rows, of_cells = (region(tmp_path / f"{case} {number}", config, clocks[number]) for number in (0, 1))
        for _ in range(generator.randint(1, 6)):
            names, rows, fixed = random_batch(generator, clocks[0].now_ms())
            nulls_delete = generator.random() < 0.3
            if generator.random() < 0.5:
                for each in (of_rows, of_cells):
                    each.change(rows[0][0], Put(names[0][0], names[0][1], b"older", 4))
            outcome = of_rows.bulk(row_batch(names, rows, nulls_delete=nulls_delete, fixed=fixed))
            where = f"seed {seed}, case {case}: {names}, {rows}, {nulls_delete}"
            assert isinstance(outcome, BulkResult)
            if cells_of_rows(names, rows, nulls_delete=nulls_delete):
                assert outcome == of_cells.bulk(cell_batch(names, rows, nulls_delete=nulls_delete)), where
            else:  # There is no such batch of cells; it takes a stamp all the same.
                assert (outcome.cell_count, outcome.row_count) == (0, 0), where
                assert outcome == of_cells.bulk(row_batch(names, rows)), where
            check(of_rows, of_cells, rows, where)
            event = generator.random()
            for each, clock in zip((of_rows, of_cells), clocks, strict=True):
                clock.advance(2)
                if event < 0.3:
                    each.crash()
                elif event < 0.6:
                    each.flush()
            check(of_rows, of_cells, rows, where)
        for each in (of_rows, of_cells):
            each.stop()
            assert each.fatal == []


def check(of_rows: LoneRegion, of_cells: LoneRegion, rows: list[Row], where: str) -> None:
    assert of_rows.scan(ALL) == of_cells.scan(ALL), where
    for row, _, _ in rows[:5]:
        assert of_rows.cells(row, versions=100) == of_cells.cells(row, versions=100), where
