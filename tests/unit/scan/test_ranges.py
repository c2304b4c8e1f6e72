"""Ranges of rows: prefixes, joining, clipping, and the filters that narrow a scan."""

from __future__ import annotations

import pytest
from rowlock_regionserver.operations import (
    AllOf,
    AnyOf,
    ColumnPresence,
    CompareOp,
    RowComparison,
    RowFilter,
    RowPrefix,
)
from rowlock_regionserver.row_ranges import EVERYTHING, RowRange, clipped, is_empty
from rowlock_regionserver.scan.filters import matches_row
from rowlock_regionserver.scan.ranges import joined, rows_that_may_match

ROWS = [b"\x00", b"a", b"a\x00", b"ab", b"b", b"b\x00", b"c", b"\xff", b"\xff\xff"]
PRESENT = ColumnPresence(b"f", b"q", present=True)


@pytest.mark.parametrize(
    ("ranges", "bounds", "result"),
    [
        ([(b"c", b"d"), (b"a", b"b")], EVERYTHING, [(b"a", b"b"), (b"c", b"d")]),
        ([(b"a", b"c"), (b"b", b"d")], EVERYTHING, [(b"a", b"d")]),
        ([(b"a", b"b"), (b"b", b"c")], EVERYTHING, [(b"a", b"c")]),
        ([(b"a", b""), (b"b", b"c")], EVERYTHING, [(b"a", b"")]),
        ([(b"a", b"d"), (b"b", b"c")], EVERYTHING, [(b"a", b"d")]),
        ([(b"b", b"c"), (b"a", b"")], (b"b", b"d"), [(b"b", b"d")]),
        ([(b"", b"")], (b"b", b"d"), [(b"b", b"d")]),
        ([(b"a", b"b"), (b"e", b"f")], (b"b", b"e"), []),
        ([(b"a", b"a")], EVERYTHING, []),
        ([], EVERYTHING, []),
    ],
)
def test_ranges_are_sorted_joined_and_clipped(ranges: list[RowRange], bounds: RowRange, result: list[RowRange]) -> None:
    assert joined(ranges, bounds) == result


@pytest.mark.parametrize("op", list(CompareOp))
@pytest.mark.parametrize("operand", [b"", b"a", b"b\x00", b"\xff\xff"])
def test_row_comparison_narrows_to_exactly_its_rows(op: CompareOp, operand: bytes) -> None:
    row_filter = RowComparison(op, operand)
    narrowed = rows_that_may_match(row_filter)
    matching = [row for row in ROWS if matches_row(row_filter, row, {})]
    within = [row for row in ROWS if not is_empty(clipped((row, row + b"\x00"), narrowed))]
    assert within == (ROWS if op == CompareOp.NOT_EQUAL else matching)


@pytest.mark.parametrize(
    ("row_filter", "narrowed"),
    [
        (None, EVERYTHING),
        (PRESENT, EVERYTHING),
        (AllOf((RowPrefix(b"a"), PRESENT)), (b"a", b"b")),
        (AllOf((RowPrefix(b"a"), RowComparison(CompareOp.LESS, b"ab"), PRESENT)), (b"a", b"ab")),
        # A row outside of the later row condition may have an error that must be raised.
        (AllOf((PRESENT, RowPrefix(b"a"))), EVERYTHING),
        (AllOf((AllOf((PRESENT,)), RowPrefix(b"a"))), EVERYTHING),
        (AllOf((AllOf((RowPrefix(b"a"), PRESENT)), RowPrefix(b"ab"))), (b"a", b"b")),
        (AnyOf((RowPrefix(b"a"),)), EVERYTHING),
    ],
)
def test_only_leading_row_conditions_narrow_a_scan(row_filter: RowFilter | None, narrowed: RowRange) -> None:
    assert rows_that_may_match(row_filter) == narrowed
