"""Scans in row form whose windows have lines, case by case; tests/property compares random tables with a model."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, PUT, Family, ReadPoint
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import (
    ColumnComparison,
    CompareOp,
    FormColumn,
    FormPart,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.scan.window_split import View

from tests.property.list_source import ListSource, Write
from tests.unit.scan.whole_scans import all_rows_at

F = Family(1, b"f", versions=3)
G = Family(2, b"g")
P, Q = FormColumn(b"f", b"p"), FormColumn(b"f", b"q")
READ_POINT = ReadPoint(10, 1000)


def put(row: bytes, column: bytes, value: bytes, number: int = 1, *, kind: int = PUT, timestamp: int = 5) -> Write:
    family, _, qualifier = column.partition(b":")
    return Write(row, family, qualifier, timestamp, number, kind, value)


def scanned(
    *sources: tuple[Family, Sequence[Write], bool], form: Sequence[FormColumn], **fields: object
) -> list[tuple[object, ...]]:
    """Returns the answered rows; a source is a family, its writes, and whether it has them as lines."""
    families = dict.fromkeys(family for family, _, _ in sources)
    view: View = [
        (family, [ListSource(writes, has_lines=lines) for of_family, writes, lines in sources if of_family == family])
        for family in families
    ]
    plan = ScanPlan(row_form=tuple(form), **fields)  # type: ignore[arg-type]  # what a test names
    answers = scan(lambda: view, plan, all_rows_at(READ_POINT))
    return [
        row for answer in answers for row in zip(*[column.to_pylist() for column in answer.table.columns], strict=True)
    ]


def test_a_row_whose_cells_are_all_hidden_is_not_there_whatever_columns_are_read() -> None:
    lines = [put(b"a", b"f:q", b"q"), put(b"b", b"f:q", b"q")]
    for kind, qualifier in ((DELETE_FAMILY, b"f:"), (DELETE_COLUMN, b"f:q")):
        tombstone = put(b"a", qualifier, b"", 2, kind=kind)
        assert scanned((F, lines, True), (F, [tombstone], False), form=[P]) == [(b"b", None)]
        assert scanned((F, lines, True), (F, [tombstone], False), form=[]) == [(b"b",)]


def test_a_row_that_is_not_seen_yet_is_not_there_whatever_columns_are_read() -> None:
    lines = [put(b"a", b"f:q", b"q", 11), put(b"b", b"f:q", b"q")]
    assert scanned((F, lines, True), form=[P]) == [(b"b", None)]
    expiring = Family(1, b"f", time_to_live_ms=100)
    lines = [put(b"a", b"f:q", b"q", timestamp=900), put(b"b", b"f:q", b"q", timestamp=901)]
    assert scanned((expiring, lines, True), form=[]) == [(b"b",)]


def test_a_row_stays_there_when_a_write_that_is_not_seen_covers_its_only_line() -> None:
    line = put(b"a", b"f:p", b"p", 1)
    later = [put(b"a", b"f:p", b"later", 11), put(b"b", b"f:p", b"seen", 2)]
    assert scanned((F, [line], True), (F, later, False), form=[Q]) == [(b"a", None), (b"b", None)]
    assert scanned((F, [line], True), (F, later, False), form=[P]) == [(b"a", b"p"), (b"b", b"seen")]


def test_rows_without_a_column_of_the_form_are_there() -> None:
    f, g = [put(b"a", b"f:p", b"p"), put(b"b", b"f:q", b"q")], [put(b"c", b"g:p", b"p")]
    assert scanned((F, f, True), (G, g, True), form=[P]) == [(b"a", b"p"), (b"b", None), (b"c", None)]
    assert scanned((F, f, True), (G, g, False), form=[P], reverse=True) == [(b"c", None), (b"b", None), (b"a", b"p")]
    assert scanned((F, f, True), (G, g, True), form=[P], row_limit=2) == [(b"a", b"p"), (b"b", None)]


def test_families_are_put_side_by_side_by_row() -> None:
    of_g = FormColumn(b"g", b"x", FormPart.TIMESTAMP)
    f = [put(b"a", b"f:p", b"1"), put(b"b", b"f:p", b"22"), put(b"c", b"f:p", b"")]
    g = [put(row, b"g:x", b"x", timestamp=place) for place, row in enumerate((b"a", b"b", b"c"))]
    expected = [(b"a", b"1", 0), (b"b", b"22", 1), (b"c", b"", 2)]
    for as_lines in ((True, True), (True, False), (False, True)):
        assert scanned((F, f, as_lines[0]), (G, g, as_lines[1]), form=[P, of_g]) == expected
    some = [(b"a", b"1", None), (b"b", b"22", 1), (b"c", b"", None)]
    assert scanned((F, f, True), (G, g[1:2], True), form=[P, of_g]) == some


def test_a_filter_reads_columns_beyond_the_form_and_names_what_does_not_fit() -> None:
    rows = [put(b"a", b"f:q", b"\x00\x05"), put(b"b", b"f:q", b"\x00\x09"), put(b"c", b"f:q", b"odd")]
    where = ColumnComparison(b"f", b"q", CompareOp.GREATER, b"\x00\x06", ValueType.INT16)
    with pytest.raises(FilterTypeError, match="row 'c'"):
        scanned((F, rows, True), form=[P], selection=Selection(where=where))
    assert scanned((F, rows[:2], True), form=[P], selection=Selection(where=where)) == [(b"b", None)]
    # The limit is reached before the row that does not fit.
    assert scanned((F, rows, True), form=[P], selection=Selection(where=where), row_limit=1) == [(b"b", None)]


def test_values_of_one_length_may_have_a_type_of_fixed_size() -> None:
    writes = [put(b"a", b"f:p", b"11"), put(b"b", b"f:p", b"22"), put(b"b", b"f:q", b"")]
    for fixed_size, types in ((False, [pa.binary(), pa.binary()]), (True, [pa.binary(2), pa.binary()])):
        view: View = [(F, [ListSource(writes, has_lines=True)])]
        plan = ScanPlan(row_form=(P, Q), fixed_size=fixed_size)
        (answer,) = scan(lambda view=view: view, plan, all_rows_at(READ_POINT))  # type: ignore[misc]
        assert answer.table.schema.types == [pa.binary(), *types]
        assert answer.table.to_pydict() == {"row": [b"a", b"b"], "0": [b"11", b"22"], "1": [None, b""]}
