"""Row forms that are refused, and the layout of the others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    RegionServerError,
)
from rowlock_regionserver.operations import ColumnSelector, FormColumn, FormPart
from rowlock_regionserver.scan.row_form import RowLayout, check_row_form

CONFIG = Config(qualifier_bytes_max=5)
FAMILIES = (b"f", b"g")
STAMP = FormPart.TIMESTAMP


@pytest.mark.parametrize(
    ("form", "columns", "error", "words"),
    [
        ([FormColumn(b"h", b"q")], [], FamilyNotFoundError, "no column family h"),
        ([FormColumn(b"f", b"123456")], [], LimitExceededError, "qualifier of 6 bytes"),
        (
            [FormColumn(b"f", b"q"), FormColumn(b"g", b"q"), FormColumn(b"f", b"q")],
            [],
            InvalidRequestError,
            "the value of f:q twice, the second time as column 2",
        ),
        ([FormColumn(b"f", b"q", STAMP)] * 2, [], InvalidRequestError, "the timestamp of f:q twice"),
        (
            [FormColumn(b"f", b"q"), FormColumn(b"f", b"r")],
            [ColumnSelector(b"f", b"q")],
            InvalidRequestError,
            "column 1 of the row form is f:r, which is not among the scan's columns",
        ),
        ([FormColumn(b"g", b"q")], [ColumnSelector(b"f")], InvalidRequestError, "is not among"),
        ([FormColumn(b"f", b"")], [ColumnSelector(b"f", b"q")], InvalidRequestError, "is not among"),
    ],
)
def test_a_form_that_can_not_be_made_is_refused(
    form: list[FormColumn], columns: list[ColumnSelector], error: type[RegionServerError], words: str
) -> None:
    with pytest.raises(error, match=words):
        check_row_form(form, columns, FAMILIES, CONFIG)


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ([], []),
        ([], [ColumnSelector(b"f", b"q")]),
        ([FormColumn(b"f", b"q"), FormColumn(b"f", b"q", STAMP), FormColumn(b"g", b"q")], []),
        ([FormColumn(b"f", b"")], [ColumnSelector(b"f", b"")]),
        ([FormColumn(b"f", b"x")], [ColumnSelector(b"f", b"q"), ColumnSelector(b"f")]),
    ],
)
def test_every_other_form_is_taken(form: list[FormColumn], columns: list[ColumnSelector]) -> None:
    check_row_form(form, columns, FAMILIES, CONFIG)


def test_each_familys_columns_know_their_places_in_the_form() -> None:
    form = RowLayout(
        [FormColumn(b"g", b"x"), FormColumn(b"f", b"q", STAMP), FormColumn(b"f", b"r"), FormColumn(b"f", b"r", STAMP)]
    )
    assert form.schema.names == ["row", "0", "1", "2", "3"]
    assert form.schema.types == [pa.binary(), pa.binary(), pa.int64(), pa.binary(), pa.int64()]
    of_f = form.families[b"f"]
    # Those with values come first.
    assert (of_f.qualifiers.to_pylist(), of_f.valued_count) == ([b"r", b"q"], 1)
    assert (of_f.values, of_f.timestamps) == (((0, 2),), ((1, 1), (0, 3)))
    assert set(form.families) == {b"f", b"g"}
