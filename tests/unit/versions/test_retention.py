"""What may be dropped, case by case."""

from __future__ import annotations

import pytest
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    PUT,
    Cell,
    Family,
    ProtectedReadPoints,
    from_then_on,
)
from rowlock_regionserver.versions.retention import Retention, expired_through, retained_cells

from tests.property.visibility_model import cells_by_row, table_of
from tests.unit.versions.masked_tables import retained

TWENTY_AND_FORTY = ((20, 20), *from_then_on(40))


def cell(write_number: int, timestamp: int, kind: int = PUT, qualifier: bytes = b"q") -> Cell:
    return (b"" if kind == DELETE_FAMILY else qualifier, -timestamp, -write_number, kind, b"")


def numbers_retained(cells: list[Cell], retention: Retention, versions: int = 1) -> list[int]:
    """The write numbers of what both forms of the rules retain."""
    cells = sorted(cells)
    kept = retained_cells(cells, retention, versions)
    assert cells_by_row(retained(table_of([cells]), retention, versions), 1)[0] == kept
    return sorted(-each[2] for each in kept)


def test_the_example_of_the_documentation() -> None:
    cells = [cell(10, 5), cell(11, 4, DELETE_COLUMN), cell(12, 4), cell(25, 6), cell(30, 9, DELETE_COLUMN)]
    assert numbers_retained(cells, Retention(TWENTY_AND_FORTY)) == [10, 11, 12, 30]
    assert numbers_retained(cells, Retention(TWENTY_AND_FORTY, is_complete=True)) == [10, 30]
    assert numbers_retained(cells, Retention(from_then_on(40), is_complete=True)) == []


@pytest.mark.parametrize("kind", [DELETE_COLUMN, DELETE_FAMILY])
@pytest.mark.parametrize(
    ("protected", "kept"),
    [
        (from_then_on(9), [9]),
        (from_then_on(8), [4, 9]),  # the delete is not published yet
        (((4, 4), *from_then_on(9)), [4, 9]),
        (((8, 8), *from_then_on(9)), [4, 9]),
        (((3, 3), *from_then_on(9)), [9]),
        (((2, 3), *from_then_on(9)), [9]),
        (((2, 5), *from_then_on(9)), [4, 9]),  # 4 may be one of the read points that the span stands for
        (((5, 20), *from_then_on(21)), [4, 9]),
    ],
)
def test_a_put_goes_when_no_read_point_is_between_it_and_its_delete(
    kind: int, protected: ProtectedReadPoints, kept: list[int]
) -> None:
    assert numbers_retained([cell(4, 7), cell(9, 7, kind)], Retention(protected)) == kept


def test_a_delete_of_one_version_leaves_what_may_decide_about_another() -> None:
    cells = [cell(1, 1), cell(2, 2), cell(3, 2, DELETE_VERSION)]
    assert numbers_retained(cells, Retention(from_then_on(9))) == [1, 2, 3]
    assert numbers_retained(cells, Retention(from_then_on(9), is_complete=True)) == []


@pytest.mark.parametrize(
    ("weaker", "stronger", "kept"),
    [
        (cell(3, 5, DELETE_COLUMN), cell(6, 5, DELETE_COLUMN), [6]),
        (cell(3, 5, DELETE_COLUMN), cell(6, 5, DELETE_FAMILY), [6]),
        (cell(3, 5, DELETE_VERSION), cell(6, 7, DELETE_COLUMN), [6]),
        (cell(3, 5, DELETE_FAMILY), cell(6, 7, DELETE_FAMILY), [6]),
        (cell(3, 5, DELETE_FAMILY), cell(6, 7, DELETE_COLUMN, b""), [3, 6]),  # other columns feel it
        (cell(3, 5, DELETE_COLUMN), cell(6, 4, DELETE_COLUMN), [3, 6]),
        (cell(3, 5, DELETE_VERSION), cell(6, 5, DELETE_VERSION), [3, 6]),
        (cell(3, 5, DELETE_COLUMN), cell(6, 5, DELETE_COLUMN, b"other"), [3, 6]),
    ],
)
def test_a_tombstone_goes_when_a_later_one_hides_all_that_it_does(
    weaker: Cell, stronger: Cell, kept: list[int]
) -> None:
    assert numbers_retained([weaker, stronger], Retention(from_then_on(9))) == kept
    assert numbers_retained([weaker, stronger], Retention(((4, 4), *from_then_on(9)))) == [3, 6]


def test_expired_puts_go_and_expired_tombstones_only_with_all_older_cells() -> None:
    cells = [cell(1, 5), cell(2, 6), cell(3, 5, DELETE_VERSION), cell(4, 6, DELETE_VERSION), cell(5, 7, qualifier=b"r")]
    none_published = from_then_on(0)
    assert numbers_retained(cells, Retention(none_published, expired_through=5)) == [2, 3, 4, 5]
    assert numbers_retained(cells, Retention(none_published, is_complete=True, expired_through=5)) == [2, 4, 5]


def test_only_a_family_whose_expired_versions_never_come_back_drops_them() -> None:
    assert expired_through(Family(1, b"f"), 1000) == -1
    assert expired_through(Family(1, b"f", time_to_live_ms=10), 1000) == 990
    assert expired_through(Family(1, b"f", time_to_live_ms=10, min_versions=1), 1000) == -1
    assert expired_through(Family(1, b"f", time_to_live_ms=2000), 1000) == -1
