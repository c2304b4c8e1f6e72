"""The demo's expected values, computed by Spark from CSV files."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.demo import csv_files, frames
from bench.demo.__main__ import source
from bench.demo.corrections import Corrected, seen_count
from bench.demo.flights import keys_of
from bench.demo.steps.spark_join import seen_corrections
from bench.demo.steps.spark_start import rounds_of

_FLIGHTS = 1000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> csv_files.CsvFiles:
    return csv_files.unpacked(tmp_path_factory.mktemp("csv"), _FLIGHTS)


@pytest.fixture
def flights(spark: SparkSession, files: csv_files.CsvFiles) -> DataFrame:
    return frames.flights_of_csv(spark, files.flights)


def test_spark_reads_the_flights_that_arrow_reads(flights: DataFrame) -> None:
    found = flights.drop("correction").toArrow().to_pylist()
    rows = dict(zip(keys_of(source(_FLIGHTS)), source(_FLIGHTS).to_pylist(), strict=True))
    assert {f"{f['time_hour']}|{f['carrier']}|{f['flight']}".encode(): f for f in found} == rows


def test_corrections_change_their_flights_alone_and_are_found_again(flights: DataFrame) -> None:
    rounds = rounds_of(source(_FLIGHTS))
    state = {**rounds[0].first(3), **rounds[1].first(120)}
    corrected = frames.with_corrections(flights, state)
    surplus = frames.unequal(corrected, flights).collect()
    assert len(surplus) == 2 * len(state)
    seen = seen_corrections(corrected, rounds)
    assert [seen_count(own, seen[own.writer]) for own in rounds] == [3, 120]
    [row] = list(rounds[0].first(1))
    assert seen[rounds[0].writer][row] == Corrected(rounds[0].delays[0] // 2, rounds[0].writer, 0)


def test_a_row_that_is_doubled_missing_or_changed_is_unequal_and_nulls_are_equal(spark: SparkSession) -> None:
    schema = "id INT, delay INT"
    expected = spark.createDataFrame([(1, None), (2, 5), (3, 7), (4, None)], schema)
    found = spark.createDataFrame([(1, None), (2, 5), (2, 5), (4, 1)], schema)
    surplus = {(row["id"], row["delay"]): row["surplus"] for row in frames.unequal(found, expected).collect()}
    assert surplus == {(2, 5): 1, (3, 7): -1, (4, None): -1, (4, 1): 1}
    assert frames.unequal(expected, expected).collect() == []


def test_flights_without_a_known_plane_or_weather_stay_in_the_join(
    spark: SparkSession, files: csv_files.CsvFiles, flights: DataFrame
) -> None:
    planes = frames.planes_of_csv(spark, files.planes)
    weather = frames.weather_of_csv(spark, files.weather)
    sums = frames.delays_by_maker_and_sight(frames.joined(flights, planes, weather)).collect()
    assert sum(row["flights"] for row in sums) == _FLIGHTS
    assert any(row["manufacturer"] is None for row in sums)
    assert any(row["is_foggy"] for row in sums)
    assert sum(row["delays"] or 0 for row in sums) == sum(filter(None, source(_FLIGHTS)["arr_delay"].to_pylist()))
