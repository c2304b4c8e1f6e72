"""HBase's recorded answers to scans of ranges, directions, limits and wide rows, and the order of answers."""

from __future__ import annotations

import pytest
from rowlock_regionserver.cells import DELETE_COLUMN, PUT, Family
from rowlock_regionserver.operations import CellFilter, ColumnSelector, CompareOp, RowPrefix, ScanPlan, Selection
from rowlock_regionserver.scan.scanner import scan

from tests.property.list_source import Write
from tests.unit.scan.read_cases import FAMILY, READ_POINT, WIDE, Table, asked, cells, column, put, where
from tests.unit.scan.whole_scans import all_rows_at

# ---- ranges, limits and direction: rows a ab b c d e; ab has only column other; gone was deleted

RANGED = Table(
    (FAMILY, Family(2, b"empty")),
    (
        *(put(row, "q", row) for row in "abcde"),
        put("ab", "other", "ab"),
        put("gone", "q", "gone"),
        Write(b"gone", b"f", b"q", 200, 200, DELETE_COLUMN, b""),
    ),
)

RANGE_CASES: list[tuple[str, ScanPlan, str]] = [
    ("all", ScanPlan(), "a ab b c d e"),
    ("[b, d)", ScanPlan(ranges=((b"b", b"d"),)), "b c"),
    ("[aa, cc)", ScanPlan(ranges=((b"aa", b"cc"),)), "ab b c"),
    ("[-, c)", ScanPlan(ranges=((b"", b"c"),)), "a ab b"),
    ("[c, -)", ScanPlan(ranges=((b"c", b""),)), "c d e"),
    ("start = stop = b", ScanPlan(ranges=((b"b", b"b"),)), ""),
    ("reversed", ScanPlan(reverse=True), "e d c b ab a"),
    ("reversed [c, e): the same rows backwards", ScanPlan(ranges=((b"c", b"e"),), reverse=True), "d c"),
    ("prefix a, reversed as well", ScanPlan(where(RowPrefix(b"a")), reverse=True), "ab a"),
    ("limit 2", ScanPlan(row_limit=2), "a ab"),
    ("limit 2, reversed", ScanPlan(row_limit=2, reverse=True), "e d"),
    ("limit 0", ScanPlan(row_limit=0), "a ab b c d e"),
    ("column q: a row without it is left out", ScanPlan(Selection(columns=asked("q"))), "a b c d e"),
    ("column q, limit 2: a row without it does not count", ScanPlan(Selection(columns=asked("q")), row_limit=2), "a b"),
    ("absent qualifier", ScanPlan(Selection(columns=asked("no"))), ""),
    ("family without cells", ScanPlan(Selection(columns=(ColumnSelector(b"empty"),))), ""),
    (
        "a family and a column of it: the whole family (in HBase what was named last decides)",
        ScanPlan(Selection(columns=(ColumnSelector(b"f"), *asked("q")))),
        "a ab b c d e",
    ),
    ("ranges [a,ab)+[d,e]", ScanPlan(ranges=((b"d", b"e\x00"), (b"a", b"ab"))), "a d e"),
    ("overlapping ranges", ScanPlan(ranges=((b"a", b"c"), (b"ab", b"d"))), "a ab b c"),
    ("ranges reversed", ScanPlan(ranges=((b"a", b"b"), (b"d", b"")), reverse=True), "e d ab a"),
    (
        "limit 1 with a condition: what passed is counted",
        ScanPlan(where(column("q", CompareOp.GREATER, "b")), row_limit=1),
        "c",
    ),
]


@pytest.mark.parametrize(("name", "plan", "rows"), RANGE_CASES, ids=[case[0] for case in RANGE_CASES])
def test_ranges_and_limits_answer_as_hbase(name: str, plan: ScanPlan, rows: str) -> None:
    answered = RANGED.scanned(plan)
    assert [part.split("{")[0] for part in answered.replace("} ", "}|").split("|") if part] == rows.split(), name


def test_rows_and_cells_are_ordered_by_unsigned_bytes() -> None:
    rows = [b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\xff", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    qualifiers = [b"", b"\x00", b"Q", b"q", b"q\x00", b"qq", b"\x7f", b"\x80", b"\xff"]
    families = (Family(1, b"b"), Family(2, b"B"), Family(3, b"a"))
    writes = [Write(row, b"a", b"q", 1, 1, PUT, b"") for row in reversed(rows)]
    writes += [Write(b"c", family.name, name, 1, 1, PUT, b"") for family in families for name in reversed(qualifiers)]
    stores = Table(families, tuple(writes)).stores()
    cells = [
        cell
        for answer in scan(lambda: stores, ScanPlan(), all_rows_at(READ_POINT))
        for cell in answer.table.to_pylist()
    ]
    assert [cell["row"] for cell in cells if cell["row"] != b"c"] == rows
    found = [(cell["family"], cell["qualifier"]) for cell in cells if cell["row"] == b"c"]
    assert found == [(family, qualifier) for family in (b"B", b"a", b"b") for qualifier in qualifiers]


# ---- wide rows


@pytest.mark.parametrize(
    ("offset", "limit", "answer"),
    [
        (1, 2, "w1{c2=2 c3=3} w2{a:z=z c1=1}"),
        (4, 2, "w1{c5=5} w2{c3=3 c4=4}"),
        (5, 2, "w2{c4=4 c5=5}"),
        (6, 0, "w2{c5=5}"),
        (0, 1, "w1{c1=1} w2{a:y=y}"),
    ],
)
def test_pages_inside_wide_rows_are_counted_over_all_families(offset: int, limit: int, answer: str) -> None:
    selection = cells(CellFilter(cell_offset=offset, cell_limit=limit))
    assert WIDE.scanned(ScanPlan(selection)) == answer
    assert WIDE.got([b"w1", b"w2"], selection) == answer


def test_batches_that_cut_rows_count_whole_rows_against_the_limit() -> None:
    stores = WIDE.stores()
    for reverse, wanted in ((False, b"w1"), (True, b"w2")):
        plan = ScanPlan(row_limit=1, batch_bytes=1, reverse=reverse)
        answers = list(scan(lambda: stores, plan, all_rows_at(READ_POINT)))
        cells = [cell for answer in answers for cell in answer.table.to_pylist()]
        assert {cell["row"] for cell in cells} == {wanted}
        assert cells == sorted(cells, key=lambda cell: (cell["family"], cell["qualifier"]))
        assert [answer.row_continues for answer in answers] == [True] * (len(cells) - 1) + [False]
