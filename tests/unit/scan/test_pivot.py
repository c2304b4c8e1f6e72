"""Scans in row form, case by case; tests/property compares random tables with a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.errors import FilterTypeError, LimitExceededError, RegionServerError
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnComparison,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    FormColumn,
    FormPart,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.scan.scanner import ScanAnswer, scan
from rowlock_regionserver.scan.window_split import View

from tests.property.list_source import ListSource, Write
from tests.seeds import generator_of
from tests.unit.scan.whole_scans import all_rows_at

FAMILY = Family(1, b"f", versions=3)
OTHER = Family(2, b"g", versions=3)
READ_POINT = ReadPoint(NEWEST, 0)
P, Q, R = (FormColumn(b"f", qualifier) for qualifier in (b"p", b"q", b"r"))
Line = tuple[object, ...]


def put(row: str, column: str, value: bytes, *, timestamp: int = 5, number: int = 1, kind: int = PUT) -> Write:
    family, _, qualifier = column.partition(":")
    return Write(row.encode(), family.encode(), qualifier.encode(), timestamp, number, kind, value)


def view_of(writes: Sequence[Write], *, in_chunks: bool = False) -> View:
    return [
        (family, [ListSource([write for write in writes if write.family == family.name], in_chunks=in_chunks)])
        for family in (FAMILY, OTHER)
    ]


def answers(writes: Sequence[Write], plan: ScanPlan, *, window_bytes: int = 1 << 20) -> list[ScanAnswer]:
    view = view_of(writes)
    return list(scan(lambda: view, plan, all_rows_at(READ_POINT), window_bytes=window_bytes))


def lines(given: Sequence[ScanAnswer]) -> list[Line]:
    found: list[Line] = []
    for answer in given:
        answer.table.validate(full=True)
        found += zip(*[column.to_pylist() for column in answer.table.columns], strict=True)
    return found


def scanned(
    writes: Sequence[Write], *form: FormColumn, selection: Selection | None = None, **fields: object
) -> list[Line]:
    plan = ScanPlan(selection or Selection(), row_form=form, **fields)  # type: ignore[arg-type]  # what a test names
    return lines(answers(writes, plan))


def timestamp_of(column: FormColumn) -> FormColumn:
    return column._replace(part=FormPart.TIMESTAMP)


def dense(row_count: int, length: int = 3) -> list[Write]:
    return [
        put(f"{row:04d}", f"f:{name}", f"{name}{row:0{length}d}".encode(), timestamp=row * 10 + place)
        for row in range(row_count)
        for place, name in enumerate("pqr")
    ]


SPARSE = [
    put("a", "f:p", b"ap"),
    put("a", "f:r", b""),
    put("b", "f:q", b"longer than the others"),
    put("c", "f:p", b"cp"),
    put("c", "f:q", b"cq"),
    put("c", "f:r", b"cr"),
    put("d", "f:s", b"asked by nobody"),
]


def test_rows_with_the_same_columns_stand_one_a_line() -> None:
    expected = [(b"%04d" % row, b"q%03d" % row, b"p%03d" % row, b"r%03d" % row) for row in range(200)]
    assert scanned(dense(200), Q, P, R) == expected
    assert scanned(dense(200), P) == [(row, p) for row, _, p, _ in expected]


def test_the_schema_is_the_protocols() -> None:
    (answer,) = answers(dense(2), ScanPlan(row_form=(P, timestamp_of(Q))))
    schema = answer.table.schema
    assert (schema.names, schema.types) == (["row", "0", "1"], [pa.binary(), pa.binary(), pa.int64()])
    assert [field.nullable for field in schema] == [False, True, True]


def test_what_a_row_does_not_have_is_null_and_an_empty_value_is_not() -> None:
    assert scanned(SPARSE, P, Q, R) == [
        (b"a", b"ap", None, b""),
        (b"b", None, b"longer than the others", None),
        (b"c", b"cp", b"cq", b"cr"),
        (b"d", None, None, None),
    ]
    assert scanned(SPARSE, R, selection=Selection((ColumnSelector(b"f", b"r"),))) == [(b"a", b""), (b"c", b"cr")]


def test_a_row_that_has_none_of_the_forms_columns_is_a_line_of_nulls_if_it_is_answered() -> None:
    asked = (ColumnSelector(b"f", b"q"), ColumnSelector(b"f", b"s"))
    assert scanned(SPARSE, Q, selection=Selection(asked))[-1] == (b"d", None)


def test_without_columns_every_row_is_a_line_also_one_of_another_family_alone() -> None:
    writes = [*dense(2), put("0000x", "g:p", b"only here"), put("0001", "g:p", b"both")]
    assert scanned(writes, P) == [(b"0000", b"p000"), (b"0000x", None), (b"0001", b"p001")]


def test_a_form_without_columns_gives_the_keys() -> None:
    assert scanned(SPARSE) == [(b"a",), (b"b",), (b"c",), (b"d",)]
    assert scanned([]) == []


def test_columns_that_no_row_has_and_families_without_cells_are_null() -> None:
    absent = FormColumn(b"g", b"p")
    assert scanned(SPARSE[:2], absent, FormColumn(b"f", b"zz"), timestamp_of(absent)) == [(b"a", None, None, None)]


def test_columns_of_several_families_stand_on_one_line() -> None:
    writes = [*dense(3), put("0000", "g:p", b"g0"), put("0001x", "g:p", b"only here"), put("0002", "g:", b"empty")]
    assert scanned(writes, FormColumn(b"g", b"p"), P, FormColumn(b"g", b"")) == [
        (b"0000", b"g0", b"p000", None),
        (b"0001", None, b"p001", None),
        (b"0001x", b"only here", None, None),
        (b"0002", None, b"p002", b"empty"),
    ]


def test_timestamps_are_the_newest_answered_versions() -> None:
    writes = [put("a", "f:p", b"%d" % stamp, timestamp=stamp, number=stamp) for stamp in (1, 2, 3)]
    writes.append(put("b", "f:q", b"", timestamp=7))
    assert scanned(writes, timestamp_of(P), P, timestamp_of(Q)) == [(b"a", 3, b"3", None), (b"b", None, None, 7)]
    of_old = Selection(time_stop=3, versions=3)
    assert scanned(writes, timestamp_of(P), P, selection=of_old) == [(b"a", 2, b"2")]


def test_of_several_versions_the_newest_stands_on_the_line() -> None:
    writes = [
        put(row, f"f:{name}", f"{row}{name}{stamp}".encode(), timestamp=stamp, number=stamp)
        for row in "ab"
        for name in "pq"
        for stamp in (1, 2, 3)
    ]
    expected = [(b"a", b"aq3", b"ap3"), (b"b", b"bq3", b"bp3")]
    assert scanned(writes, Q, P, selection=Selection(versions=3)) == expected
    assert scanned(writes, Q, P, selection=Selection(versions=3), reverse=True) == expected[::-1]


def test_deleted_cells_are_null_and_deleted_rows_are_absent() -> None:
    writes = [
        *SPARSE,
        put("a", "f:p", b"", number=2, kind=DELETE_COLUMN),
        put("c", "f:", b"", number=2, kind=DELETE_FAMILY),
        put("c", "f:q", b"again", number=3),
        put("d", "f:", b"", number=2, kind=DELETE_FAMILY),
    ]
    assert scanned(writes, P, Q, R) == [
        (b"a", None, None, b""),
        (b"b", None, b"longer than the others", None),
        (b"c", None, b"again", None),
    ]


def test_reverse_turns_the_lines_around_and_nothing_else() -> None:
    for writes in (dense(50), SPARSE):
        forwards = scanned(writes, R, P, timestamp_of(Q))
        assert scanned(writes, R, P, timestamp_of(Q), reverse=True) == forwards[::-1]


def test_limits_ranges_and_filters_choose_the_lines() -> None:
    assert [line[0] for line in scanned(dense(9), P, row_limit=4, batch_rows=3)] == [b"0000", b"0001", b"0002", b"0003"]
    ranges = ((b"0007", b""), (b"0001", b"0003"))
    assert [line[0] for line in scanned(dense(9), P, ranges=ranges)] == [b"0001", b"0002", b"0007", b"0008"]
    has_q = Selection(where=ColumnPresence(b"f", b"q", present=True))
    assert scanned(SPARSE, P, selection=has_q) == [(b"b", None), (b"c", b"cp")]


def test_cell_filters_leave_out_cells_before_they_are_laid_out() -> None:
    assert scanned(SPARSE, P, Q, R, selection=Selection(cells=CellFilter(first_key_only=True))) == [
        (b"a", b"ap", None, None),
        (b"b", None, b"longer than the others", None),
        (b"c", b"cp", None, None),
        (b"d", None, None, None),
    ]
    second = CellFilter(cell_offset=1, cell_limit=1, keys_only=True)
    assert scanned(SPARSE, P, Q, R, selection=Selection(cells=second)) == [
        (b"a", None, None, b""),
        (b"c", None, b"", None),
    ]


def failing(view: View, plan: ScanPlan, line_bytes_max: int = 1 << 20) -> tuple[list[Line], RegionServerError]:
    """Returns the lines before the failure, and the failure."""
    given: list[ScanAnswer] = []
    try:
        for answer in scan(lambda: view, plan, all_rows_at(READ_POINT), line_bytes_max=line_bytes_max):
            given.append(answer)
    except RegionServerError as error:
        return lines(given), error
    raise AssertionError("the scan did not fail")


def test_rows_before_a_value_that_fits_no_filter_are_given_first() -> None:
    view = view_of([put("a", "f:p", b"1"), put("b", "f:p", b"x"), put("c", "f:p", b"2")])
    number = Selection(where=ColumnComparison(b"f", b"p", CompareOp.GREATER, b"0", ValueType.TEXT_INT))
    given, error = failing(view, ScanPlan(number, row_form=(P,), batch_rows=1))
    assert (given, type(error)) == ([(b"a", b"1")], FilterTypeError)
    limited = ScanPlan(number, row_limit=1, row_form=(P,))
    assert lines(list(scan(lambda: view, limited, all_rows_at(READ_POINT)))) == [(b"a", b"1")]


@pytest.mark.parametrize("window_bytes", [1, 7, 1 << 20])
def test_rows_are_whole_however_windows_and_batches_are_cut(window_bytes: int) -> None:
    writes = [*dense(40), put("0020", "f:q", b"x" * 5000, number=2, timestamp=10_000)]
    plan = ScanPlan(row_form=(P, Q, R), batch_bytes=300, batch_rows=7)
    given = answers(writes, plan, window_bytes=window_bytes)
    assert not any(answer.row_continues for answer in given)
    assert [answer.row_count for answer in given] == [answer.table.num_rows for answer in given]
    assert max(answer.row_count for answer in given) == 7
    assert lines(given) == scanned(writes, P, Q, R)
    assert len(lines(given)) == 40


def test_a_row_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    writes = [put(row, "f:p", value) for row, value in (("a", b"1"), ("b", b"x" * 1000), ("c", b"2"))]
    given = answers(writes, ScanPlan(row_form=(P,), batch_bytes=100))
    assert [lines([answer])[0][0] for answer in given] == [b"a", b"b", b"c"]


def test_a_row_larger_than_an_answer_may_be_is_refused_when_the_scan_comes_to_it() -> None:
    view = view_of([put("a", "f:p", b"1"), put("b", "f:p", b"x" * 1000), put("c", "f:p", b"2")])
    plan = ScanPlan(row_form=(P,), batch_bytes=100)
    given, error = failing(view, plan, line_bytes_max=1008)
    assert given == [(b"a", b"1")]
    assert isinstance(error, LimitExceededError)
    assert "row 'b' takes 1009 bytes in row form" in error.message
    assert (error.limit, error.found, error.row) == ("request_bytes_max", 1009, b"b")
    assert len(list(scan(lambda: view, plan, all_rows_at(READ_POINT), line_bytes_max=1009))) == 3


@pytest.mark.parametrize("in_chunks", [False, True])
def test_random_tables_of_one_shape_come_out_as_they_went_in(in_chunks: bool) -> None:
    """Covers windows of many rows and chunks, for which the tables of the property test are too small."""
    for seed in range(60):
        generator = generator_of(seed)
        names = generator.sample(["", "a", "ab", "b", "c", "d"], generator.randint(1, 6))
        is_dense, length = generator.random() < 0.5, generator.choice([None, 1, 8, 100])
        writes = [
            put(f"{row:03d}", f"f:{name}", generator.randbytes(generator.randint(0, 9) if length is None else length))
            for row in range(generator.choice([1, 2, 30]))
            for name in names
            if is_dense or generator.random() < 0.7
        ]
        form = tuple(
            FormColumn(b"f", name.encode()) for name in generator.sample(names, generator.randint(1, len(names)))
        )
        by_row: dict[bytes, dict[bytes, bytes]] = {}
        for write in writes:
            by_row.setdefault(write.row, {})[write.qualifier] = write.value
        expected = [(row, *(by_row[row].get(column.qualifier) for column in form)) for row in sorted(by_row)]
        view = view_of(writes, in_chunks=in_chunks)
        plan = ScanPlan(row_form=form, reverse=generator.random() < 0.5)
        found = lines(list(scan(lambda: view, plan, all_rows_at(READ_POINT))))  # noqa: B023  # used at once
        assert found == (expected[::-1] if plan.reverse else expected), f"seed {seed}"


def test_values_of_others_are_not_touched() -> None:
    writes = [put(f"{row:03d}", f"f:{name}", b"x" * 1000) for row in range(100) for name in "pqr"]
    asked = Selection((ColumnSelector(b"f", b"p"),))
    (answer,) = answers(writes, ScanPlan(asked, row_form=(P,), batch_bytes=1 << 20))
    assert answer.table.get_total_buffer_size() < 110_000


def test_the_row_form_imports_no_pandas() -> None:
    code = (
        "import sys\n"
        "from tests.unit.scan.test_pivot import SPARSE, P, Q, R, answers, timestamp_of\n"
        "from rowlock_regionserver.operations import FormColumn, ScanPlan\n"
        "nobody = FormColumn(b'g', b'x')\n"
        "form = (P, Q, R, timestamp_of(P), nobody, timestamp_of(nobody))\n"
        "for reverse in (False, True):\n"
        "    assert answers(SPARSE, ScanPlan(row_form=form, reverse=reverse))\n"
        "assert answers([], ScanPlan(row_form=form)) == []\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
