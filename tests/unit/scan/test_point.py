"""The reads of a get; tests/property compares its answers with a model."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import DELETE_FAMILY, NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell
from rowlock_regionserver.operations import ColumnComparison, ColumnSelector, CompareOp, Selection, ValueType
from rowlock_regionserver.scan.point import Stores, read_row

from tests.property.list_source import ListSource, Write


class Untouchable(ListSource):
    """A source that must not be read."""

    def __init__(self) -> None:
        super().__init__([])

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        raise AssertionError("this family is neither answered nor judged")

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        raise AssertionError("this family is neither answered nor judged")


def one_put(family: bytes, value: bytes, number: int = 1) -> ListSource:
    return ListSource([Write(b"r", family, b"q", number, number, PUT, value)])


def test_families_are_answered_by_name_whatever_their_numbers() -> None:
    stores: Stores = {
        1: (Family(1, b"z"), [one_put(b"z", b"1")]),
        2: (Family(2, b"B"), [one_put(b"B", b"2")]),
        3: (Family(3, b"a"), [one_put(b"a", b"3")]),
    }
    answer = read_row(stores, b"r", Selection(), ReadPoint(NEWEST, 0))
    assert answer == [(b"B", b"q", 1, b"2"), (b"a", b"q", 1, b"3"), (b"z", b"q", 1, b"1")]


def test_families_that_are_neither_requested_nor_filtered_by_are_not_read() -> None:
    stores: Stores = {
        1: (Family(1, b"f"), [one_put(b"f", b"1")]),
        2: (Family(2, b"g"), [one_put(b"g", b"2")]),
        3: (Family(3, b"h"), [Untouchable()]),
    }
    judged = ColumnComparison(b"g", b"q", CompareOp.EQUAL, b"2")
    selection = Selection(columns=(ColumnSelector(b"f"),), where=judged)
    assert read_row(stores, b"r", selection, ReadPoint(NEWEST, 0)) == [(b"f", b"q", 1, b"1")]


def test_newest_source_need_not_come_first() -> None:
    stores: Stores = {1: (Family(1, b"f"), [one_put(b"f", b"old"), one_put(b"f", b"new", 2), one_put(b"f", b"x", 3)])}
    assert read_row(stores, b"r", Selection(), ReadPoint(2, 0)) == [(b"f", b"q", 2, b"new")]


def test_family_tombstone_hides_single_columns_that_are_requested() -> None:
    tombstone = ListSource([Write(b"r", b"f", b"", 9, 9, DELETE_FAMILY, b"")])
    stores: Stores = {1: (Family(1, b"f"), [one_put(b"f", b"1"), tombstone])}
    assert read_row(stores, b"r", Selection(columns=(ColumnSelector(b"f", b"q"),)), ReadPoint(NEWEST, 0)) == []
    assert len(read_row(stores, b"r", Selection(columns=(ColumnSelector(b"f", b"q"),)), ReadPoint(8, 0))) == 1


def test_filter_is_not_evaluated_on_a_row_that_answers_nothing() -> None:
    stores: Stores = {1: (Family(1, b"f"), [one_put(b"f", b"odd")]), 2: (Family(2, b"g"), [])}
    judged = ColumnComparison(b"f", b"q", CompareOp.EQUAL, b"2", ValueType.TEXT_INT)
    selection = Selection(columns=(ColumnSelector(b"g"),), where=judged)
    assert read_row(stores, b"r", selection, ReadPoint(NEWEST, 0)) == []
