"""CSV files with long fields are read like others."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.file_formats import reader, writer

MAPPING = Mapping("k STRING :key, v STRING f:v")
LONG = 16 << 20


def test_a_field_of_sixteen_mebibytes_is_read_among_short_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        file.write("k,v\n")
        for number in range(6):
            file.write(f"{number},short\n{number}-long,{'x' * LONG}\n")
    lengths = {}
    with reader(path, "csv", MAPPING, ()) as batches:
        for batch in batches:
            for row in batch.to_pylist():
                lengths[row["k"]] = len(row["v"])
    assert lengths == {str(n): 5 for n in range(6)} | {f"{n}-long": LONG for n in range(6)}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_duplicate_column_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rows"
    if kind == "csv":
        path.write_text("k,v,other,other,v\n1,a,2,3,b\n")
    else:
        text = pa.array(["1"])
        pa_parquet.write_table(pa.Table.from_arrays([text] * 3, ["k", "v", "v"]), path)
    with pytest.raises(ArgumentError, match="has the column 'v' twice"), reader(path, kind, MAPPING, ()):
        pass


def test_timestamps_of_a_csv_file_have_a_zone_or_are_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n1,2013-01-31 05:00:00\n2,2013-01-31T05:00:00Z\n3,\n4,2013-01-31T07:00:00+02:00\n5,NA\n")
    five = datetime.datetime(2013, 1, 31, 5, tzinfo=datetime.UTC)
    with reader(path, "csv", Mapping("k STRING :key, t TIMESTAMP f:t"), ["NA"]) as batches:
        (batch,) = batches
        assert batch.column("t").to_pylist() == [five, five, None, five, None]


def test_an_invalid_timestamp_is_reported_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n1,yesterday\n")
    with (
        pytest.raises(ArgumentError, match=r"rows\.csv can't be read as csv .*'yesterday'"),
        reader(path, "csv", Mapping("k STRING :key, t TIMESTAMP f:t"), ()) as batches,
    ):
        list(batches)


def test_a_row_that_is_too_long_is_reported_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"k,v\n1,{'x' * (100 << 20)}\n")
    with (
        pytest.raises(ArgumentError, match=r"line 2 is longer than 96 MiB; is a closing quote missing\?"),
        reader(path, "csv", MAPPING, ()) as batches,
    ):
        list(batches)


MAPPING_OF_TWO = Mapping("id STRING :key, delay INT f:d")
TYPED = Mapping("id STRING :key, delay INT f:d, name STRING f:n, at TIMESTAMP f:t, raw BINARY f:r, p DECIMAL(5,2) f:p")
HEADING = b"other,id,delay,name,at,raw,p\n"


def fault(path: Path, content: bytes, mapping: Mapping = TYPED, nulls: Sequence[str] = (), separator: str = ",") -> str:
    """Returns the error for a file with that content, without the file name."""
    path.write_bytes(content)
    with pytest.raises(ArgumentError) as caught, reader(path, "csv", mapping, nulls, separator) as batches:
        list(batches)
    return str(caught.value).removeprefix(f"{path} ").removeprefix("can't be read as csv with this mapping: ")


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("good_rows", [0, 3, 70_000])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"x,b,12.5,,,,", "column 'delay': '12.5' is not a valid INT"),
        (b"x,,1,,,,", "column 'id': '' is not a valid key; every row needs one"),
        (b"x,b,NA,,,,", "column 'delay': 'NA' is not a valid INT; if it means null, give --null NA"),
        (b"x,b,#?,,,,", "column 'delay': '#?' is not a valid INT; if it means null, give --null '#?'"),
        (b'x,b,"",,,,', "column 'delay': '' is quoted, so it is a value and not a null, and it is not a valid INT"),
        (b"x,b,1,M\xfcnchen,,,", r"column 'name': 'M\xfcnchen' is not UTF-8; convert the file first, for"),
        (b"x,b,1,,2013-13-01 00:00:00,,", "column 'at': '2013-13-01 00:00:00' is not a valid TIMESTAMP"),
        (b"x,b,1,,,\\xZZ,", r"column 'raw': bad escape at character 1 of '\xZZ'"),
        (b"x,b,1,,,,12.345", "column 'p': '12.345' is not a valid DECIMAL(5,2)"),
        (b"x,b,1,,,,1234.5", "column 'p': '1234.5' is not a valid DECIMAL(5,2)"),
    ],
)
def test_an_invalid_value_of_a_csv_file_is_reported_with_line_and_column(
    tmp_path: Path, row: bytes, message: str, good_rows: int, line_end: bytes
) -> None:
    content = HEADING + b"x,a,1,,,,\n" * good_rows + row + b"\nx,c,also wrong,,,,\n"
    found = fault(tmp_path / "rows.csv", content.replace(b"\n", line_end))
    assert found.startswith(f"line {good_rows + 2}, {message}")


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    before = b'x,a,1,"two\nlines",,,\n\n\nx,"b\r\nb",'
    assert fault(tmp_path / "rows.csv", HEADING + before + b"?,,,,\n").startswith("line 7, column 'delay'")
    assert fault(tmp_path / "rows.csv", b"\xef\xbb\xbfid,delay\na,?", MAPPING_OF_TWO).startswith(
        "line 2, column 'delay'"
    )


def test_a_row_with_another_number_of_fields_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert fault(path, b"id,delay\na,1\nb,2,3\n", MAPPING_OF_TWO) == "line 3 has 3 fields, but the heading has 2"
    found = fault(path, b'id,delay\na,1\n"b,2\nc,3\nd,4\n', MAPPING_OF_TWO)
    assert found == "line 3 has 1 fields, but the heading has 2, and extends to line 5: is a closing quote missing?"


def test_a_quoted_null_is_reported_as_quoted(tmp_path: Path) -> None:
    found = fault(tmp_path / "rows.csv", b'id,delay\na,NA\nb,"NA"\n', MAPPING_OF_TWO, ["NA"])
    assert found == "line 3, column 'delay': 'NA' is quoted, so it is a value and not a null, and it is not a valid INT"


@pytest.mark.parametrize(
    ("separator", "hint"), [(";", "a semicolon: give --separator ';'"), ("\t", r"a tab: give --separator '\t'")]
)
def test_another_separator_is_named_and_read(tmp_path: Path, separator: str, hint: str) -> None:
    path = tmp_path / "rows.csv"
    content = b"id,delay\na,1\n".replace(b",", separator.encode())
    assert fault(path, content, MAPPING_OF_TWO).endswith(
        f"; its columns are id{separator}delay. Its separator seems to be {hint}"
    )
    path.write_bytes(content)
    with reader(path, "csv", MAPPING_OF_TWO, (), separator) as batches:
        assert [batch.to_pylist() for batch in batches] == [[{"id": "a", "delay": 1}]]
    assert fault(path, content.replace(b"1", b"?"), MAPPING_OF_TWO, (), separator).startswith("line 2, column 'delay'")
    with writer(path, "csv", MAPPING_OF_TWO, separator) as write:
        write(pa.RecordBatch.from_pydict({"id": [f"a{separator}b", "c"], "delay": [1, None]}, MAPPING_OF_TWO.schema))
    with reader(path, "csv", MAPPING_OF_TWO, (), separator) as batches:
        assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == [
            (f"a{separator}b", 1),
            ("c", None),
        ]
