"""The demo's comparison finds the differences."""

from __future__ import annotations

import pyarrow as pa

from bench.demo.comparison import differences

_EXPECTED = pa.table({"name": ["a", "b", None, "d"], "delay": pa.array([1, None, 3, None], pa.int32())})


def test_equal_tables_have_no_differences() -> None:
    assert differences(_EXPECTED, _EXPECTED) == []
    in_other_chunks = pa.concat_tables([_EXPECTED.slice(0, 1), _EXPECTED.slice(1)])
    assert differences(in_other_chunks, _EXPECTED) == []
    assert differences(_EXPECTED.select(["delay", "name"]), _EXPECTED) == []


def test_a_changed_value_is_named_with_its_row() -> None:
    found = _EXPECTED.set_column(1, "delay", pa.array([1, None, 4, None], pa.int32()))
    assert differences(found, _EXPECTED) == ["delay differs in 1 rows: row 2 has 4 instead of 3"]


def test_a_value_in_the_place_of_null_and_the_reverse_are_differences() -> None:
    found = _EXPECTED.set_column(0, "name", pa.array(["a", None, "c", "d"]))
    [sentence] = differences(found, _EXPECTED)
    assert sentence == "name differs in 2 rows: row 1 has None instead of 'b', row 2 has 'c' instead of None"


def test_missing_rows_columns_and_other_types_are_differences() -> None:
    assert differences(_EXPECTED.slice(1), _EXPECTED) == ["3 rows were found, 4 were expected"]
    assert "columns" in differences(_EXPECTED.select(["name"]), _EXPECTED)[0]
    wide = _EXPECTED.set_column(1, "delay", pa.array([1, None, 3, None], pa.int64()))
    assert differences(wide, _EXPECTED) == ["delay is int64, expected int32"]


def test_only_the_first_of_many_differences_are_shown() -> None:
    found, expected = pa.table({"n": list(range(100))}), pa.table({"n": list(range(1, 101))})
    [sentence] = differences(found, expected)
    assert sentence.startswith("n differs in 100 rows: row 0 has 0 instead of 1, ")
    assert sentence.count("instead of") == 5
