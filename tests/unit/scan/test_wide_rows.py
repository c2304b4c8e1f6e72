"""Rows and values that are too large to hold: what a scan reads of them, and what it skips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.cells import DELETE_FAMILY, DELETE_VERSION, NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.errors import FilterTypeError, LimitExceededError
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnComparison,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    FormColumn,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.scan.scanner import Scan, ScanAnswer, scan
from rowlock_regionserver.scan.window_split import View

from tests.property.list_source import ListSource, Write
from tests.unit.scan.whole_scans import all_rows_at

FAMILY = Family(1, b"f")
OTHER = Family(2, b"g")
READ_POINT = ReadPoint(NEWEST, 0)
# What a window holds; sources of lists count cells instead.
WINDOW = 100


def put(row: bytes, column: int | bytes, value: bytes = b"v", number: int = 1, family: bytes = b"f") -> Write:
    qualifier = column if isinstance(column, bytes) else b"%06d" % column
    return Write(row, family, qualifier, 100 + number, number, PUT, value)


def wide(row: bytes, count: int, **others: bytes) -> list[Write]:
    return [put(row, column, **others) for column in range(count)]  # type: ignore[arg-type]  # families


def begun(view: View, plan: ScanPlan, is_slice_over: Callable[[], bool] = lambda: False) -> Scan:
    return scan(lambda: view, plan, all_rows_at(READ_POINT), window_bytes=WINDOW, is_slice_over=is_slice_over)


def cells(answers: Sequence[ScanAnswer]) -> list[tuple[bytes, bytes, bytes]]:
    return [(cell["row"], cell["qualifier"], cell["value"]) for answer in answers for cell in answer.table.to_pylist()]


def test_of_a_replaced_large_cell_one_value_is_read() -> None:
    sources = [ListSource([put(b"r", 1, b"large" * 20, number)], away_from=50) for number in range(1, 229)]
    for plan in (ScanPlan(), ScanPlan(row_limit=1), ScanPlan(reverse=True)):
        answers = list(begun([(FAMILY, sources)], plan))
        assert cells(answers) == [(b"r", b"000001", b"large" * 20)]
        assert [source.values_loaded for source in sources] == [0] * 227 + [1]
        sources[-1].values_loaded = 0


def test_deleted_large_cells_are_not_read() -> None:
    sources = [ListSource([put(b"r", 1, b"large" * 20, number)], away_from=50) for number in range(1, 20)]
    tombstone = ListSource([Write(b"r", b"f", b"", 1000, 20, DELETE_FAMILY, b"")])
    assert list(begun([(FAMILY, [tombstone, *sources])], ScanPlan())) == []
    assert not any(source.values_loaded for source in sources)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(cells=CellFilter(keys_only=True)),
        Selection(cells=CellFilter(keys_only=True, first_key_only=True)),
        Selection(
            (ColumnSelector(b"f"),), where=ColumnPresence(b"g", b"q", present=True), cells=CellFilter(keys_only=True)
        ),
    ],
)
def test_keys_are_read_without_values(selection: Selection) -> None:
    large = ListSource([put(row, column, b"large" * 20) for row in (b"a", b"b") for column in range(3)], away_from=50)
    small = ListSource([put(row, b"q", family=b"g") for row in (b"a", b"b")])
    answers = list(begun([(FAMILY, [large]), (OTHER, [small])], ScanPlan(selection)))
    assert {row for row, _, _ in cells(answers)} == {b"a", b"b"}
    assert {value for _, _, value in cells(answers)} == {b""}
    assert large.values_loaded == 0


def test_values_are_read_when_their_batch_is_made() -> None:
    source = ListSource([put(b"r", column, b"large" * 20) for column in range(50)], away_from=50)
    answers = begun([(FAMILY, [source])], ScanPlan(batch_bytes=300))
    loaded = []
    for answer in answers:
        loaded.append(source.values_loaded)
        assert answer.row_continues == (len(loaded) < 25)
    assert len(loaded) == 25
    assert loaded[0] <= 4, "more than a batch and the cell behind it"
    assert loaded == sorted(loaded)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_wide_row_stands_between_others(reverse: bool, is_away: bool) -> None:
    writes = [put(b"a", 1), *wide(b"b", 777, value=b"x" * 10), put(b"b\x00", 1), *wide(b"c", 501), put(b"d", 1)]
    sources = [ListSource(writes[start::3], away_from=5 if is_away else 1 << 20) for start in range(3)]
    answers = list(begun([(FAMILY, sources)], ScanPlan(reverse=reverse, batch_bytes=1000)))
    found = cells(answers)
    rows = sorted({write.row for write in writes}, reverse=reverse)
    expected = [(write.row, write.qualifier, write.value) for row in rows for write in sorted_writes(writes, row)]
    assert found == expected
    assert sum(answer.row_count for answer in answers) == len(rows)


def sorted_writes(writes: Sequence[Write], row: bytes) -> list[Write]:
    return sorted([write for write in writes if write.row == row], key=lambda write: write.qualifier)


def test_a_wide_row_is_one_row_of_the_limit() -> None:
    view: View = [(FAMILY, [ListSource([*wide(b"a", 1000), *wide(b"b", 1000), put(b"c", 1)])])]
    for limit, count in ((1, 1000), (2, 2000), (3, 2001)):
        assert len(cells(list(begun(view, ScanPlan(row_limit=limit, batch_bytes=500))))) == count


def test_the_rest_of_a_wide_row_is_not_read_when_its_page_is_full() -> None:
    source = ListSource(wide(b"a", 10_000))
    for cell_filter, count in (
        (CellFilter(first_key_only=True), 1),
        (CellFilter(cell_offset=150, cell_limit=100), 100),
    ):
        source.cells_read = 0
        answers = list(begun([(FAMILY, [source])], ScanPlan(Selection(cells=cell_filter), row_limit=1)))
        assert len(cells(answers)) == count
        assert source.cells_read <= 500


def test_few_columns_of_a_wide_row_are_read_alone() -> None:
    source = ListSource([*wide(b"a", 10_000), *wide(b"b", 10_000)])
    asked = Selection((ColumnSelector(b"f", b"000007"), ColumnSelector(b"f", b"009000"), ColumnSelector(b"f", b"none")))
    found = cells(list(begun([(FAMILY, [source])], ScanPlan(asked))))
    assert found == [(row, column, b"v") for row in (b"a", b"b") for column in (b"000007", b"009000")]
    assert source.cells_read == 0


def test_a_range_of_qualifiers_is_read_alone() -> None:
    source = ListSource(wide(b"a", 10_000))
    cell_filter = CellFilter(qualifier_prefix=b"0012", qualifier_start=b"001250")
    assert len(cells(list(begun([(FAMILY, [source])], ScanPlan(Selection(cells=cell_filter)))))) == 50
    assert source.cells_read == 50


def test_a_filter_is_evaluated_before_a_wide_row_is_answered() -> None:
    judged = ColumnComparison(b"f", b"009999", CompareOp.EQUAL, b"no")
    source = ListSource(wide(b"a", 10_000))
    assert list(begun([(FAMILY, [source])], ScanPlan(Selection(where=judged)))) == []
    assert source.cells_read < 500
    matching = replace(judged, operand=b"v")
    assert len(cells(list(begun([(FAMILY, [source])], ScanPlan(Selection(where=matching)))))) == 10_000
    mismatch = replace(judged, type=ValueType.TEXT_INT, operand=b"1")
    with pytest.raises(FilterTypeError):
        list(begun([(FAMILY, [source])], ScanPlan(Selection(where=mismatch))))


def test_tombstones_of_the_family_reach_every_part() -> None:
    tombstone = Write(b"a", b"f", b"", 101, 2, DELETE_FAMILY, b"")
    kept = [put(b"a", column, b"new", 3) for column in range(0, 1000, 10)]
    source = ListSource([tombstone, *wide(b"a", 1000), *kept])
    assert cells(list(begun([(FAMILY, [source])], ScanPlan()))) == [(b"a", write.qualifier, b"new") for write in kept]


@pytest.mark.parametrize("versions", [1, 3, 1000])
@pytest.mark.parametrize("asked", [1, 2, 1000])
def test_visibility_of_a_column_that_is_larger_than_a_part_considers_all_of_it(versions: int, asked: int) -> None:
    family = Family(1, b"f", versions=versions)
    writes = [*wide(b"a", 20), *[put(b"a", b"000010x", b"%d" % number, number) for number in range(1, 901)]]
    # With all but one version requested, it makes the oldest version visible that existed when it was written.
    writes.append(Write(b"a", b"f", b"000010x", 100 + 899, 901, DELETE_VERSION, b""))
    sources = [ListSource(writes[start::2]) for start in range(2)]
    for selection in (Selection(versions=asked), Selection((ColumnSelector(b"f", b"000010x"),), versions=asked)):
        found = cells(list(begun([(family, sources)], ScanPlan(selection))))
        column = [value for _, qualifier, value in found if qualifier == b"000010x"]
        expected = [number for number in range(900, max(0, 900 - versions), -1) if number != 899][:asked]
        assert column == [b"%d" % number for number in expected]
        assert len(found) - len(column) == (0 if selection.columns else 20)


def test_times_and_versions_are_chosen_of_each_column_of_a_wide_row() -> None:
    writes = [put(b"r", column, b"%d" % number, number) for column in range(200) for number in range(1, 5)]
    sources = [ListSource(writes[start::2]) for start in range(2)]
    plan = ScanPlan(Selection(time_stop=104, versions=2))
    found = cells(list(begun([(replace(FAMILY, versions=4), sources)], plan)))
    assert found == [(b"r", b"%06d" % column, b"%d" % number) for column in range(200) for number in (3, 2)]


def test_a_time_range_of_a_long_column() -> None:
    family = Family(1, b"f", versions=1000)
    source = ListSource([put(b"a", 1, b"%d" % number, number) for number in range(1, 901)])
    selection = Selection(time_start=201, time_stop=301, versions=3)
    found = cells(list(begun([(family, [source])], ScanPlan(selection))))
    assert [value for _, _, value in found] == [b"200", b"199", b"198"]


def test_a_line_of_a_wide_row_has_the_columns_of_the_form() -> None:
    source = ListSource([put(b"a", 1), *wide(b"b", 10_000), put(b"c", 9999, b"c")], away_from=0)
    form = (FormColumn(b"f", b"009999"), FormColumn(b"f", b"000001"), FormColumn(b"f", b"none"))
    for reverse in (False, True):
        answers = list(begun([(FAMILY, [source])], ScanPlan(row_form=form, reverse=reverse)))
        lines = [tuple(line.values()) for answer in answers for line in answer.table.to_pylist()]
        assert sorted(lines) == [(b"a", None, b"v", None), (b"b", b"v", b"v", None), (b"c", b"c", None, None)]
        assert lines == sorted(lines, reverse=reverse)
    absent = list(begun([(FAMILY, [source])], ScanPlan(row_form=(FormColumn(b"f", b"none"),))))
    assert [line for answer in absent for line in answer.table.to_pylist()] == [
        {"row": row, "0": None} for row in (b"a", b"b", b"c")
    ]


def test_a_line_beyond_the_limit_is_refused_before_its_values_are_read() -> None:
    source = ListSource([put(b"a", 1), *wide(b"b", 500, value=b"x" * 1000)], away_from=50)
    form = tuple(FormColumn(b"f", b"%06d" % column) for column in range(500))
    plan = ScanPlan(row_form=form)
    answers = scan(
        lambda: [(FAMILY, [source])], plan, all_rows_at(READ_POINT), window_bytes=WINDOW, line_bytes_max=9000
    )
    assert next(answers).table.column("row").to_pylist() == [b"a"]
    with pytest.raises(LimitExceededError, match="row 'b'"):
        next(answers)
    assert source.values_loaded == 0


def test_a_wide_row_that_answers_nothing_gives_signs_of_life() -> None:
    tombstone = Write(b"b", b"f", b"", 1000, 2, DELETE_FAMILY, b"")
    source = ListSource([put(b"a", 1), tombstone, *wide(b"b", 2000), put(b"c", 1)])
    for reverse in (False, True):
        answers = list(begun([(FAMILY, [source])], ScanPlan(reverse=reverse), lambda: True))
        reached = [answer.resume_key for answer in answers]
        assert reached.count(b"b\x00" if reverse else b"b") > 5
        assert [row for row, _, _ in cells(answers)] == ([b"c", b"a"] if reverse else [b"a", b"c"])


def test_what_a_scan_holds_does_not_grow_with_its_rows() -> None:
    source = ListSource([*wide(b"a", 5000, value=b"x" * 100), *wide(b"b", 5000, value=b"x" * 100)], away_from=50)
    answers = begun([(FAMILY, [source])], ScanPlan(batch_bytes=10_000))
    held = [answers.bytes_held for _ in answers]
    assert len(held) > 100
    assert max(held) < 100_000
