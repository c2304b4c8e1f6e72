"""JSON lines: what is written is read again, null and absent are alike, and faults have their places."""

from __future__ import annotations

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer import json_lines
from rowlock.cli.transfer.columns import columns_of

from tests.unit.cli.transfer.reading import read_batches, read_rows, write_file

MAPPING = Mapping(
    "id STRING :key, small TINYINT f:small, big BIGINT f:big, half FLOAT f:half, ratio DOUBLE f:ratio, "
    "ok BOOLEAN f:ok, price DECIMAL(5,2) f:price, day DATE f:day, at TIMESTAMP f:at, raw BINARY f:raw, "
    "name STRING f:name"
)
FULL = {
    "id": 'k"1\n',
    "small": -128,
    "big": 2**63 - 1,
    "half": 0.5,
    "ratio": 0.1,
    "ok": True,
    "price": Decimal("-123.40"),
    "day": datetime.date(2013, 1, 31),
    "at": datetime.datetime(2013, 1, 31, 5, 0, 0, 1, tzinfo=datetime.UTC),
    "raw": bytes(range(256)),
    "name": "ü\\x00 \t",
}
EMPTY = {name: "k2" if name == "id" else None for name in FULL}


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.ndjson", "rows.jsonl.gz", "rows.csv.gz", "rows.csv", "rows.parquet"]
)
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    infinite = {**EMPTY, "id": "k3", "half": float("-inf"), "ratio": float("inf"), "raw": b"", "name": ""}
    batch = pa.RecordBatch.from_pylist([FULL, EMPTY, infinite], MAPPING.schema)
    write_file(path, [batch, batch.slice(0, 0), batch], MAPPING.schema)
    assert read_rows(path, MAPPING) == [FULL, EMPTY, infinite] * 2


def test_null_and_absent_are_alike_and_other_fields_are_ignored_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "big": null, "other": [1]}\r\n\n  {"id":"b","big":2}  \n{"id": "c"}')
    wanted = columns_of(MAPPING, ignores_others=True)
    found = [(row["id"], row["big"]) for row in read_rows(path, wanted)]
    assert found == [("a", None), ("b", 2), ("c", None)]


def test_a_field_that_is_no_column_is_refused_with_the_column_that_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "big": 1}\n{"id": "b", "bigg": 2}\n')
    with pytest.raises(ArgumentError, match=r"line 2 has the column 'bigg', which the mapping does not name \(did you"):
        read_rows(path, MAPPING)


def test_numbers_may_be_text_and_decimals_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [
        {"id": "a", "big": "7", "ratio": "0.25", "ok": "true", "price": "1.5"},
        {"id": "b", "big": 8, "ratio": 2, "half": 3, "price": 7},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"id": "c", "price": 999.99, "ratio": 0.1}\n')
    first, second, third = read_rows(path, MAPPING)
    assert (first["big"], first["ratio"], first["ok"], first["price"]) == (7, 0.25, True, Decimal("1.50"))
    assert (second["big"], second["ratio"], second["half"], second["price"]) == (8, 2.0, 3.0, Decimal("7.00"))
    assert (third["price"], third["ratio"]) == (Decimal("999.99"), 0.1)


@pytest.mark.parametrize("good_rows", [0, 100])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"id": "a", "big": 1.5}',
            "column 'big': 1.5 is not a valid BIGINT; write a whole number from -9223372036854775808 to "
            "9223372036854775807, or null",
        ),
        (b'{"id": "a", "big": true}', "column 'big': true is not a valid BIGINT"),
        (b'{"id": "a", "big": "x"}', "column 'big': \"x\" is not a valid BIGINT"),
        (b'{"id": "a", "small": 128}', "column 'small': 128 is not a valid TINYINT"),
        (b'{"id": "a", "half": 1e300}', "column 'half': 1E+300 is too large for a FLOAT"),
        (b'{"id": "a", "ratio": 9007199254740993}', "column 'ratio': 9007199254740993 is not a valid DOUBLE"),
        (b'{"id": "a", "ratio": 1e400}', "column 'ratio': 1E+400 is too large for a DOUBLE"),
        (b'{"id": "a", "ok": 1}', "column 'ok': 1 is not a valid BOOLEAN; write true or false, or null"),
        (b'{"id": "a", "price": 1.234}', "column 'price': "),
        (b'{"id": "a", "price": 1234.5}', "column 'price': "),
        (b'{"id": "a", "day": "2013-13-01"}', "column 'day': \"2013-13-01\" is not a valid DATE; write a day"),
        (b'{"id": "a", "raw": "\\\\xZZ"}', "column 'raw': bad escape at character 1"),
        (b'{"id": "a", "raw": 7}', "column 'raw': 7 is not a valid BINARY"),
        (b'{"id": "a", "name": 7}', "column 'name': 7 is not a valid STRING; write a JSON string"),
        (b'{"id": "a", "name": "\\ud800"}', "column 'name': \"\\ud800\" is not a valid STRING"),
        (b'{"id": "a", "name": {"x": 1}}', "column 'name': {\"x\": 1} is not a valid STRING"),
        (b'{"big": 1}', "column 'id': null is not a valid key; every row needs one"),
        (b'{"id": "a",}', ", character 1"),  # 11 or 12, which depends on Python's version
        (b"[1]", " is not a JSON object"),
        (b'{"id": "\xfc"}', "byte 9 is not UTF-8"),
        (b"[" * 100_000, " is nested too deeply"),
    ],
)
def test_an_invalid_line_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, message: str, good_rows: int
) -> None:
    monkeypatch.setattr(json_lines, "_BLOCK_BYTES", 500)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": "good", "big": 1}\n' * good_rows + b"\n" + line + b'\n{"big": "also wrong"}\n')
    with pytest.raises(ArgumentError) as caught:
        read_rows(path, MAPPING)
    found = str(caught.value)
    assert found.startswith(f"{path}: line {good_rows + 2}")
    assert message in found


def test_a_line_that_is_too_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_LINE_BYTES_MAX", 30)
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "name": "too long for it"}\n')
    with pytest.raises(ArgumentError, match="line 2 is longer than"):
        read_rows(path, MAPPING)


def test_positions_are_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"id": "{number}", "name": "{"x" * 1000}"}}\n' for number in range(5_000)))
    positions = [read.position for read in read_batches(path, MAPPING)]
    assert len(positions) >= 4
    assert positions == sorted(set(positions))
    assert positions[-1] == path.stat().st_size


@pytest.mark.parametrize(
    ("name", "row"), [("rows.csv.gz", b"id,big\na,1\n"), ("rows.jsonl.gz", b'{"id": "a", "big": 1}')]
)
def test_a_small_file_that_is_no_compressed_one_is_an_error(tmp_path: Path, name: str, row: bytes) -> None:
    path = tmp_path / name
    mapping = Mapping("id STRING :key, big BIGINT f:big")
    path.write_bytes(gzip.compress(row))
    assert read_rows(path, mapping) == [{"id": "a", "big": 1}]
    for damaged in (row, gzip.compress(row)[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(ArgumentError, match=f"{name} can't be read"):
            read_rows(path, mapping)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz"])
@pytest.mark.parametrize("lost", [1, 8, 30, 2000])
def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path: Path, name: str, lost: int) -> None:
    path = tmp_path / name
    rows = [{**EMPTY, "id": str(number), "big": hash(str(number))} for number in range(1000)]
    write_file(path, [pa.RecordBatch.from_pylist(rows, MAPPING.schema)], MAPPING.schema)
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(ArgumentError, match=f"{name} can't be read"):
        read_rows(path, MAPPING)


def test_integers_that_a_double_holds_are_numbers_of_a_double(tmp_path: Path) -> None:
    mapping = Mapping("id STRING :key, ratio DOUBLE f:ratio, half FLOAT f:half")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "ratio": 100000000000000000, "half": 16777217}\n{"id": "b", "ratio": 0.5}\n')
    assert [row["ratio"] for row in read_rows(path, mapping)] == [1e17, 0.5]
    path.write_text('{"id": "a", "ratio": 1e400}\n')
    with pytest.raises(ArgumentError, match="line 1, column 'ratio': 1E\\+400 is too large for a DOUBLE"):
        read_rows(path, mapping)


def test_a_day_beyond_pythons_years_can_not_be_written(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("day", pa.date32())])
    batch = pa.RecordBatch.from_arrays([pa.array([10**7], pa.int32()).cast(pa.date32())], schema=schema)
    with pytest.raises(ArgumentError, match="a date or time can't be written as JSON"):
        write_file(tmp_path / "rows.jsonl", [batch], schema)
