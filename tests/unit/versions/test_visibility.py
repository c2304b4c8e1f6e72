"""Both forms of the visibility rules against the hand-written table of cases, and what they do not copy."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table, empty_cells
from rowlock_regionserver.cells import NEWEST, Cell, Family, ReadPoint, from_then_on
from rowlock_regionserver.versions.retention import Retention, expired_through, retained_cells
from rowlock_regionserver.versions.visibility import visible_cells

from tests.property.visibility_model import cells_by_row, literal_visible_cells, table_of
from tests.unit.versions.masked_tables import retained, visible
from tests.unit.versions.visibility_cases import CASES, Case, answer_of

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_the_state_machine_answers_as_written(case: Case) -> None:
    assert answer_of(visible_cells(case.cells(), case.moment, case.family)) == case.answer


@every_case
def test_the_vectors_answer_as_written(case: Case) -> None:
    table = visible(table_of([case.cells()]), case.moment, case.family)
    table.validate(full=True)
    assert answer_of(cells_by_row(table, 1)[0]) == case.answer


@every_case
def test_the_model_of_the_random_tests_answers_as_written(case: Case) -> None:
    assert answer_of(literal_visible_cells(case.cells(), case.moment, case.family)) == case.answer


@every_case
def test_the_answer_does_not_depend_on_what_was_flushed(case: Case) -> None:
    """For every prefix of the writes that was flushed with retention, the answer is the same."""
    cells = case.cells()
    for flushed_up_to in range(1, 1 + max(-cell[2] for cell in cells)):
        oldest_read_point = min(flushed_up_to, case.read_point)
        flushed = [cell for cell in cells if -cell[2] <= flushed_up_to]
        later = [cell for cell in cells if -cell[2] > flushed_up_to]
        for is_complete in (False, True):
            retention = Retention(
                from_then_on(oldest_read_point), is_complete, expired_through(case.family, case.moment.now_ms)
            )
            kept = retained_cells(flushed, retention, case.family.versions)
            assert answer_of(visible_cells(sorted(kept + later), case.moment, case.family)) == case.answer
            assert cells_by_row(retained(table_of([flushed]), retention, case.family.versions), 1)[0] == kept


def test_the_names_of_the_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def _put(qualifier: bytes, timestamp: int, write_number: int) -> Cell:
    return (qualifier, -timestamp, -write_number, 0, b"value")


FAMILY = Family(1, b"f")
PLAIN = [[_put(b"a", 1, 1), _put(b"b", 1, 1)], [_put(b"b", 2, 2)]]


def test_a_table_in_which_everything_is_visible_is_not_copied() -> None:
    table = table_of(PLAIN)
    assert visible(table, ReadPoint(2, 0), FAMILY) is table
    assert visible(table, ReadPoint(2, 1000), Family(1, b"f", time_to_live_ms=1000)) is table
    assert visible(table, ReadPoint(2, 0), Family(1, b"f", versions=3)) is table
    assert visible(empty_cells(), ReadPoint(2, 0), FAMILY).num_rows == 0


def test_a_table_of_which_flush_retains_everything_is_not_copied() -> None:
    table = table_of(PLAIN)
    assert retained(table, Retention(from_then_on(NEWEST), is_complete=True), 1) is table
    assert retained(empty_cells(), Retention(from_then_on(NEWEST), is_complete=True), 1).num_rows == 0


def test_a_write_past_the_read_point_is_left_out_of_a_plain_table() -> None:
    assert cells_by_row(visible(table_of(PLAIN), ReadPoint(1, 0), FAMILY), 2) == [PLAIN[0], []]


def test_chunked_tables_and_slices_answer_like_one_table() -> None:
    rows = [case.cells() for case in CASES if case.family == Family(1, b"f", versions=3) and case.read_point == NEWEST]
    assert len(rows) > 20
    whole = table_of(rows)
    read_point = ReadPoint(NEWEST, 0)
    family = Family(1, b"f", versions=3)
    answer = visible(whole, read_point, family)
    names = [b"%06d" % place for place in range(len(rows))]
    pieces = [cells_table([name], [cells]) for name, cells in zip(names, rows, strict=True)]
    assert visible(pa.concat_tables(pieces), read_point, family).equals(answer)
    first = len(rows[0])
    assert visible(whole.slice(first), read_point, family).equals(
        visible(table_of([[], *rows[1:]]), read_point, family)
    )
    for retention in (Retention(from_then_on(NEWEST)), Retention(from_then_on(NEWEST), is_complete=True)):
        assert retained(pa.concat_tables(pieces), retention, 3).equals(retained(whole, retention, 3))


def test_equal_qualifiers_of_neighbouring_rows_are_two_columns() -> None:
    rows = [[_put(b"q", 5, 1)], [_put(b"q", 5, 2)], [(b"q", -4, -4, 2, b""), _put(b"q", 4, 3)], [_put(b"q", 3, 3)]]
    assert cells_by_row(visible(table_of(rows), ReadPoint(9, 0), FAMILY), 4) == [rows[0], rows[1], [], rows[3]]
    assert retained(table_of(rows[:2]), Retention(from_then_on(9)), 1).num_rows == 2
