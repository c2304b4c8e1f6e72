"""Tables of several regions from Spark, also while regions are split and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 3000


def test_a_dataframe_is_written_and_read_across_regions_that_are_split_and_merged(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    mapping = "id STRING :key, n BIGINT f:n"
    table = rowlock_client.create_table("t", ["f"], splits=["01000", "02000"])
    options = {"server": rowlock_server.address, "table": "t", "mapping": mapping}
    wanted = spark.range(0, _ROWS, numPartitions=2).selectExpr("format_string('%05d', id) AS id", "id AS n")

    def read() -> DataFrame:
        return spark.read.format("rowlock").options(**options).load()

    def total(frame: DataFrame) -> tuple[int, int]:
        [found] = retried(lambda: frame.selectExpr("count(*)", "sum(n)").collect())
        return found[0], found[1]

    retried(lambda: wanted.write.format("rowlock").mode("append").options(**options).save())
    expected = (_ROWS, _ROWS * (_ROWS - 1) // 2)
    before = read()
    assert total(before) == expected
    rowlock_client.split("t", "00500")
    rowlock_client.split("t", "01500")
    rowlock_client.merge("t", "02000")
    table.delete_range(prefix="00")
    assert total(before) == expected  # It reads its snapshot.
    assert total(read()) == (2000, sum(range(1000, _ROWS)))
    retried(lambda: wanted.write.format("rowlock").mode("append").options(**options).save())
    assert total(read()) == expected
    assert [region.start for region in rowlock_client.regions("t")] == [b"", b"00500", b"01000", b"01500"]
