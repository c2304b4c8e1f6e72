"""Selections and plans that are refused, and the columns that a selection requests."""

from __future__ import annotations

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    FamilyNotFoundError,
    FilterTypeError,
    InvalidRequestError,
    LimitExceededError,
    RegionServerError,
)
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.scan.selection import check_plan, check_selection, requested_qualifiers

CONFIG = Config(qualifier_bytes_max=4)


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        (Selection(columns=(ColumnSelector(b"no"),)), FamilyNotFoundError),
        (Selection(columns=(ColumnSelector(b"f", b"12345"),)), LimitExceededError),
        (Selection(time_start=-1), InvalidRequestError),
        (Selection(time_stop=-1), InvalidRequestError),
        (Selection(time_start=2, time_stop=1), InvalidRequestError),
        (Selection(versions=0), InvalidRequestError),
        (Selection(where=ColumnPresence(b"no", b"q", present=True)), FamilyNotFoundError),
        (Selection(cells=CellFilter(qualifier_start=b"b", qualifier_stop=b"a")), InvalidRequestError),
        (Selection(cells=CellFilter(cell_offset=-1)), InvalidRequestError),
        (Selection(cells=CellFilter(cell_limit=-1)), InvalidRequestError),
        (
            Selection(cells=CellFilter(value_op=CompareOp.LESS, value_operand=b"x", value_type=ValueType.TEXT_INT)),
            FilterTypeError,
        ),
    ],
)
def test_selection_that_cannot_be_read_is_refused(selection: Selection, error: type[RegionServerError]) -> None:
    with pytest.raises(error):
        check_selection(selection, (b"f",), CONFIG)
    with pytest.raises(error):
        check_plan(ScanPlan(selection), (b"f",), CONFIG)


@pytest.mark.parametrize(
    "plan",
    [
        ScanPlan(ranges=((b"a", b"b"), (b"d", b"c"))),
        ScanPlan(ranges=((b"d", b"c"),), reverse=True),
        ScanPlan(row_limit=-1),
        ScanPlan(batch_bytes=0),
        ScanPlan(batch_rows=0),
    ],
)
def test_plan_that_cannot_be_made_is_refused(plan: ScanPlan) -> None:
    with pytest.raises(InvalidRequestError):
        check_plan(plan, (b"f",), CONFIG)


def test_ordinary_plan_passes() -> None:
    selection = Selection(
        columns=(ColumnSelector(b"f", b"1234"),),
        time_start=5,
        time_stop=5,
        cells=CellFilter(qualifier_start=b"b", qualifier_stop=b""),
    )
    check_plan(ScanPlan(selection, ranges=((b"a", b""), (b"", b"a"), (b"a", b"a"))), (b"f",), CONFIG)


def test_whole_family_includes_single_columns_in_either_order() -> None:
    family, single, other = ColumnSelector(b"f"), ColumnSelector(b"f", b"q"), ColumnSelector(b"g", b"p")
    assert requested_qualifiers((family, single, other)) == {b"f": None, b"g": frozenset({b"p"})}
    assert requested_qualifiers((single, other, family)) == {b"f": None, b"g": frozenset({b"p"})}
    assert requested_qualifiers((single, ColumnSelector(b"f", b"r"))) == {b"f": frozenset({b"q", b"r"})}
    assert requested_qualifiers(()) is None
