"""Scans over lines that overlap answer the cells that were written, however the lines are merged and sent."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock._codec.line_rows import LineReader
from rowlock._codec.scan_message import parse_scan_message
from rowlock._core.scan_progress import read_cells
from rowlock.rows import python_rows
from rowlock_regionserver.cells import Cell
from rowlock_regionserver.engine.encoded_message import joined
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, ColumnSelector, ScanPlan, Selection
from rowlock_regionserver.rpc.messages.scan_batches import scan_message
from rowlock_regionserver.scan import compressed_rows
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.compressed_rows import CompressedRows
from rowlock_regionserver.storefile.open_files import OpenFiles

from tests.drawn_cases import case_count
from tests.property.overlapping_sources import COLUMNS, World
from tests.seeds import drawn_seed
from tests.unit.compressed_rows import take_every_row_compressed
from tests.unit.messages_in_parts import send_every_table_in_parts

CASES = case_count(60, 3)
Found = tuple[bytes, bytes, bytes, int, bytes]


def expected(world: World, plan: ScanPlan) -> list[Found]:
    """Returns the cells that the plan selects, by row, family and column, newest first."""
    [(start, stop)] = plan.ranges or [(b"", b"\xff")]
    versions = {family.name: family.versions for family, _ in world.view}
    selection = plan.selection
    columns = {(each.family, each.qualifier) for each in selection.columns}
    found: list[Found] = []
    for (row, family), cells in sorted(world.cells.items()):
        if not start <= row < stop:
            continue
        for qualifier, of_column in visible(cells, versions[family]).items():
            in_range = [
                (row, family, qualifier, timestamp, value)
                for timestamp, value in of_column
                if selection.time_start <= timestamp and (not selection.time_stop or timestamp < selection.time_stop)
            ]
            if not columns or (family, qualifier) in columns:
                found += in_range[: selection.versions]
    of_rows = [list(of_row) for _, of_row in groupby(found, key=itemgetter(0))]
    if plan.reverse:
        of_rows.reverse()
    of_rows = of_rows[: plan.row_limit or None]
    return [cell for of_row in of_rows for cell in of_row[: selection.cells.cell_limit or None]]


def visible(cells: Sequence[Cell], versions: int) -> dict[bytes, list[tuple[int, bytes]]]:
    """Returns the newest versions of each column; of several cells of one version the last one written counts."""
    found: dict[bytes, list[tuple[int, bytes]]] = {}
    for qualifier, timestamp, _, _, value in sorted(cells):
        of_column = found.setdefault(qualifier, [])
        if -timestamp not in dict(of_column) and len(of_column) < versions:
            of_column.append((-timestamp, value))
    return found


def plan_of(world: World) -> ScanPlan:
    chance = world.chance
    columns = chance.sample([(family.name, column) for family, _ in world.view for column in COLUMNS], 2)
    time_start, time_stop = chance.choice([(0, 0), (0, 0), (0, 6), (6, 0)])
    selection = Selection(
        columns=chance.choice([(), (), tuple([ColumnSelector(*column) for column in columns])]),
        time_start=time_start,
        time_stop=time_stop,
        versions=chance.choice([1, 1, 1, 2]),
        cells=chance.choice([EVERY_CELL, EVERY_CELL, EVERY_CELL, CellFilter(cell_limit=2)]),
    )
    return replace(world.plan(), selection=selection, row_form=None, fixed_size=False)


def received(answer: ScanAnswer) -> pa.Table:
    """Returns the cells as a client reads them from the answer's message."""
    message = parse_scan_message(joined(scan_message(answer, 5)))
    if not message.line_columns:
        return read_cells(message.arrow)
    rows = LineReader().read(message)
    cells = rows.cells()
    cells.validate(full=True)
    assert list(rows.expanded(bytes)) == list(python_rows(cells, bytes))
    assert list(rows.expanded(bytes.hex)) == list(python_rows(cells, bytes.hex))
    return cells


def cells_in(table: pa.Table) -> Iterator[Found]:
    return zip(*[column.to_pylist() for column in table.columns], strict=True)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_newest_cells_of_overlapping_lines_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compressed: bool
) -> None:
    if is_compressed:
        take_every_row_compressed(monkeypatch)
    else:
        monkeypatch.setattr(compressed_rows, "SHRUNK_MAX", 0)
    send_every_table_in_parts(monkeypatch)
    seed = drawn_seed()
    seen: Counter[str] = Counter()
    for case in range(10 * CASES):
        if case >= CASES and bool(seen["compressed"]) == is_compressed and seen["in columns"] > CASES // 4:
            break  # A few seeds draw few rows at first that can be answered in columns, or compressed.
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        world = World(folder, random.Random(f"{seed} {case}"), open_files)
        for number in range(4):
            plan, window_bytes = plan_of(world), world.chance.choice([300, 5000, 1 << 20])
            answers = world.answers(plan, window_bytes)
            found = [cell for answer in answers for cell in cells_in(answer.table)]
            assert found == expected(world, plan), f"seed {seed}, case {case}, plan {number}"
            answers = world.answers(replace(plan, lines=True), window_bytes)
            seen["in columns"] += sum(len(answer.columns) > 0 for answer in answers)
            seen["compressed"] += sum(isinstance(answer.rows, CompressedRows) for answer in answers)
            found = [cell for answer in answers for cell in cells_in(received(answer))]
            assert found == expected(world, plan), f"in columns: seed {seed}, case {case}, plan {number}"
            row_count = len({row for row, *_ in found})
            assert sum(answer.row_count for answer in answers) == row_count, f"seed {seed}, case {case}, plan {number}"
        world.view.clear()
        open_files.close_idle()
    assert seen["in columns"] > CASES // 4, seen
    assert bool(seen["compressed"]) == is_compressed, seen
