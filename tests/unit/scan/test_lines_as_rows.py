"""Rows in columns, which stand for cells, are bounded as these."""

from __future__ import annotations

import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.scan.scanner import scan

from tests.unit.scan.whole_scans import all_rows_at

BATCH_BYTES = 64 * 1024
# Of 50 columns of a byte each, under long keys.
QUALIFIERS = [b"%02d" % number for number in range(50)]
ROWS = [b"%0200d" % number for number in range(300)]


@pytest.mark.parametrize("lines", [False, True])
def test_a_batch_of_narrow_rows_has_no_more_rows_than_one_of_their_cells(*, lines: bool) -> None:
    formed, _ = lines_of(cells_table(ROWS, [[(qualifier, -5, -1, 0, b"x") for qualifier in QUALIFIERS]] * len(ROWS)))
    assert formed is not None
    segment = LinesSegment(formed)
    plan = ScanPlan(lines=lines, batch_bytes=BATCH_BYTES)
    answers = list(
        scan(
            lambda: [(Family(0, b"f", versions=1), [segment])],
            plan,
            all_rows_at(ReadPoint(100, 1 << 40)),
            window_bytes=1 << 20,
        )
    )
    assert bool(answers[0].columns) is lines
    assert sum(answer.row_count for answer in answers) == len(ROWS)
    cells_bytes = len(QUALIFIERS) * (len(ROWS[0]) + 20)
    assert max(answer.row_count for answer in answers) <= BATCH_BYTES // cells_bytes
