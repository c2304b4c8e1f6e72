"""A window of values that are away is split by rows, and each part has only what it needs of the others."""

from __future__ import annotations

import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import Family
from rowlock_regionserver.found_cells import AwayValue
from rowlock_regionserver.scan.window_selection import FamilyCells
from rowlock_regionserver.scan.window_split import Window, split_window

MIB = 1 << 20


@pytest.mark.parametrize("reverse", [False, True])
def test_a_part_without_rows_of_a_family_of_lines_has_no_lines_of_it(*, reverse: bool) -> None:
    """Lines without a block have no type, so nothing can be made of them."""
    large_rows = [b"a", b"b", b"z"]
    keys = cells_table(large_rows, [[(b"v", -5, -1, 0, b"")]] * 3)
    away = tuple((place, AwayValue(MIB, lambda: bytes(MIB))) for place in range(3))
    lines, _ = lines_of(cells_table([b"m", b"n"], [[(b"q", -5, -1, 0, b"small")]] * 2))
    assert lines is not None
    families = [
        FamilyCells(Family(0, b"f", versions=1), SortedRun.of_table(keys, away), 1),
        FamilyCells(Family(1, b"g", versions=1), SortedRun.of_table(keys.slice(0, 0)), 1, lines),
    ]
    parts = split_window(families, [], b"", MIB, reverse=reverse)
    counts = []
    for part in reversed(parts) if reverse else parts:
        assert isinstance(part, Window)
        run, of_lines = part.families[0].run, part.families[1].lines
        assert of_lines is None or len(of_lines)
        counts.append((len(run), 0 if of_lines is None else len(of_lines)))
    assert counts == [(1, 0), (1, 2), (1, 0)]
