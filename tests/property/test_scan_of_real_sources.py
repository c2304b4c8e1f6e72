"""Gets and scans over memstore segments and store files give the answers of the plain model, window by window."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import Family, from_then_on
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import AnswerCell, ScanPlan
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.list_source import Write
from tests.property.scan_cases import ROWS, random_model, random_plan
from tests.property.scan_model import MismatchError, Model
from tests.seeds import generator_of
from tests.unit.scan.whole_scans import all_rows_at

CASES = range(case_count(25, 10))


def sources_of(
    model: Model, folder: Path, generator: random.Random, open_files: OpenFiles
) -> dict[int, tuple[Family, list[Source]]]:
    """Returns sources of the model's writes: the older in store files of small blocks, the newer in segments."""
    stores: dict[int, tuple[Family, list[Source]]] = {}
    for family in model.families:
        sources: list[Source] = []
        writes = [write for write in model.writes if write.family == family.name]
        edges = sorted(generator.choices(range(1, 10), k=2))
        for number, (start, stop) in enumerate(((1, edges[0]), (edges[0], edges[1]), (edges[1], 10))):
            part = [write for write in writes if start <= write.write_number < stop]
            if not part:
                continue
            if number == 0:
                sources += store_file_runs(part, family, folder, generator, open_files)
            else:
                of_part: list[list[Source]] = [
                    [row_segment(part, family)],
                    [arrow_segment(part)],
                    segments_with_lines(part),
                ]
                sources += generator.choice(of_part)
        stores[family.number] = (family, sources)
    return stores


def store_file_runs(
    writes: list[Write], family: Family, folder: Path, generator: random.Random, open_files: OpenFiles
) -> list[Source]:
    """Returns the runs of a file, or of two clipped at one row, as after a split and a merge."""
    path = folder / f"{family.number}.store"
    table = arrow_table(writes)
    info = write_store_file(path, [table], replace(family, block_bytes=200), UnsyncedFiles(), number=1)
    infos = [info]
    if generator.random() < 0.5:
        row = generator.choice(ROWS)
        infos = [replace(info, clip_stop=row), replace(info, clip_start=row)]
    return [run for each in infos for run in StoreFile.open(path, each, BlockCache(1 << 20), open_files).runs]


def arrow_segment(writes: list[Write]) -> ArrowSegment:
    return ArrowSegment(arrow_table(writes))


def segments_with_lines(writes: list[Write]) -> list[Source]:
    """Returns a segment of lines and one of the cells that stay cells, as far as there are any."""
    lines, cells = lines_of(arrow_table(writes))
    of_lines: list[Source] = [] if lines is None else [LinesSegment(lines)]
    return [*of_lines, ArrowSegment(cells)] if cells.num_rows else of_lines


def arrow_table(writes: list[Write]) -> pa.Table:
    rows = sorted({write.row for write in writes})
    return cells_table(rows, [sorted(write.cell() for write in writes if write.row == row) for row in rows])


def row_segment(writes: list[Write], family: Family) -> RowSegment:
    segment = RowSegment(family.versions, slice_rows=2)
    for row, number in sorted({(write.row, write.write_number) for write in writes}, key=lambda key: key[1]):
        cells = sorted(write.cell() for write in writes if (write.row, write.write_number) == (row, number))
        segment.apply(row, cells, lambda: from_then_on(0))
    return segment


def test_real_sources_answer_what_the_model_answers(tmp_path: Path) -> None:
    for case in CASES:
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        check_case(case, folder, open_files)
        open_files.close_idle()


def check_case(case: int, folder: Path, open_files: OpenFiles) -> None:
    """Compares three scans of one table with the model, each with a get of every row."""
    generator = generator_of(case)
    model = random_model(generator)
    stores = sources_of(model, folder, generator, open_files)
    for plan in (ScanPlan(), ScanPlan(reverse=True, batch_rows=1), random_plan(generator)):
        try:
            expected = list(model.scan(plan, b"", b""))
        except MismatchError:
            continue
        for window_bytes in (1, 300, 1 << 20):
            answers = scan(lambda: [*stores.values()], plan, all_rows_at(model.read_point), window_bytes=window_bytes)
            found: list[tuple[bytes, AnswerCell]] = [
                (cell["row"], (cell["family"], cell["qualifier"], cell["timestamp"], cell["value"]))
                for answer in answers
                for cell in answer.table.to_pylist()
            ]
            assert found == [(row, cell) for row, cells in expected for cell in cells], f"case {case}, {window_bytes}"
        if plan.row_limit == 0 and not plan.ranges:
            for row in model.rows():
                wanted = next((cells for key, cells in expected if key == row), [])
                assert read_row(stores, row, plan.selection, model.read_point) == wanted, f"case {case}, {row!r}"
