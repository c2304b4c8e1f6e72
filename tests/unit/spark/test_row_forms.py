"""DataFrames that can be written, and the cells of their rows."""

from __future__ import annotations

import datetime
import pickle
import re
import struct
from typing import Any

import pyarrow as pa
import pytest
from rowlock.errors import MappingError
from rowlock.mapping import Mapping
from rowlock.spark.row_forms import RowForm, form_of


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_MAPPING = Mapping("id STRING :key, delay INT info:delay, dest STRING info:dest")
_SCHEMA = _schema(id=pa.string(), delay=pa.int32(), dest=pa.string())
_MAPS = pa.schema([("row", pa.binary()), ("columns", pa.map_(pa.string(), pa.binary()))])


def _rows(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _cells(form: RowForm, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(cell.values()) for cell in form.encoded(batch, 7).cells().to_pylist()]


def test_a_mapped_null_writes_no_cell_or_a_delete() -> None:
    batch = _rows(_SCHEMA, ("a", None, "x"))
    skipping = form_of(_SCHEMA, _MAPPING, nulls_delete=False)
    assert _cells(skipping, batch) == [(b"a", b"info", b"dest", 7, b"x")]
    deleting = form_of(_SCHEMA, _MAPPING, nulls_delete=True)
    assert _cells(deleting, batch) == [(b"a", b"info", b"delay", 7, None), (b"a", b"info", b"dest", 7, b"x")]
    assert deleting.keys(batch).to_pylist() == [b"a"]


def test_forms_can_be_pickled() -> None:
    for form in (form_of(_SCHEMA, _MAPPING, nulls_delete=True), form_of(_MAPS, None, nulls_delete=False)):
        assert pickle.loads(pickle.dumps(form)) == form


@pytest.mark.parametrize("large", [False, True])
def test_maps_are_written_as_they_are(large: bool) -> None:
    """Nulls, empty maps and slices included; Spark sends the large types if it is configured to."""
    text, data = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    schema = pa.schema([("columns", pa.map_(text, data)), ("row", data)])
    entries: list[list[tuple[str, bytes | None]] | None] = [
        [("info:skipped", b"0")],
        [("info:a", b"1"), ("info:n", None), (r"stats:\xff:\\", b"")],
        None,
        [],
        [("info:a", b"2")],
    ]
    batch = _rows(schema, *((entry, b"r%d" % i) for i, entry in enumerate(entries))).slice(1)
    form = form_of(schema, None, nulls_delete=False)
    assert _cells(form, batch) == [
        (b"r1", b"info", b"a", 7, b"1"),
        (b"r1", b"stats", b"\xff:\\", 7, b""),
        (b"r4", b"info", b"a", 7, b"2"),
    ]
    deleting = form_of(schema, None, nulls_delete=True)
    assert (b"r1", b"info", b"n", 7, None) in _cells(deleting, batch)
    assert form.keys(batch).to_pylist() == [b"r1", b"r2", b"r3", b"r4"]
    assert _cells(form, batch.slice(1, 2)) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, [("info:a", b"1")]), "null in row 0"),
        ((b"", [("info:a", b"1")]), "empty in row 0"),
        ((b"r", [("info", b"1")]), "'info', which is not family:qualifier"),
        ((b"r", [(r"info:\q", b"1")]), "bad escape"),
    ],
)
def test_an_invalid_row_of_maps_is_reported_with_its_index(row: tuple[Any, ...], message: str) -> None:
    form = form_of(_MAPS, None, nulls_delete=False)
    with pytest.raises(MappingError, match=message):
        form.encoded(_rows(_MAPS, row), 7)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["id", "delay"], "lacks dest: it has id, delay, and the mapping has id, delay, dest"),
        (["id", "delay", "dest", "more"], r"has also more: .*df\.select"),
        (["id", "id", "delay", "dest"], "has twice id"),
        (["Id", "ID", "delay", "dest"], "has Id, ID, which differ only in letter case, and the mapping has id"),
        (["id", "ID", "delay", "dest"], "has also ID"),
    ],
)
def test_columns_match_by_name_and_must_be_those_of_the_mapping(names: list[str], message: str) -> None:
    schema = pa.schema(
        [pa.field(name, _SCHEMA.field("delay").type if name == "delay" else pa.string()) for name in names]
    )
    with pytest.raises(MappingError, match=message):
        form_of(schema, _MAPPING, nulls_delete=False)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["id", "dest", "zz"],
            "the DataFrame has also zz: it has id, dest, zz, and the mapping that the table keeps has id, delay, dest, "
            "at. A DataFrame needs the columns of the key, id, and may lack others: rename its columns "
            "(withColumnRenamed), leave them out (drop), or add them to the mapping (alter_table)",
        ),
        (["id", "dets"], "keeps has id, delay, dest, at (did you mean dest for dets?). A DataFrame needs"),
        (["Id", "DELAYS", "dest"], "(did you mean delay for DELAYS?)"),
        (
            ["dest"],
            "the DataFrame lacks id: it has dest, and the mapping that the table keeps has id, delay, dest, at.",
        ),
        (["i_d", "dest"], "the DataFrame lacks id and has also i_d"),
        (["id", "at"], "the DataFrame has only a key; a row exists only with at least one cell"),
    ],
)
def test_columns_that_a_kept_mapping_does_not_name_are_refused_by_its_rules(names: list[str], message: str) -> None:
    kept = Mapping(f"{_MAPPING.text}, at BIGINT :timestamp")
    types = {"at": pa.int64(), "delay": _SCHEMA.field("delay").type}
    schema = pa.schema([pa.field(name, types.get(name, pa.string())) for name in names])
    folded = {name.lower() for name in names}
    chosen = kept.select_among([column.name for column in kept.values if column.name in folded])
    with pytest.raises(MappingError) as refused:
        form_of(schema, chosen, nulls_delete=False, kept=kept)
    assert message in str(refused.value)
    assert "remove from the mapping" not in str(refused.value)


@pytest.mark.parametrize(
    ("found", "mapped", "is_taken"),
    [
        (pa.int64(), "INT", True),
        (pa.int8(), "BIGINT", True),
        (pa.float32(), "DOUBLE", True),
        (pa.float64(), "FLOAT", False),
        (pa.int32(), "DOUBLE", True),
        (pa.int64(), "FLOAT", True),
        (pa.int32(), "DECIMAL(10,2)", True),
        (pa.float64(), "INT", False),
        (pa.decimal128(5, 1), "DOUBLE", False),
        (pa.string(), "INT", False),
        (pa.int32(), "STRING", False),
        (pa.string(), "BINARY", True),
        (pa.timestamp("us"), "TIMESTAMP", False),
        (pa.timestamp("us", tz="Europe/Berlin"), "TIMESTAMP", True),
        (pa.date32(), "TIMESTAMP", True),
        (pa.timestamp("us", tz="UTC"), "DATE", False),
        (pa.decimal128(5, 1), "DECIMAL(10,2)", True),
        (pa.float64(), "DECIMAL(10,2)", False),
        (pa.list_(pa.string()), "STRING", False),
        (pa.bool_(), "BOOLEAN", True),
    ],
)
def test_a_type_is_accepted_only_if_its_conversion_is_exact(found: pa.DataType, mapped: str, is_taken: bool) -> None:
    schema = pa.schema([("id", pa.string()), ("v", found)])
    mapping = Mapping(f"id STRING :key, v {mapped} f:v")
    if is_taken:
        form_of(schema, mapping, nulls_delete=False)
    else:
        cast = re.escape(f"cast it: F.col('v').cast('{mapped.lower()}')")
        remedy = r"F\.to_json\('v'\)" if pa.types.is_nested(found) else cast
        with pytest.raises(MappingError, match=rf"the column 'v' is .* {remedy}"):
            form_of(schema, mapping, nulls_delete=False)


def test_a_time_without_a_zone_is_refused_with_the_cast_that_gives_it_the_session_s() -> None:
    """Only Spark knows the session's zone; taken as UTC every such time was written shifted."""
    schema = _schema(id=pa.string(), at=pa.timestamp("us"))
    mapping = Mapping("id STRING :key, at TIMESTAMP f:at")
    with pytest.raises(MappingError, match=r"'at' is timestamp\[us\] .* F\.col\('at'\)\.cast\('timestamp'\)"):
        form_of(schema, mapping, nulls_delete=False)


def test_an_integer_that_does_not_fit_the_mapped_type_is_refused() -> None:
    schema = _schema(id=pa.string(), v=pa.int64())
    form = form_of(schema, Mapping("id STRING :key, v INT f:v"), nulls_delete=False)
    assert _cells(form, _rows(schema, ("a", 5))) == [(b"a", b"f", b"v", 7, b"\0\0\0\x05")]
    with pytest.raises(MappingError, match="'v' is int64 and does not fit INT"):
        form.encoded(_rows(schema, ("a", 1 << 40)), 7)


@pytest.mark.parametrize(
    ("found", "mapped", "value", "stored", "too_much"),
    [
        (pa.int32(), "DOUBLE", -5, struct.pack(">d", -5.0), None),
        (pa.int64(), "DOUBLE", 1 << 53, struct.pack(">d", 2.0**53), (1 << 53) + 1),
        (pa.int64(), "FLOAT", 1 << 24, struct.pack(">f", 2.0**24), (1 << 24) + 1),
        (pa.int32(), "DECIMAL(5,2)", 999, b"\0\0\0\x02\x01\x86\x3c", 1000),
        (pa.date32(), "TIMESTAMP", datetime.date(1970, 1, 2), (86_400_000_000).to_bytes(8, "big"), None),
    ],
)
def test_a_wider_type_is_exact_or_the_error_names_the_row(
    found: pa.DataType, mapped: str, value: object, stored: bytes, too_much: object
) -> None:
    schema = _schema(id=pa.string(), v=found)
    form = form_of(schema, Mapping(f"id STRING :key, v {mapped} f:v"), nulls_delete=False)
    assert _cells(form, _rows(schema, ("a", value), ("b", None))) == [(b"a", b"f", b"v", 7, stored)]
    if too_much is not None:
        with pytest.raises(MappingError, match=r"'v' is .* does not fit.*it is row 1, with the key 'b'"):
            form.encoded(_rows(schema, ("a", value), ("b", too_much)), 7)


def test_names_match_in_any_letter_case_unless_one_is_exact() -> None:
    schema = _schema(ID=pa.string(), Delay=pa.int32(), dest=pa.string())
    form = form_of(schema, _MAPPING, nulls_delete=False)
    rows = _rows(schema, ("a", 5, "JFK"))
    same = _schema(id=pa.string(), delay=pa.int32(), dest=pa.string())
    exact = form_of(same, _MAPPING, nulls_delete=False)
    assert _cells(form, rows) == _cells(exact, _rows(same, ("a", 5, "JFK")))
    assert form.keys(rows).to_pylist() == [b"a"]
    assert (form.names_that_differ, exact.names_that_differ) == (("ID", "Delay"), ())
    assert (form.families, form.mapping) == (exact.families, exact.mapping)
    two = Mapping("id STRING :key, v INT f:a, V INT f:b")
    both = _schema(id=pa.string(), V=pa.int32(), v=pa.int32())
    assert form_of(both, two, nulls_delete=False).names_that_differ == ()
    maps = _schema(Row=pa.binary(), COLUMNS=pa.map_(pa.string(), pa.binary()))
    assert form_of(maps, None, nulls_delete=False).names_that_differ == ("Row", "COLUMNS")


def test_a_mapping_without_cells_is_refused() -> None:
    with pytest.raises(MappingError, match="only a key"):
        form_of(pa.schema([("id", pa.string())]), Mapping("id STRING :key"), nulls_delete=False)


@pytest.mark.parametrize(
    "schema",
    [
        _SCHEMA,
        _schema(row=pa.binary(), columns=pa.string()),
        _schema(row=pa.int32(), columns=pa.map_(pa.string(), pa.binary())),
        pa.schema([("row", pa.binary()), ("columns", pa.map_(pa.int32(), pa.binary()))]),
        pa.schema([("row", pa.binary()), ("columns", pa.map_(pa.string(), pa.int32()))]),
        pa.schema([("row", pa.binary()), ("row", pa.binary()), ("columns", pa.map_(pa.string(), pa.binary()))]),
    ],
)
def test_without_a_mapping_only_a_key_and_a_map_are_accepted(schema: pa.Schema) -> None:
    with pytest.raises(MappingError, match=r"option mapping.*row BINARY, columns MAP<STRING, BINARY>"):
        form_of(schema, None, nulls_delete=False)
