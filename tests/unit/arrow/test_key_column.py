"""A sampled column of keys is searched as a list would be."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock_regionserver.arrow import cell_columns
from rowlock_regionserver.arrow.cell_columns import KeyColumn

KEYS = st.binary(max_size=3)


def check(keys: list[bytes], searched: bytes) -> None:
    column = KeyColumn(pa.array(keys, pa.binary()))
    for _ in range(2):
        first, last = bisect_left(keys, searched), bisect_right(keys, searched)
        assert column.first_at_or_after(searched) == first
        assert column.range_of(searched) == (first, last)


@given(st.lists(KEYS, max_size=60), KEYS, st.booleans())
def test_it_finds_what_a_list_finds(keys: list[bytes], other: bytes, is_one_of_them: bool) -> None:
    keys.sort()
    check(keys, keys[len(keys) // 2] if keys and is_one_of_them else other)


@pytest.mark.parametrize("count", [1, 8, 9, 16, 17, 63, 64, 65, 300])
def test_it_finds_each_key_and_each_gap_of_a_long_column(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(cell_columns, "_SAMPLED_MAX", 16)
    keys = [b"%04d" % (number // 3 * 2) for number in range(count)]
    for number in range(-1, count + 2):
        check(keys, b"%04d" % max(0, number))
    check(keys, b"")
    check(keys, b"~")


def test_an_array_that_is_a_slice_is_searched_within_it() -> None:
    keys = [b"%04d" % number for number in range(100)]
    column = KeyColumn(pa.array(keys, pa.binary()).slice(20, 50))
    assert column.range_of(b"0020") == (0, 1)
    assert column.range_of(b"0019") == (0, 0)
    assert column.range_of(b"0069") == (49, 50)
    assert column.range_of(b"0070") == (50, 50)
