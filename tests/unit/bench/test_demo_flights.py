"""The demo's source: the flights as they are in the package."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute
import pytest

from bench.demo import flights

_HEADER = ",".join(flights.COLUMN_TYPES)


@pytest.fixture(scope="module")
def source() -> pa.Table:
    return flights.read_flights()


def test_all_flights_are_there_under_keys_of_their_own(source: pa.Table) -> None:
    assert len(source) == 336_776
    assert len(source.group_by(list(flights.KEY_COLUMNS)).aggregate([])) == 336_776


def test_columns_have_their_types_and_na_is_null(source: pa.Table) -> None:
    assert {field.name: field.type for field in source.schema} == flights.COLUMN_TYPES
    assert {name: source[name].null_count for name in flights.ACTUAL_COLUMNS} == {
        "dep_time": 8255,
        "dep_delay": 8255,
        "arr_time": 8713,
        "arr_delay": 9430,
        "tailnum": 2512,
        "air_time": 9430,
    }
    assert all(source[name].null_count == 0 for name in (*flights.KEY_COLUMNS, *flights.PLAN_COLUMNS))
    assert source["time_hour"][0].as_py() == "2013-01-01T10:00:00Z"
    assert pyarrow.compute.sum(source["arr_delay"]).as_py() == 2_257_174


def test_a_part_of_the_flights_is_spread_over_the_year(source: pa.Table) -> None:
    part = flights.evenly(source, 1000)
    assert len(part) == 1000
    assert len(part["month"].unique()) == 12
    assert flights.evenly(source, 10**9) is source


def test_a_flight_s_row_is_its_key_columns_as_text(source: pa.Table) -> None:
    assert flights.keys_of(source.slice(0, 2)) == [b"2013-01-01T10:00:00Z|UA|1545", b"2013-01-01T10:00:00Z|UA|1714"]


def test_flights_are_sorted_by_their_rows(source: pa.Table) -> None:
    part = flights.evenly(source, 5000)
    keys = flights.keys_of(flights.sorted_by_key(part))
    assert keys == sorted(flights.keys_of(part))


def test_a_source_without_a_column_is_refused() -> None:
    with pytest.raises(flights.SourceMissingError, match="do not have the expected columns and types"):
        flights.parse(b"year,month\n2013,1\n")


def test_a_number_that_is_none_is_refused() -> None:
    line = ",".join("x" for _ in flights.COLUMN_TYPES)
    with pytest.raises(flights.SourceMissingError, match="do not have the expected columns and types"):
        flights.parse(f"{_HEADER}\n{line}\n".encode())
