"""Scans and gets over many store files: what they read, what they hold, and how many descriptors they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import CellFilter, ScanPlan, Selection
from rowlock_regionserver.scan.point import visible_row
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import Scan, scan
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import Run, StoreFile
from rowlock_regionserver.storefile.wide_run import WideRun
from rowlock_regionserver.storefile.writer import write_store_file

FAMILY = Family(1, b"f")
FILES = 600
ROWS = 100  # in a file, which has some three blocks
BLOCK_BYTES = 16 * KIB
VALUE = b"v" * 400
READ_POINT = ReadPoint(NEWEST, 0)


@pytest.fixture(scope="module")
def open_files() -> OpenFiles:
    return OpenFiles(Files(), count_max=8)


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory, open_files: OpenFiles) -> list[Run]:
    """Files with interleaved rows: row r is in file r % FILES."""
    folder = tmp_path_factory.mktemp("files")
    return [written(folder, number, range(number, FILES * ROWS, FILES), open_files) for number in range(FILES)]


def written(folder: Path, number: int, rows: Sequence[int], open_files: OpenFiles) -> Run:
    cells = [[(b"q", -1, -1 - number, PUT, VALUE)] for _ in rows]
    table = cells_table([b"%06d" % row for row in rows], cells)
    path = folder / f"{number}.store"
    family = Family(1, b"f", block_bytes=BLOCK_BYTES // 2)  # Wide blocks have twice as many.
    files = open_files.files
    info = write_store_file(path, [table], family, files, number=number)
    [run] = StoreFile.open(path, info, BlockCache(0), open_files).runs
    assert isinstance(run, WideRun)
    return run


def blocks_read(files: Sequence[Run]) -> int:
    return sum(file.statistics().block_read_count for file in files)


def begun(files: Sequence[Run], plan: ScanPlan, start: bytes = b"", merge_bytes_max: int = 64 * MIB) -> Scan:
    return scan(lambda: [(FAMILY, files)], plan, (RowsAt((start, b""), READ_POINT),), merge_bytes_max=merge_bytes_max)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_with_a_limit_touches_few_blocks_and_holds_little(overlapping: list[Run], reverse: bool) -> None:
    before = blocks_read(overlapping)
    answers = begun(overlapping, ScanPlan(row_limit=1, reverse=reverse))
    (answer,) = answers
    assert answer.table.column("row").to_pylist() == [b"%06d" % (FILES * ROWS - 1 if reverse else 0)]
    assert blocks_read(overlapping) - before <= 3
    # Two blocks of one file, each counted in the window and again in what the window has not used.
    assert answers.bytes_held <= 4 * BLOCK_BYTES


def test_a_scan_that_begins_in_the_middle_reads_little_of_each(overlapping: list[Run]) -> None:
    before = blocks_read(overlapping)
    (answer,) = begun(overlapping, ScanPlan(row_limit=3), b"030001x")
    assert answer.table.column("row").to_pylist() == [b"030002", b"030003", b"030004"]
    assert blocks_read(overlapping) - before <= 2 * FILES


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("count", "merge_bytes_max"), [(60, 128 * KIB), (FILES, 64 * MIB)])
def test_a_whole_scan_is_right_and_what_it_holds_is_counted_and_bounded(
    overlapping: list[Run], count: int, merge_bytes_max: int, reverse: bool
) -> None:
    files = overlapping[:count]
    before, allocated = blocks_read(files), pa.total_allocated_bytes()
    answers = begun(files, ScanPlan(reverse=reverse, batch_bytes=64 * KIB), merge_bytes_max=merge_bytes_max)
    rows: list[object] = []
    for answer in answers:
        assert answers.bytes_held <= merge_bytes_max + 16 * MIB
        # Beside what is counted there is this answer, which is cut from a window.
        held = answers.bytes_held + answer.table.get_total_buffer_size()
        assert pa.total_allocated_bytes() - allocated <= held + 8 * MIB
        rows += answer.table.column("row").to_pylist()
    wanted = [b"%06d" % row for row in range(FILES * ROWS) if row % FILES < count]
    assert rows == sorted(wanted, reverse=reverse)
    if count == FILES:
        assert blocks_read(files) - before == sum(len(file.row_weights()) for file in files), "blocks were read again"


def test_a_count_reads_a_row_at_a_time_without_values(overlapping: list[Run]) -> None:
    keys = Selection(cells=CellFilter(keys_only=True, first_key_only=True))
    assert sum(answer.row_count for answer in begun(overlapping, ScanPlan(keys))) == FILES * ROWS


def test_no_more_descriptors_are_open_than_may_be(overlapping: list[Run], open_files: OpenFiles) -> None:
    for row in range(0, FILES * ROWS, 97):
        (cell,) = visible_row(overlapping, b"%06d" % row, READ_POINT, FAMILY)
        assert cell[4] == VALUE
    assert open_files.statistics().open_count <= 8
