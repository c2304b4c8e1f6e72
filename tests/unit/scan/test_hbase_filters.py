"""HBase's recorded answers to filters, versions and time ranges, and where rowlock answers otherwise on purpose.

Each case is read twice, by a scan and row by row by gets. `hbase` stands only where HBase answers something else; `why`
says why rowlock doesn't.
"""

from __future__ import annotations

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.operations import (
    AllOf,
    AnyOf,
    CellFilter,
    ColumnPresence,
    CompareOp,
    NotOf,
    RowComparison,
    RowPrefix,
    ScanPlan,
    Selection,
)

from tests.unit.scan.read_cases import FAMILY, Table, asked, cells, column, put, where

# ---- filters: r1{a=1 b=x} r2{a=2} r3{b=y c=1} s1{a=1 ab=5 b=z} s2{a=""}

FILTERED = Table(
    (FAMILY,),
    (
        put("r1", "a", "1"),
        put("r1", "b", "x"),
        put("r2", "a", "2"),
        put("r3", "b", "y"),
        put("r3", "c", "1"),
        put("s1", "a", "1"),
        put("s1", "ab", "5"),
        put("s1", "b", "z"),
        put("s2", "a", ""),
    ),
)
EVERYTHING = "r1{a=1 b=x} r2{a=2} r3{b=y c=1} s1{a=1 ab=5 b=z} s2{a=}"
ABSENT = "an absent column does not match"
UNPROJECTED = "a condition needs no projection"
EQUAL, NOT_EQUAL, LESS = CompareOp.EQUAL, CompareOp.NOT_EQUAL, CompareOp.LESS
GREATER, GREATER_OR_EQUAL = CompareOp.GREATER, CompareOp.GREATER_OR_EQUAL

# (what HBase calls it, selection, answer, HBase's answer if another, why)
FILTER_CASES: list[tuple[str, Selection, str, str | None, str]] = [
    (
        "SCVF a=1",
        where(column("a", EQUAL, "1")),
        "r1{a=1 b=x} s1{a=1 ab=5 b=z}",
        "r1{a=1 b=x} r3{b=y c=1} s1{a=1 ab=5 b=z}",
        ABSENT,
    ),
    ("SCVF a=1, filterIfMissing", where(column("a", EQUAL, "1")), "r1{a=1 b=x} s1{a=1 ab=5 b=z}", None, ""),
    (
        "SCVF a=1, only b requested",
        where(column("a", EQUAL, "1"), "b"),
        "r1{b=x} s1{b=z}",
        "r1{b=x} r3{b=y} s1{b=z}",
        UNPROJECTED,
    ),
    (
        "SCVF a=1, filterIfMissing, only b requested",
        where(column("a", EQUAL, "1"), "b"),
        "r1{b=x} s1{b=z}",
        "",
        UNPROJECTED,
    ),
    ("SCVF a≠1, filterIfMissing", where(column("a", NOT_EQUAL, "1")), "r2{a=2} s2{a=}", None, ""),
    (
        "SCVF a≠1",
        where(column("a", NOT_EQUAL, "1")),
        "r2{a=2} s2{a=}",
        "r2{a=2} r3{b=y c=1} s2{a=}",
        ABSENT,
    ),
    (
        "the same, as the logical not of a comparison",
        where(NotOf(column("a", EQUAL, "1"))),
        "r2{a=2} r3{b=y c=1} s2{a=}",
        None,
        "",
    ),
    ("SCVF a GREATER 1, filterIfMissing", where(column("a", GREATER, "1")), "r2{a=2}", None, ""),
    (
        "SCVF a LESS 2, filterIfMissing",
        where(column("a", LESS, "2")),
        "r1{a=1 b=x} s1{a=1 ab=5 b=z} s2{a=}",
        None,
        "",
    ),
    ("NullComparator EQUAL on a", where(ColumnPresence(b"f", b"a", present=False)), "r3{b=y c=1}", None, ""),
    ("Prefix s", where(RowPrefix(b"s")), "s1{a=1 ab=5 b=z} s2{a=}", None, ""),
    ("empty Prefix", where(RowPrefix(b"")), EVERYTHING, None, ""),
    ("RowFilter ≥ r3", where(RowComparison(GREATER_OR_EQUAL, b"r3")), "r3{b=y c=1} s1{a=1 ab=5 b=z} s2{a=}", None, ""),
    ("KeyOnly", cells(CellFilter(keys_only=True)), "r1{a= b=} r2{a=} r3{b= c=} s1{a= ab= b=} s2{a=}", None, ""),
    ("FirstKeyOnly", cells(CellFilter(first_key_only=True)), "r1{a=1} r2{a=2} r3{b=y} s1{a=1} s2{a=}", None, ""),
    (
        "FirstKeyOnly with column b requested",
        Selection(columns=asked("b"), cells=CellFilter(first_key_only=True)),
        "r1{b=x} r3{b=y} s1{b=z}",
        None,
        "",
    ),
    (
        "ValueFilter =1",
        cells(CellFilter(value_op=EQUAL, value_operand=b"1")),
        "r1{a=1} r3{c=1} s1{a=1}",
        None,
        "",
    ),
    (
        "ValueFilter ≠1",
        cells(CellFilter(value_op=NOT_EQUAL, value_operand=b"1")),
        "r1{b=x} r2{a=2} r3{b=y} s1{ab=5 b=z} s2{a=}",
        None,
        "",
    ),
    ("ValueFilter, no match", cells(CellFilter(value_op=EQUAL, value_operand=b"no")), "", None, ""),
    (
        "ColumnValueFilter a=1",
        Selection(columns=asked("a"), cells=CellFilter(value_op=EQUAL, value_operand=b"1")),
        "r1{a=1} s1{a=1}",
        None,
        "",
    ),
    ("ColumnPrefix a", cells(CellFilter(qualifier_prefix=b"a")), "r1{a=1} r2{a=2} s1{a=1 ab=5} s2{a=}", None, ""),
    (
        "ColumnRange [a,b)",
        cells(CellFilter(qualifier_start=b"a", qualifier_stop=b"b")),
        "r1{a=1} r2{a=2} s1{a=1 ab=5} s2{a=}",
        None,
        "",
    ),
    (
        "QualifierFilter GREATER a",
        cells(CellFilter(qualifier_start=b"a\x00")),
        "r1{b=x} r3{b=y c=1} s1{ab=5 b=z}",
        None,
        "",
    ),
    (
        "ALL[Prefix s, Qualifier=b]",
        Selection(columns=asked("b"), where=RowPrefix(b"s")),
        "s1{b=z}",
        None,
        "",
    ),
    (
        "ONE[SCVF a=1, SCVF b=y], both filterIfMissing",
        where(AnyOf((column("a", EQUAL, "1"), column("b", EQUAL, "y")))),
        "r1{a=1 b=x} r3{b=y c=1} s1{a=1 ab=5 b=z}",
        None,
        "",
    ),
    ("empty list, ALL", where(AllOf(())), EVERYTHING, None, ""),
    ("empty list, ONE", where(AnyOf(())), "", EVERYTHING, "no part holds, so not one of them does"),
]


@pytest.mark.parametrize(
    ("name", "selection", "answer", "hbase", "why"), FILTER_CASES, ids=[c[0] for c in FILTER_CASES]
)
def test_filters_answer_as_hbase_or_differ_on_purpose(
    name: str, selection: Selection, answer: str, hbase: str | None, why: str
) -> None:
    assert FILTERED.scanned(ScanPlan(selection)) == answer
    assert FILTERED.got([b"r1", b"r2", b"r3", b"s1", b"s2", b"absent"], selection) == answer
    assert hbase != answer, f"{name} no longer differs from HBase"
    assert (hbase is None) == (why == "")


# ---- versions and time ranges: V3, old@100 new@200

VERSIONED = Table((Family(1, b"f", versions=3),), (put("r", "q", "old", 100), put("r", "q", "new", 200)))

VERSION_CASES: list[tuple[str, Selection, str, str | None, str]] = [
    ("1 version", Selection(), "r{q=new}", None, ""),
    ("5 versions", Selection(versions=5), "r{q=new q=old}", None, ""),
    ("time range [100,200)", Selection(time_start=100, time_stop=200, versions=5), "r{q=old}", None, ""),
    ("time range [0,150), 1 version", Selection(time_stop=150), "r{q=old}", None, ""),
    ("time range [101,200)", Selection(time_start=101, time_stop=200), "", None, ""),
    ("SCVF=old", where(column("q", EQUAL, "old")), "", None, ""),
    (
        "SCVF=old with time range [0,150)",
        Selection(time_stop=150, where=column("q", EQUAL, "old")),
        "",
        "r{q=old}",
        "a condition is judged on the row as it is, whatever of it is answered",
    ),
    (
        "ValueFilter=old, 1 version",
        cells(CellFilter(value_op=EQUAL, value_operand=b"old")),
        "",
        "r{q=old}",
        "the newest version was asked, and it is not `old`; an older one is no answer to that",
    ),
    (
        "ValueFilter=old, 2 versions",
        Selection(versions=2, cells=CellFilter(value_op=EQUAL, value_operand=b"old")),
        "r{q=old}",
        None,
        "",
    ),
]


@pytest.mark.parametrize(
    ("name", "selection", "answer", "hbase", "why"), VERSION_CASES, ids=[c[0] for c in VERSION_CASES]
)
def test_versions_answer_as_hbase_or_differ_on_purpose(
    name: str, selection: Selection, answer: str, hbase: str | None, why: str
) -> None:
    assert VERSIONED.scanned(ScanPlan(selection)) == answer
    assert VERSIONED.got([b"r"], selection) == answer
    assert hbase != answer, f"{name} no longer differs from HBase"
    assert (hbase is None) == (why == "")
