"""Messages for mistakes of newcomers, which say how to correct them; and the reprs of objects."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from typing import Any, cast

import pyarrow as pa
import pytest
import rowlock
from rowlock._codec.arrow_buffers import Array
from rowlock._codec.columns import encoded_rows
from rowlock._core import point
from rowlock._core.retry import Attempts, Kind
from rowlock.rows import check_pandas
from rowlock_proto.v1 import types_pb2

from tests.unit.client.plain_row_form import cells_from_rows, rows_from_cells

UNSPECIFIED = types_pb2.DURABILITY_UNSPECIFIED


@pytest.mark.parametrize("data", [[("f:a", b"1")], None, b"f:a"])
def test_data_that_is_no_dict_is_refused(data: object) -> None:
    with pytest.raises(TypeError, match="data must be a dict of columns and values, not"):
        point.put("t", b"r", cast(Any, data), None, UNSPECIFIED)  # Any: the mistake


@pytest.mark.parametrize("row", [b"r", "r"])
def test_one_row_is_no_list_of_rows(row: bytes | str) -> None:
    with pytest.raises(TypeError, match=r"rows must be a list of rows, not one: \["):
        encoded_rows(cast(Any, row))  # Any: the mistake


def test_a_comparison_with_none_names_what_to_use() -> None:
    with pytest.raises(TypeError, match="is_absent"):
        rowlock.column("f:a") == cast(Any, None)  # noqa: B015  # Any: the mistake


def test_filters_show_themselves_in_one_line() -> None:
    shown = repr((rowlock.column("f:a") == b"x") & rowlock.column("f:b").is_absent())
    assert shown.startswith("Filter(all {")
    assert "\n" not in shown


def test_the_package_has_its_version() -> None:
    assert rowlock.__version__ == version("rowlock")


def test_the_error_for_missing_pandas_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_pandas()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'rowlock\[pandas\]'"):
        check_pandas()


def test_an_unknown_type_and_target_of_a_mapping_are_named() -> None:
    with pytest.raises(rowlock.MappingError, match="column 'a' has the unknown type VARCHAR; the types are BIGINT"):
        rowlock.Mapping("id STRING :key, a VARCHAR f:a")
    with pytest.raises(rowlock.MappingError, match="which is :key, :timestamp or family:qualifier"):
        rowlock.Mapping("id STRING :kex")


@pytest.mark.parametrize("place", [0, 1, 6, 7])
def test_a_value_that_does_not_fit_is_reported_with_its_row(place: int) -> None:
    as_text, as_number = (rowlock.Mapping(f"id STRING :key, a {kind} f:a") for kind in ("STRING", "BIGINT"))
    values: list[str | None] = [None if row == 3 else "8 bytes." for row in range(8)]
    values[place] = "5byte"
    data = pa.table({"id": [f"r{row}" for row in range(8)], "a": values})
    cells = cells_from_rows(data.to_batches()[0], as_text, None)
    with pytest.raises(rowlock.MappingError) as refused:
        rows_from_cells(pa.table(cells), as_number)
    assert (refused.value.row, refused.value.column) == (b"r%d" % place, b"f:a")
    assert f"f:a of row 'r{place}' can't be read as BIGINT binary: a value has 5 bytes instead of 8" in str(
        refused.value
    )


def test_a_key_that_does_not_fit_is_reported() -> None:
    as_text, as_number = (rowlock.Mapping(f"id {kind} :key, a STRING f:a") for kind in ("STRING", "INT"))
    data = pa.table({"id": ["1", "2", "x3"], "a": ["", "", ""]})
    cells = cells_from_rows(data.to_batches()[0], as_text, None)
    with pytest.raises(rowlock.MappingError, match="the key column 'id' of row 'x3' can't be read as INT") as refused:
        rows_from_cells(pa.table(cells), as_number)
    assert refused.value.row == b"x3"


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        ("INT", "5"),
        ("DOUBLE", "1.5"),
        ("DECIMAL(4,2)", "1.25"),
        ("DATE", "2013-01-31"),
        ("TIMESTAMP", "2013-01-31T05:00:00"),
        ("BOOLEAN", "true"),
    ],
)
def test_the_first_of_several_values_that_can_not_be_read_is_reported_with_its_row(kind: str, good: str) -> None:
    values = [good, "first", good, "last"]
    as_text = rowlock.Mapping("id STRING :key, a STRING f:a")
    keys = pa.array(["k0", "k1", "k2", "k3"])
    cells = cells_from_rows(pa.record_batch({"id": keys, "a": pa.array(values)}), as_text, None)
    with pytest.raises(rowlock.MappingError, match=r"f:a of row 'k1' can't be read .* value.*first") as refused:
        rows_from_cells(pa.table(cells), rowlock.Mapping(f"id STRING :key, a {kind} f:a text"))
    assert "last" not in str(refused.value)
    as_keys = rowlock.Mapping("a STRING :key, id STRING :key, v STRING f:v")
    cells = cells_from_rows(pa.record_batch({"a": pa.array(values), "id": keys, "v": keys}), as_keys, None)
    with pytest.raises(rowlock.MappingError, match=r"'a' of row 'first\|k1' can't be read .* value.*first") as refused:
        rows_from_cells(pa.table(cells), rowlock.Mapping(f"a {kind} :key, id STRING :key, v STRING f:v"))
    assert "last" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        (
            "INT f:a",
            "5",
            r"f:a .* a value has 1 byte instead of 4; it is INT as text: write 'text' after f:a in the mapping$",
        ),
        ("INT f:a", "-12", "a value has 3 bytes instead of 4; it is INT as text"),
        ("INT f:a", "12x", "a value has 3 bytes instead of 4$"),
        ("TINYINT f:a", "300", "a value has 3 bytes instead of 1$"),
        ("BIGINT f:a", "", "a value has 0 bytes instead of 8$"),
        ("BOOLEAN f:a", "false", "it is BOOLEAN as text"),
        ("DECIMAL(4,2) f:a", "1.25", r"not a decimal.*; it is DECIMAL\(4,2\) as text"),
        ("DECIMAL(4,2) f:a", "-11.25", r"another scale than 2; it is DECIMAL\(4,2\) as text"),
        (
            "DATE f:a millis",
            "2013-01-31",
            "it is DATE as text: write 'text' after f:a in the mapping instead of 'millis'$",
        ),
        (
            "INT :key ordered",
            "5",
            "'a' .* it is INT as text: write 'text' after :key in the mapping instead of 'ordered'$",
        ),
        ("STRING f:a", "\xff", "a value is not UTF-8"),
    ],
)
def test_the_error_for_a_value_that_is_text_of_its_type_says_how_to_read_it(
    target: str, value: str, expected: str
) -> None:
    other = "STRING f:other" if ":key" in target else "STRING :key"
    written = " ".join(["BINARY", *target.split()[1:2]])
    data: dict[str, Array] = {"a": pa.array([value.encode("latin-1")]), "other": pa.array(["k"])}
    cells = cells_from_rows(pa.record_batch(data), rowlock.Mapping(f"a {written}, other {other}"), None)
    with pytest.raises(rowlock.MappingError, match=expected) as refused:
        rows_from_cells(pa.table(cells), rowlock.Mapping(f"a {target}, other {other}"))
    assert ("as text" in str(refused.value)) == ("as text" in expected)


def test_a_change_of_a_table_in_doubt_points_to_the_tables() -> None:
    attempts = Attempts(0.0, 10.0, Kind.PLAIN_CHANGE)
    with pytest.raises(rowlock.UnknownOutcomeError) as unknown:
        attempts.failed(rowlock.ServerUnavailableError("lost"), 0.5, was_sent=True)
    assert "List the tables" in str(unknown.value)
    assert "within" not in str(unknown.value)
