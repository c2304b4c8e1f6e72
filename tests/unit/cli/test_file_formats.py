"""CSV files with long fields are read like others."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.file_formats import reader

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
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, kind: str) -> None:
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


def test_a_timestamp_of_a_csv_file_that_is_none_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t\n1,yesterday\n")
    with (
        pytest.raises(ArgumentError, match=r"rows\.csv can't be read as csv .*'yesterday'"),
        reader(path, "csv", Mapping("k STRING :key, t TIMESTAMP f:t"), ()) as batches,
    ):
        list(batches)


def test_a_row_that_is_too_long_to_be_read_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"k,v\n1,{'x' * (100 << 20)}\n")
    with (
        pytest.raises(ArgumentError, match=r"rows\.csv can't be read as csv"),
        reader(path, "csv", MAPPING, ()) as batches,
    ):
        list(batches)
