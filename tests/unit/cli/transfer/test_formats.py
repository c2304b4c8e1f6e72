"""The format of a file follows from its name or from --format."""

from __future__ import annotations

import pytest
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer.formats import Format, format_of


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("a/rows.csv", None, Format("csv")),
        ("rows.CSV.GZ", None, Format("csv", is_compressed=True)),
        ("rows.jsonl", None, Format("jsonl")),
        ("rows.ndjson.gz", None, Format("jsonl", is_compressed=True)),
        ("rows.parquet", None, Format("parquet")),
        ("rows", "jsonl", Format("jsonl")),
        ("rows.gz", "csv", Format("csv", is_compressed=True)),
        ("-", "csv.gz", Format("csv", is_compressed=True)),
        ("-", "NDJSON", Format("jsonl")),
        ("-", "parquet", Format("parquet")),
    ],
)
def test_the_name_or_the_option_says_the_format(name: str, given: str | None, found: Format) -> None:
    assert format_of(name, given, None) == found


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("-", None, "give --format for standard input and output"),
        ("csv", None, "the format of csv is unknown"),
        ("a.csv/rows", None, "the format of rows is unknown"),
        ("rows.txt", None, "the format of rows.txt is unknown: give --format csv, jsonl or parquet"),
        ("rows.csv", "xml", "--format must be csv, jsonl or parquet, or csv.gz or jsonl.gz, not 'xml'"),
        ("rows.parquet.gz", None, "a Parquet file is compressed inside"),
    ],
)
def test_an_unknown_format_is_refused(name: str, given: str | None, message: str) -> None:
    with pytest.raises(ArgumentError, match="^" + message.replace("(", r"\(")):
        format_of(name, given, None)
