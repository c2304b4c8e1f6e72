"""What a scan reads, holds, copies and refuses; tests/property compares its answers with a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import DELETE_FAMILY, NEWEST, PUT, TIMESTAMP_MAX, Cell, Family, ReadPoint
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import FilterTypeError, LeaseExpiredError
from rowlock_regionserver.few_rows import FewRows
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.operations import (
    AllOf,
    CellFilter,
    ColumnComparison,
    ColumnSelector,
    CompareOp,
    FormColumn,
    RowComparison,
    RowPrefix,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.row_groups import NO_ROW_GROUPS
from rowlock_regionserver.row_ranges import clipped
from rowlock_regionserver.scan import scanner
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import (
    FIRST_WINDOW_BYTES,
    ROW_BYTES_ASSUMED,
    ScanAnswer,
    scan,
)
from rowlock_regionserver.scan.source_chunks import SOURCE_BYTES_MIN
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import Chunk, FewWanted, LinesWanted, Reading, RowPlace

from tests.property.list_source import ListSource, Write
from tests.unit.scan.buffers import addresses
from tests.unit.scan.whole_scans import all_rows_at

FAMILY = Family(1, b"f")
OTHER = Family(2, b"g")
READ_POINT = ReadPoint(NEWEST, 0)


def put(row: str, value: bytes = b"v", *, family: bytes = b"f", number: int = 1) -> Write:
    return Write(row.encode(), family, b"q", 100, number, PUT, value)


def numbered(count: int, step: int = 1, *, number: int = 1, family: bytes = b"f") -> list[Write]:
    return [put(f"{row:04d}", number=number, family=family) for row in range(0, count, step)]


def rows_of(answers: Sequence[ScanAnswer]) -> list[str]:
    return [cell["row"].decode() for answer in answers for cell in answer.table.select(["row"]).to_pylist()]


def scanned(view: View, plan: ScanPlan, *, window_bytes: int = 1 << 20) -> list[str]:
    return rows_of(list(scan(lambda: view, plan, all_rows_at(READ_POINT), window_bytes=window_bytes)))


class TableSource:
    """A source that returns one table whole."""

    write_number_min = 1
    write_number_max = 1
    has_tombstones = False
    line_timestamp_min = None
    timestamp_max = TIMESTAMP_MAX
    row_groups = NO_ROW_GROUPS

    def __init__(self, rows: Sequence[bytes], cells: Sequence[Sequence[Cell]]) -> None:
        self.table = cells_table(rows, cells)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[Cell]:
        raise AssertionError("a scan asks for rows")

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[Cell]:
        raise AssertionError("a scan asks for rows")

    def row_cell_count(self, row: bytes) -> int:
        raise AssertionError("a scan asks for rows")

    def row_source(self, row: bytes) -> RowPlace:
        raise AssertionError("a scan asks for rows")

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        return b"\xff" if reverse else start

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        raise AssertionError("a scan asks for rows")

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        return None

    def read_rows(
        self,
        start: bytes,
        stop: bytes,
        bytes_max: int,
        row_bytes_max: int = NO_LIMIT,
        *,
        reverse: bool = False,
        lines: LinesWanted | None = None,
        reading: Reading = Reading.BULK,
    ) -> Chunk:
        return Chunk(self.table, None, False, False, 1, 100)


def test_plain_source_passes_uncopied() -> None:
    source = TableSource([b"a", b"b"], [[(b"q", -100, -1, PUT, b"1")], [(b"q", -100, -1, PUT, b"2")]])
    (answer,) = scan(lambda: [(FAMILY, [source])], ScanPlan(), all_rows_at(READ_POINT))
    for name in ("row", "qualifier", "timestamp", "value"):
        assert addresses(answer.table)[name] == addresses(source.table)[name], name


def test_row_that_is_parted_by_chunks_is_one_row() -> None:
    cells = [(b"p", -100, -1, PUT, b"1"), (b"q", -100, -1, PUT, b"2"), (b"r", -100, -1, PUT, b"3")]
    source = TableSource([b"a", b"b"], [cells, cells])
    for parts in ([2, 2, 2], [3, 3], [4, 0, 2], [1] * 6):
        ends = list(accumulate(parts))
        table = pa.concat_tables([source.table.slice(end - size, size) for size, end in zip(parts, ends, strict=True)])
        source.table = table
        (answer,) = scan(lambda: [(FAMILY, [source])], ScanPlan(), all_rows_at(READ_POINT))
        assert (answer.row_count, rows_of([answer])) == (2, ["a"] * 3 + ["b"] * 3), parts
        answers = list(scan(lambda: [(FAMILY, [source])], ScanPlan(row_limit=1, reverse=True), all_rows_at(READ_POINT)))
        assert rows_of(answers) == ["b"] * 3, parts


def test_plain_flag_is_not_believed_beyond_the_read_point() -> None:
    source = TableSource([b"a"], [[(b"q", -100, -1, PUT, b"1")]])
    assert list(scan(lambda: [(FAMILY, [source])], ScanPlan(), all_rows_at(ReadPoint(0, 0)))) == []
    expiring = Family(1, b"f", time_to_live_ms=10)
    assert list(scan(lambda: [(expiring, [source])], ScanPlan(), all_rows_at(ReadPoint(1, 110)))) == []
    assert len(list(scan(lambda: [(expiring, [source])], ScanPlan(), all_rows_at(ReadPoint(1, 109))))) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_small_limit_reads_a_small_window(reverse: bool) -> None:
    source = ListSource(numbered(500), cells_at_once=20)
    view: View = [(FAMILY, [source])]
    assert len(scanned(view, ScanPlan(row_limit=10, reverse=reverse))) == 10
    assert source.asked == [10 * ROW_BYTES_ASSUMED * 9 // 8]
    # Windows grow while no row is found.
    source.asked.clear()
    nothing = Selection(where=ColumnComparison(b"f", b"q", CompareOp.EQUAL, b"nothing"))
    scanned(view, ScanPlan(nothing, row_limit=10, reverse=reverse))
    assert source.asked == sorted(source.asked)
    assert source.asked[-1] == 1 << 20


def test_windows_are_no_larger_than_the_rows_up_to_the_limit_need() -> None:
    rows = [replace(write, value=b"v" * 1000) for write in numbered(500)]
    source = ListSource(rows, cells_at_once=20)
    assert len(scanned([(FAMILY, [source])], ScanPlan(row_limit=400))) == 400
    left = range(380, 0, -20)
    assert source.asked[0] == FIRST_WINDOW_BYTES
    assert all(asked < 1100 * rows_left * 9 // 8 for asked, rows_left in zip(source.asked[-5:], left[-5:], strict=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("deleted_count", [1, 30, 1000])
def test_a_scan_of_one_row_reads_at_most_a_window_beyond_the_deleted_rows_that_it_passes(
    deleted_count: int, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "FIRST_SMALL_WINDOW_BYTES", 2)
    row_count, window_cells = 3000, 64
    rows = [f"{row:04d}".encode() for row in range(row_count)]
    deleted = rows[-deleted_count:] if reverse else rows[:deleted_count]
    puts = ListSource(numbered(row_count))
    tombstones = ListSource([Write(row, b"f", b"", 100, 2, DELETE_FAMILY, b"") for row in deleted])
    plan = ScanPlan(row_limit=1, reverse=reverse)
    found = scanned([(FAMILY, [puts, tombstones])], plan, window_bytes=window_cells)
    assert found == [f"{row_count - deleted_count - 1 if reverse else deleted_count:04d}"]
    assert tombstones.cells_read == deleted_count
    assert deleted_count < puts.cells_read <= deleted_count + window_cells
    # No window is larger, however many rows it passes: after each of them the scan may send a heartbeat.
    assert max(puts.asked) <= window_cells


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_read_once_however_the_sources_are_laid_out(reverse: bool) -> None:
    dense, sparse, other = numbered(200), numbered(200, 17, number=2), numbered(200, 3, family=b"g")
    sources = [ListSource(dense), ListSource(sparse, is_eager=True), ListSource(other)]
    view: View = [(FAMILY, sources[:2]), (OTHER, sources[2:])]
    rows = scanned(view, ScanPlan(reverse=reverse), window_bytes=4)
    assert sorted(set(rows), reverse=reverse) == list(dict.fromkeys(rows))
    assert [source.cells_read for source in sources] == [len(dense), len(sparse), len(other)]


def test_sources_that_overlap_share_the_bytes_of_a_window() -> None:
    sources = [ListSource(numbered(5000, number=number), cells_at_once=10) for number in range(1, 5)]
    list(scan(lambda: [(FAMILY, sources)], ScanPlan(), all_rows_at(READ_POINT)))
    for source in sources:
        assert source.asked[-1] == 8 * MIB // 4
        assert source.cells_read == 5000


def test_only_families_that_are_requested_or_filtered_by_are_read() -> None:
    sources = {name: ListSource([put("a", family=name)]) for name in (b"f", b"g", b"h")}
    view: View = [(Family(number, name), [source]) for number, (name, source) in enumerate(sources.items())]
    judged = ColumnComparison(b"g", b"q", CompareOp.EQUAL, b"v")
    assert scanned(view, ScanPlan(Selection(columns=(ColumnSelector(b"f"),), where=judged))) == ["a"]
    assert [source.cells_read for source in sources.values()] == [1, 1, 0]


def test_source_of_newer_writes_only_is_not_read() -> None:
    old, new = ListSource([put("a")]), ListSource([put("a", b"new", number=7)])
    (answer,) = scan(lambda: [(FAMILY, [old, new])], ScanPlan(), all_rows_at(ReadPoint(6, 0)))
    assert answer.table.column("value").to_pylist() == [b"v"]
    assert new.cells_read == 0


def test_leading_row_conditions_narrow_what_is_read() -> None:
    source = ListSource(numbered(500))
    condition = AllOf((RowPrefix(b"01"), RowComparison(CompareOp.LESS, b"0105")))
    assert scanned([(FAMILY, [source])], ScanPlan(Selection(where=condition))) == [f"010{digit}" for digit in range(5)]
    assert source.cells_read == 5


def test_scan_is_clipped_to_its_region() -> None:
    view: View = [(FAMILY, [ListSource(numbered(10))])]
    plan = ScanPlan(ranges=((b"", b"0003"), (b"0006", b"")))
    assert rows_of(list(scan(lambda: view, plan, (RowsAt((b"0002", b"0008"), READ_POINT),)))) == [
        "0002",
        "0006",
        "0007",
    ]


def test_error_of_the_view_ends_the_scan() -> None:
    view: View = [(FAMILY, [ListSource(numbered(100))])]
    asked = 0

    def sources_now() -> View:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise LeaseExpiredError("The scan's lease has expired.")
        return view

    answers = scan(sources_now, ScanPlan(batch_rows=1), all_rows_at(READ_POINT), window_bytes=2)
    assert rows_of([next(answers) for _ in range(4)]) == ["0000", "0001", "0002", "0003"]
    with pytest.raises(LeaseExpiredError):
        next(answers)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", [None, (FormColumn(b"f", b"q"),)])
def test_at_the_end_of_each_time_slice_it_gives_a_resume_key(
    reverse: bool, form: tuple[FormColumn, ...] | None
) -> None:
    wanted = {b"0007", b"0008", b"0031", b"0059"}
    writes = numbered(60)
    rare = [replace(write, value=b"wanted") if write.row in wanted else write for write in writes]
    view: View = [(FAMILY, [ListSource(rare)]), (OTHER, [ListSource(numbered(60, 7, family=b"g"))])]
    where = ColumnComparison(b"f", b"q", CompareOp.EQUAL, b"wanted")
    ranges = ((b"0003", b"0020"), (b"0020x", b"0021"), (b"0030", b"0032"), (b"0040", b""))
    plan = ScanPlan(Selection((ColumnSelector(b"f"),), where=where), ranges, reverse=reverse, row_form=form)
    whole = rows_of(list(scan(lambda: view, plan, all_rows_at(READ_POINT))))
    assert sorted(whole, reverse=reverse) == whole
    assert len(whole) == len(wanted)

    given = list(scan(lambda: view, plan, all_rows_at(READ_POINT), window_bytes=3, is_slice_over=lambda: True))
    assert rows_of(given) == whole
    assert len([answer for answer in given if not answer.table.num_rows]) > 10
    assert {answer.table.schema for answer in given if not answer.table.num_rows} == {given[0].table.schema}
    for place, answer in enumerate(given):
        if answer is given[-1] and not answer.resume_key:
            break
        start, stop = (b"", answer.resume_key) if reverse else (answer.resume_key, b"")
        rest = replace(plan, ranges=tuple(clipped(each, (start, stop)) for each in ranges))
        assert rows_of(list(scan(lambda: view, rest, all_rows_at(READ_POINT)))) == rows_of(given[place + 1 :])


def test_windows_become_smaller_when_they_take_longer_than_a_time_slice() -> None:
    source = ListSource(numbered(100), cells_at_once=10)
    asked = source.asked
    view: View = [(FAMILY, [source])]
    plan = ScanPlan(batch_bytes=1)
    list(scan(lambda: view, plan, all_rows_at(READ_POINT), is_slice_over=lambda: asked[-1] > 1 << 20))
    first = FIRST_WINDOW_BYTES
    assert asked[:7] == [first, 4 * first, 16 * first, 4 * first, 16 * first, 4 * first, 16 * first]


def test_the_first_read_is_small_only_if_other_sources_may_have_rows_there() -> None:
    alone, empty = ListSource(numbered(100)), ListSource([])
    list(scan(lambda: [(FAMILY, [alone, empty])], ScanPlan(batch_bytes=1), all_rows_at(READ_POINT)))
    assert alone.asked == [FIRST_WINDOW_BYTES]
    several = [ListSource(numbered(100)), ListSource(numbered(100, 7, number=2))]
    list(scan(lambda: [(FAMILY, several)], ScanPlan(), all_rows_at(READ_POINT)))
    assert [source.asked[0] for source in several] == [SOURCE_BYTES_MIN, SOURCE_BYTES_MIN]


@pytest.mark.parametrize(
    ("plan", "first"),
    [
        (ScanPlan(batch_bytes=4 << 20), 4 << 20),
        (ScanPlan(batch_bytes=64 << 20), 8 << 20),
        (ScanPlan(batch_bytes=1), FIRST_WINDOW_BYTES),
        (ScanPlan(batch_bytes=4 << 20, batch_rows=2000), 2000 * ROW_BYTES_ASSUMED),
        (ScanPlan(batch_bytes=4 << 20, row_limit=10_000), FIRST_WINDOW_BYTES),
    ],
    ids=["batch", "window", "small batch", "few rows", "limit"],
)
def test_the_first_window_is_as_large_as_what_is_answered_first(plan: ScanPlan, first: int) -> None:
    source = ListSource(numbered(100))
    list(scan(lambda: [(FAMILY, [source])], plan, all_rows_at(READ_POINT)))
    assert source.asked[0] == first


def test_during_a_time_slice_batches_have_the_requested_size() -> None:
    view: View = [(FAMILY, [ListSource(numbered(100))])]
    given = list(scan(lambda: view, ScanPlan(batch_rows=10), all_rows_at(READ_POINT), window_bytes=3))
    assert [(answer.row_count, answer.resume_key) for answer in given] == [(10, b"")] * 10


def test_a_row_cut_in_two_is_complete_at_its_resume_key() -> None:
    view: View = [(FAMILY, [ListSource([put("a", b"1" * 20), Write(b"a", b"f", b"r", 100, 1, PUT, b""), put("b")])])]
    plan = ScanPlan(batch_bytes=50)
    given = list(scan(lambda: view, plan, all_rows_at(READ_POINT), window_bytes=2, is_slice_over=lambda: True))
    assert [(rows_of([answer]), answer.row_continues, answer.resume_key) for answer in given] == [
        (["a"], True, b""),
        (["a"], False, b"b"),
        (["b"], False, b""),
    ]


TYPED = ColumnComparison(b"f", b"q", CompareOp.GREATER, b"0", ValueType.TEXT_INT)
BY_ROW = Selection(where=TYPED)
BY_CELL = Selection(cells=CellFilter(value_op=TYPED.op, value_operand=b"0", value_type=TYPED.type))


@pytest.mark.parametrize("selection", [BY_ROW, BY_CELL])
@pytest.mark.parametrize("reverse", [False, True])
def test_type_mismatch_is_raised_only_when_the_scan_reaches_it(selection: Selection, reverse: bool) -> None:
    values = [b"1", b"2", b"three", b"4", b"five"]
    if reverse:
        values.reverse()
    view: View = [(FAMILY, [ListSource([put(str(row), value) for row, value in enumerate(values)])])]
    rows = ["0", "1"] if not reverse else ["4", "3"]
    for window_bytes in (1, 1 << 20):
        assert scanned(view, ScanPlan(selection, row_limit=2, reverse=reverse), window_bytes=window_bytes) == rows
        with pytest.raises(FilterTypeError) as raised:
            scanned(view, ScanPlan(selection, row_limit=3, reverse=reverse), window_bytes=window_bytes)
        assert (raised.value.row, raised.value.family, raised.value.qualifier) == (b"2", b"f", b"q")


@pytest.mark.parametrize("reverse", [False, True])
def test_error_is_that_of_the_first_mismatch_over_cells_and_conditions(reverse: bool) -> None:
    view: View = [
        (FAMILY, [ListSource([put("1", b"1"), put("2", b"odd"), put("3", b"1")])]),
        (
            OTHER,
            [ListSource([put(row, value, family=b"g") for row, value in (("1", b"odd"), ("2", b"1"), ("3", b"odd"))])],
        ),
    ]
    condition = ColumnComparison(b"g", b"q", TYPED.op, b"0", TYPED.type)
    selection = Selection(columns=(ColumnSelector(b"f"),), where=condition, cells=BY_CELL.cells)

    def first_error(start: bytes, stop: bytes) -> tuple[bytes, bytes]:
        with pytest.raises(FilterTypeError) as raised:
            scanned(view, ScanPlan(selection, ranges=((start, stop),), reverse=reverse))
        return raised.value.row, raised.value.family

    assert first_error(b"", b"") == ((b"3", b"g") if reverse else (b"1", b"g"))
    # The cell's mismatch in row 2 comes before that of the filter.
    assert (first_error(b"", b"3") if reverse else first_error(b"2", b"")) == (b"2", b"f")


@pytest.mark.parametrize("reverse", [False, True])
def test_mismatches_of_cells_in_several_families_are_raised_in_the_order_of_rows(reverse: bool) -> None:
    view: View = [
        (FAMILY, [ListSource([put("1", b"1"), put("3", b"odd"), put("5", b"5")])]),
        (OTHER, [ListSource([put("2", b"odd", family=b"g"), put("4", b"odd", family=b"g")])]),
    ]
    with pytest.raises(FilterTypeError) as raised:
        scanned(view, ScanPlan(BY_CELL, reverse=reverse))
    assert raised.value.row == (b"4" if reverse else b"2")


def test_filter_is_not_evaluated_on_rows_that_answer_nothing() -> None:
    view: View = [
        (FAMILY, [ListSource([put("a", b"odd"), put("b", b"1")])]),
        (OTHER, [ListSource([put("b", family=b"g")])]),
    ]
    assert scanned(view, ScanPlan(Selection(columns=(ColumnSelector(b"g"),), where=TYPED))) == ["b"]


def test_plain_sources_that_share_a_column_answer_its_newest_version() -> None:
    view: View = [(FAMILY, [ListSource([put("a", b"old")]), ListSource([put("a", b"new", number=2)])])]
    (answer,) = scan(lambda: view, ScanPlan(), all_rows_at(READ_POINT))
    assert answer.table.column("value").to_pylist() == [b"new"]


def test_family_tombstone_hides_single_columns_that_are_requested() -> None:
    tombstone = Write(b"a", b"f", b"", 100, 2, DELETE_FAMILY, b"")
    view: View = [(FAMILY, [ListSource([put("a"), put("b")]), ListSource([tombstone])])]
    assert scanned(view, ScanPlan(Selection(columns=(ColumnSelector(b"f", b"q"),)))) == ["b"]


def test_scan_of_all_kinds_does_not_import_pandas() -> None:
    program = """
import sys
from rowlock_regionserver.operations import *
from tests.unit.scan.read_cases import WIDE, cells
for reverse in (False, True):
    for where in (None, ColumnComparison(b"f", b"c1", CompareOp.GREATER, b"0", ValueType.TEXT_INT)):
        for filter in (CellFilter(), CellFilter(qualifier_prefix=b"c", value_op=CompareOp.LESS, value_operand=b"4")):
            for columns in ((), (ColumnSelector(b"f", b"c1"), ColumnSelector(b"f", b"c2"), ColumnSelector(b"a"))):
                assert WIDE.answer_count(ScanPlan(Selection(columns, where=where, cells=filter), reverse=reverse))
sys.exit("pandas was imported" if "pandas" in sys.modules else 0)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_windows_of_a_limited_scan_grow_while_few_rows_match() -> None:
    """Else each of them would be as large as the rows that are left, of which none may be in it."""
    values = (b"wanted" if number % 500 == 0 else b"x" * 500 for number in range(9999))
    rows = [replace(write, value=value) for write, value in zip(numbered(9999), values, strict=True)]
    source = ListSource(rows, cells_at_once=100)
    plan = ScanPlan(Selection(where=ColumnComparison(b"f", b"q", CompareOp.EQUAL, b"wanted")), row_limit=100)
    assert len(scanned([(FAMILY, [source])], plan)) == 20
    assert max(source.asked) > 1_000_000, source.asked
