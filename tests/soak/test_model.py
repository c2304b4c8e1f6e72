"""What bulk writes of the soak do to its models."""

from __future__ import annotations

from tests.soak.drawn_cells import DrawnCell, apply
from tests.soak.model import UNKNOWN, JoinedModel, SliceModel


def test_a_joined_model_changes_the_slice_of_each_row() -> None:
    first, second = SliceModel(), SliceModel()
    joined = JoinedModel({b"00-": first, b"01-": second})
    cells = [DrawnCell(b"00-5", b"f:a", b"1", None), DrawnCell(b"01-5", b"g:a", b"2", 7)]
    apply(cells, joined)
    assert first.rows == {b"00-5": {b"f:a": ((UNKNOWN, b"1"),)}}
    assert second.rows == {b"01-5": {b"g:a": ((7, b"2"),)}}
    apply([DrawnCell(b"01-5", b"g:a", None, 7)], joined)
    assert second.rows == {}


def test_a_replacement_forgets_the_rows_of_its_range_in_all_slices() -> None:
    first, second = SliceModel(), SliceModel()
    joined = JoinedModel({b"00-": first, b"01-": second})
    for row in (b"00-1", b"00-2", b"01-1", b"01-2"):
        joined.put(row, b"f:a", b"1")
    joined.delete_rows(b"00-2", b"01-2")
    assert list(first.rows) == [b"00-1"]
    assert list(second.rows) == [b"01-2"]
