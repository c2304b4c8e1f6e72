"""Ten analytic queries have the answers that they have of a Parquet file, of rows in files, in memory and in both."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from bench.spark.queries import QUERIES, answer
from bench.spark.rows import write_parquet
from bench.spark.trips import THREE_FAMILIES, schema, trip_reader, trips, write_trips
from bench.targets.typed_rows import COLUMNS, KEY, trip_key, typed_rows
from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE = "queried"
_COUNT = 4000
_HALF = trip_key(_COUNT // 2)
# A row of the files is changed in memory, in one column: its tip, whose new value Parquet has too.
_CHANGED_EVERY = 10
_CHANGED = f"case when cast({KEY} as int) % {_CHANGED_EVERY} = 0 then 77.25D else tip end"


@pytest.fixture(scope="module")
def parquet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trips after the change."""
    path = tmp_path_factory.mktemp("queries") / "trips.parquet"
    columns = [f"{_CHANGED} tip" if name == "tip" else name for name in COLUMNS]
    retried(lambda: write_parquet(trips(spark, _COUNT).selectExpr(KEY, *columns), path))
    return path


@pytest.fixture(scope="module")
def server(spark: SparkSession, rowlock_server: RowlockServer) -> Iterator[str]:
    """Half of the trips in files, half in memory, and some of them in both."""
    address = rowlock_server.address
    with rowlock.connect(address) as client:
        client.create_table(_TABLE, list(THREE_FAMILIES.families))
        frame = trips(spark, _COUNT)
        retried(lambda: write_trips(frame.where(f"{KEY} < '{_HALF}'"), address, _TABLE, THREE_FAMILIES))
        client.flush(_TABLE)
        retried(lambda: write_trips(frame.where(f"{KEY} >= '{_HALF}'"), address, _TABLE, THREE_FAMILIES))
        with client.table(_TABLE).batch() as batch:
            for number in range(0, _COUNT, _CHANGED_EVERY):
                batch.put(trip_key(number), {THREE_FAMILIES.columns["tip"]: struct.pack(">d", 77.25)})
        yield address
        client.drop_table(_TABLE)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_answer_of_parquet(name: str, spark: SparkSession, server: str, parquet: Path) -> None:
    def of_rowlock(*columns: str) -> DataFrame:
        return trip_reader(spark, server, _TABLE, THREE_FAMILIES).schema(schema(columns)).load()

    def of_parquet(*columns: str) -> DataFrame:
        return spark.read.parquet(str(parquet)).select(*columns)

    ours = retried(lambda: answer(QUERIES[name], of_rowlock))
    assert ours == answer(QUERIES[name], of_parquet)
    assert ours


def test_trips_of_spark_have_the_types_of_typed_rows(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    made = to_arrow_schema(trips(spark, 10).schema, timezone="UTC")
    expected = typed_rows(10).schema
    assert (made.names, made.types) == (expected.names, expected.types)
