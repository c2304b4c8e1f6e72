"""Whole columns have the texts that single values have."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from rowlock import Mapping
from rowlock._codec.arrow_buffers import array_of_one
from rowlock._core.typed_rows import python_rows
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.typed_text import json_of, key_text, records_of, text_of, texts_of, value_of
from rowlock.errors import MappingError

MAPPING = Mapping(
    "id STRING :key, number BIGINT :key ordered, small TINYINT f:small, half FLOAT f:half, ratio DOUBLE f:ratio, "
    "ok BOOLEAN f:ok, price DECIMAL(9,3) f:price, day DATE f:day, at TIMESTAMP f:at, raw BINARY f:raw, "
    "name STRING f:name"
)
UTC = datetime.UTC
ROWS: list[dict[str, Any]] = [
    {"small": -128, "half": 0.1, "ratio": 0.1, "ok": True, "price": Decimal("-1.5"), "raw": b"\xff\\\t", "name": "ü\t"},
    {"half": float("nan"), "ratio": float("-inf"), "ok": False, "price": Decimal("0.001"), "raw": b"", "name": ""},
    {
        "half": 1e30,
        "ratio": 5e-324,
        "day": datetime.date(1, 1, 1),
        "at": datetime.datetime(9999, 12, 31, 23, tzinfo=UTC),
    },
    {"ratio": 1e22, "day": datetime.date(2013, 1, 31), "at": datetime.datetime(2013, 1, 31, 5, 0, 0, 1, UTC)},
    {"at": datetime.datetime(1969, 12, 31, tzinfo=UTC)},
    {},
]


def rows_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    parts = [{"id": f"a|{place}", "number": place - 3} for place in range(len(rows))]
    whole = [{**part, **row} for part, row in zip(parts, rows, strict=True)]
    return pa.RecordBatch.from_pylist(whole, MAPPING.schema)


def test_columns_have_the_texts_of_their_values() -> None:
    batch = rows_of(ROWS)
    by_name = {column.name: column for column in MAPPING.values}
    expected = [
        (key_text(MAPPING, key), *(text_of(by_name[name], value) for name, value in row.items()))
        for key, row in python_rows(batch, MAPPING)
    ]
    assert [tuple(texts) for texts in texts_of(MAPPING, batch)] == expected
    assert expected[0][0] == r"a\x7c0|-3"


def test_columns_have_the_json_of_their_values() -> None:
    batch = rows_of(ROWS)
    expected = [
        {"id": key[0], "number": key[1], **{name: json_of(value) for name, value in row.items()}}
        for key, row in python_rows(batch, MAPPING)
    ]
    assert list(records_of(MAPPING, batch)) == expected


def test_a_time_beyond_the_years_of_text_names_its_column() -> None:
    batch = rows_of([{}])
    late = pa.array([1 << 60], pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = batch.set_column(batch.schema.get_field_index("at"), MAPPING.schema.field("at"), late)
    for convert in (texts_of, records_of):
        with pytest.raises(MappingError, match="the column 'at'"):
            list(convert(MAPPING, batch))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-(2**63), pa.int64()),
        (127, pa.int8()),
        (0.1, pa.float32()),
        (float("-inf"), pa.float64()),
        (True, pa.bool_()),
        (False, pa.bool_()),
        (Decimal("-99999.99"), pa.decimal128(7, 2)),
        (Decimal("1E-18"), pa.decimal128(38, 18)),
        (datetime.date(1, 1, 1), pa.date32()),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), pa.timestamp("us", "UTC")),
        (
            datetime.datetime(2013, 1, 31, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            pa.timestamp("us", "UTC"),
        ),
        ("ü", pa.string()),
        (b"\xff", pa.binary()),
    ],
)
def test_an_array_of_one_value_is_that_of_arrow(value: object, kind: pa.DataType) -> None:
    found = array_of_one(value, kind)
    found.validate(full=True)
    assert found.type == kind
    assert found.equals(pa.array([value], kind))


@pytest.mark.parametrize(("name", "text"), [("half", "1e40"), ("half", "-1e39"), ("ratio", "1e400")])
def test_a_number_that_is_too_large_does_not_become_infinite(name: str, text: str) -> None:
    (column,) = [column for column in MAPPING.values if column.name == name]
    with pytest.raises(ArgumentError, match="is too large for a"):
        value_of(column, text)
    assert value_of(column, "-inf") == float("-inf")
    assert value_of(column, "1e30") == pytest.approx(1e30)
