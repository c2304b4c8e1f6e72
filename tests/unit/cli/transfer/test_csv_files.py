"""CSV files: long rows, small blocks, faults with their places, separators."""

from __future__ import annotations

import datetime
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer import csv_files, files
from rowlock.cli.transfer.columns import columns_of

from tests.drawn_cases import drawn
from tests.unit.cli.transfer.reading import read_batches, read_rows, write_file

MAPPING = Mapping("k STRING :key, v STRING f:v")
LONG = 16 << 20


def test_a_field_of_sixteen_mebibytes_is_read_among_short_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        file.write("k,v\n")
        for number in range(6):
            file.write(f"{number},short\n{number}-long,{'x' * LONG}\n")
    lengths = {row["k"]: len(row["v"]) for row in read_rows(path, MAPPING)}
    assert lengths == {str(n): 5 for n in range(6)} | {f"{n}-long": LONG for n in range(6)}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_duplicate_column_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rows"
    if kind == "csv":
        path.write_text("k,v,other,other,v\n1,a,2,3,b\n")
    else:
        text = pa.array(["1"])
        pa_parquet.write_table(pa.Table.from_arrays([text] * 3, ["k", "v", "v"]), path)
    with pytest.raises(ArgumentError, match="has the column 'v' twice"):
        read_rows(path, MAPPING, kind=kind)


def test_timestamps_of_a_csv_file_have_a_zone_or_are_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n1,2013-01-31 05:00:00\n2,2013-01-31T05:00:00Z\n3,\n4,2013-01-31T07:00:00+02:00\n5,NA\n")
    five = datetime.datetime(2013, 1, 31, 5, tzinfo=datetime.UTC)
    rows = read_rows(path, Mapping("k STRING :key, t TIMESTAMP f:t"), ["NA"])
    assert [row["t"] for row in rows] == [five, five, None, five, None]


def test_an_invalid_timestamp_is_reported_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n1,yesterday\n")
    with pytest.raises(ArgumentError, match=r"rows\.csv can't be read as csv .*'yesterday'"):
        read_rows(path, Mapping("k STRING :key, t TIMESTAMP f:t"))


@pytest.mark.parametrize(("where", "step"), [(csv_files, "_converted"), (files, "_joined")], ids=["csv", "any"])
def test_a_lack_of_memory_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: ModuleType, step: str
) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    path = tmp_path / "rows.csv"
    path.write_text("k,v\n1,a\n")
    monkeypatch.setattr(where, step, no_memory)
    with pytest.raises(MemoryError, match="malloc"):
        read_rows(path, MAPPING)


def test_a_row_that_is_too_long_is_reported_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"k,v\n1,{'x' * (100 << 20)}\n")
    with pytest.raises(ArgumentError, match=r"line 2 is longer than 96 MiB; is a closing quote missing\?"):
        read_rows(path, MAPPING)


@pytest.mark.parametrize("seed", range(3))
def test_rows_longer_than_a_block_come_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each long row lets the file be parsed again from its beginning, with larger blocks; empty lines are no rows."""
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES_MIN", 64)
    draw = random.Random(seed)
    expected = []
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        file.write("k,v\n")
        for number in range(2000):
            file.write("\n" * draw.choice([0, 0, 0, 1, 3]))
            # Longer ones come later and later.
            length = draw.randrange(40) if draw.random() < 0.99 else draw.randrange(number + 40)
            text = "".join(draw.choice(["a", "\n", ",", "ü"]) for _ in range(length))
            expected.append((f"{number}", text))
            file.write(f'{number},"{text}"\n')
    reads = read_batches(path, MAPPING)
    assert [tuple(row.values()) for read in reads for row in read.batch.to_pylist()] == expected


@pytest.mark.parametrize("rows_before", range(4, 44))
def test_a_batch_of_delivered_rows_and_others_gives_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_before: int
) -> None:
    """The second size of blocks is no multiple of the first, so a batch may begin with rows that were delivered."""
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES_MIN", 64)
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES_MAX", 100)
    path = tmp_path / "rows.csv"
    keys = [f"k{number:05}" for number in range(60)]
    lines = ["k,v12345\n", *(f"{key},\n" for key in keys)]
    lines.insert(rows_before + 1, f"long,{'x' * 72}\n")
    path.write_text("".join(lines))
    found = [row["k"] for row in read_rows(path, Mapping("k STRING :key, v12345 STRING f:v"))]
    assert found == [*keys[:rows_before], "long", *keys[rows_before:]]


def test_the_positions_of_a_small_file_rise_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,v\n" + "".join(f"{number},{'x' * 1000}\n" for number in range(5_000)))
    positions = [read.position for read in read_batches(path, MAPPING)]
    assert len(positions) >= 4
    assert positions == sorted(set(positions))
    assert positions[-1] == path.stat().st_size


MAPPING_OF_TWO = Mapping("id STRING :key, delay INT f:d")
TYPED = Mapping("id STRING :key, delay INT f:d, name STRING f:n, at TIMESTAMP f:t, raw BINARY f:r, p DECIMAL(5,2) f:p")
HEADING = b"other,id,delay,name,at,raw,p\n"


def fault(
    path: Path, content: bytes, mapping: Mapping = TYPED, nulls: Sequence[str] = (), separator: str | None = None
) -> str:
    """Returns the error for a file with that content, without the file name."""
    path.write_bytes(content)
    with pytest.raises(ArgumentError) as caught:
        read_rows(path, mapping, nulls, separator)
    return str(caught.value).removeprefix(f"{path} ").removeprefix("can't be read as csv with this mapping: ")


WRITE = f"write a whole number from {-(1 << 31)} to {(1 << 31) - 1}"


@pytest.mark.parametrize("good_rows", [0, 3, 70_000])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"x,b,12.5,,,,", "column 'delay': '12.5' is not a valid INT"),
        (b"x,,1,,,,", "column 'id': '' is not a valid key; every row needs one"),
        (b"x,b,NA,,,,", f"column 'delay': 'NA' is not a valid INT; {WRITE}; if it means null, give --null NA\n"),
        (b"x,b, ,,,,", f"column 'delay': ' ' is not a valid INT; {WRITE}; if it means null, give --null ' '\n"),
        (b"x,b,\\N,,,,", f"column 'delay': '\\N' is not a valid INT; {WRITE}; if it means null, give --null '\\N'\n"),
        (b"x,b,yes,,,,", f"column 'delay': 'yes' is not a valid INT; {WRITE}\n"),
        (b'x,b,"",,,,', "column 'delay': '' is quoted, so it is a value and not a null, and it is not a valid INT"),
        (b"x,b,1,M\xfcnchen,,,", r"column 'name': 'M\xfcnchen' is not UTF-8; convert the file first, for"),
        (b"x,b,1,,2013-13-01 00:00:00,,", "column 'at': '2013-13-01 00:00:00' is not a valid TIMESTAMP"),
        (b"x,b,1,,,\\xZZ,", r"column 'raw': bad escape at character 1 of '\xZZ'"),
        (b"x,b,1,,,,12.345", "column 'p': '12.345' is not a valid DECIMAL(5,2)"),
        (b"x,b,1,,,,1234.5", "column 'p': '1234.5' is not a valid DECIMAL(5,2)"),
    ],
)
def test_an_invalid_value_of_a_csv_file_is_reported_with_line_and_column(
    tmp_path: Path, row: bytes, message: str, good_rows: int
) -> None:
    content = HEADING + b"x,a,1,,,,\n" * good_rows + row + b"\nx,c,also wrong,,,,\n"
    for line_end in drawn([b"\n", b"\r\n"], 1 if good_rows > 3 else 2, f"line ends of {row!r}"):
        found = fault(tmp_path / "rows.csv", content.replace(b"\n", line_end))
        # A message that ends with a line break is the whole one.
        assert f"{found}\n".startswith(f"line {good_rows + 2}, {message}"), line_end


def test_a_number_that_is_too_large_for_a_float_is_reported(tmp_path: Path) -> None:
    mapping = Mapping("k STRING :key, v FLOAT f:v")
    path = tmp_path / "rows.csv"
    path.write_bytes(b"k,v\na,0.1\nb,-inf\nc,\nd,3.4028235e38\n")
    values = [row["v"] for row in read_rows(path, mapping)]
    assert pa.array(values, pa.float32()) == pa.array([0.1, float("-inf"), None, 3.4028235e38], pa.float32())
    assert fault(path, b"k,v\na,1\nb,-1e300\n", mapping) == "line 3, column 'v': '-1e300' is too large for a FLOAT"


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    before = b'x,a,1,"two\nlines",,,\n\n\nx,"b\r\nb",'
    assert fault(tmp_path / "rows.csv", HEADING + before + b"?,,,,\n").startswith("line 7, column 'delay'")
    assert fault(tmp_path / "rows.csv", b"\xef\xbb\xbfid,delay\na,?", MAPPING_OF_TWO).startswith(
        "line 2, column 'delay'"
    )


def test_a_row_with_another_number_of_fields_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert fault(path, b"id,delay\na,1\nb,2,3\n", MAPPING_OF_TWO) == "line 3 has 3 fields, but the heading has 2"
    assert fault(path, b"id,delay\na,1\nb\n", MAPPING_OF_TWO) == "line 3 has 1 field, but the heading has 2"
    found = fault(path, b'id,delay\na,1\n"b,2\nc,3\nd",4,5\n', MAPPING_OF_TWO)
    assert found == "line 3 has 3 fields, but the heading has 2, and extends to line 5: is a closing quote missing?"


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (b'"b,2\n', 3),
        (b'"b,2\nc,3\nd,4\n', 3),
        (b'b,"2\n', 3),
        (b'b,"2"\n"c,3\n', 4),
        (b'"b"" ,2\n', 3),
        (b'b "c,2\n"d,3', 4),
    ],
)
def test_a_quote_that_is_not_closed_is_reported_with_its_line(tmp_path: Path, row: bytes, line: int) -> None:
    found = fault(tmp_path / "rows.csv", b"id,delay\na,1\n" + row, MAPPING_OF_TWO)
    assert found == f"line {line}: a quote is not closed, so the row extends to the end of the file"


@pytest.mark.parametrize("row", [b'b,"2\n', b'b,"', b'b,"c\nd,e\n', b'b,"c""\n', b'b,"c,', b'"b"c,"d\n', b'""b,"\n'])
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_quote_that_is_not_closed_is_no_text(tmp_path: Path, row: bytes, separator: str) -> None:
    """The rest of the file was silently the value of the last column."""
    path = tmp_path / "rows.csv"
    path.write_bytes((b"k,v\n" + b"a,1\n" * 9 + row).replace(b",", separator.encode()))
    with pytest.raises(ArgumentError) as refused:
        read_rows(path, MAPPING, separator=separator)
    assert "line 11: a quote is not closed, so the row extends to the end of the file" in str(refused.value)
    assert str(refused.value).startswith(f"{path} can't be read")


@pytest.mark.parametrize(
    ("end", "value"),
    [(b'"', ""), (b'c"', "c"), (b'c""d"\n', 'c"d'), (b'c\n"\r\n\n', "c\n"), (b'c,"', "c,"), (b'c,""\n"', 'c,"\n')],
)
@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_a_file_may_end_with_a_closed_quote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, value: str, block_bytes: int
) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES_MIN", block_bytes)
    path = tmp_path / "rows.csv"
    path.write_bytes(b"k,v\n" + b"a,1\n" * 20 + b'b,"' + end)
    rows = read_rows(path, MAPPING)
    assert (len(rows), rows[-1]) == (21, {"k": "b", "v": value})


def test_a_row_that_is_not_utf_8_and_has_too_many_fields_is_reported_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tracebacks of pyarrow, which decodes such a row for a function that it then does not call, came before it."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)  # Not pytest's, which collects them.
    found = fault(tmp_path / "rows.csv", b"id,delay\na,1\n\xff,1,2\n", MAPPING_OF_TWO)
    assert found == "line 3 has 3 fields, but the heading has 2"
    assert capfd.readouterr().err == ""
    assert sys.unraisablehook is sys.__unraisablehook__


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
    assert read_rows(path, MAPPING_OF_TWO, (), separator) == [{"id": "a", "delay": 1}]
    assert fault(path, content.replace(b"1", b"?"), MAPPING_OF_TWO, (), separator).startswith("line 2, column 'delay'")
    schema = MAPPING_OF_TWO.schema
    batch = pa.RecordBatch.from_pydict({"id": [f"a{separator}b", "c"], "delay": [1, None]}, schema)
    write_file(path, [batch], schema, separator)
    rows = read_rows(path, MAPPING_OF_TWO, (), separator)
    assert [tuple(row.values()) for row in rows] == [(f"a{separator}b", 1), ("c", None)]


def test_a_file_of_utf_16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,n\na,1\n", encoding="utf-16")
    with pytest.raises(ArgumentError, match=r"rows\.csv is not UTF-8, and perhaps UTF-16; convert it first"):
        read_rows(path, Mapping("id STRING :key, n INT f:n"))


def test_a_column_that_the_mapping_does_not_name_is_refused_if_others_may_lack(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,payd\na,true\n")
    mapping = Mapping("id STRING :key, paid BOOLEAN f:paid, n INT f:n")
    with pytest.raises(
        ArgumentError, match=r"has the column 'payd', .* \(did you mean 'paid'\?\): rename it, or give --"
    ):
        read_rows(path, columns_of(mapping, is_partial=True))
    path.write_text("id,pai\x01d\na,true\n")
    with pytest.raises(ArgumentError, match=r"has the column 'pai\\x01d', which"):
        read_rows(path, columns_of(mapping, is_partial=True))
    path.write_text("id,paid,,zz\na,true,1,2\n")
    with pytest.raises(ArgumentError, match="has a column without a name, which the mapping does not name: rename it"):
        read_rows(path, columns_of(mapping, is_partial=True))
    assert read_rows(path, columns_of(mapping, is_partial=True, ignores_others=True)) == [{"id": "a", "paid": True}]
