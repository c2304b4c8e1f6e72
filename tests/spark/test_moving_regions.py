"""Spark reads and writes a table while its regions are split and merged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried
from tests.waiting import WAIT_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAPPING = "id STRING :key, n BIGINT f:n"
_ROWS = 3000
# Rows of the table, at which it is split.
_SPLITS = ("00500", "01500", "02500")


@contextmanager
def _moving(client: rowlock.Client) -> Iterator[list[str]]:
    """Splits and merges table t, flushes and compacts it, until exit. Yields what was done so far."""
    done: list[str] = []
    failures: list[BaseException] = []
    is_over = threading.Event()

    def move() -> None:
        while not is_over.is_set():
            for row in _SPLITS:
                client.split("t", row)
                done.append(f"split at {row}")
            client.flush("t")
            client.compact("t")
            for row in _SPLITS:
                client.merge("t", row)
                done.append(f"merged at {row}")

    def run() -> None:
        try:
            move()
        except BaseException as failure:  # raised again by the test's thread
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        is_over.set()
        thread.join(WAIT_S)
    if failures:
        raise failures[0]


def test_a_table_is_read_and_written_while_its_regions_are_split_and_merged(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    table = rowlock_client.create_table("t", ["f"])
    options = {"server": rowlock_server.address, "table": "t", "mapping": _MAPPING}
    numbers = spark.range(0, _ROWS, numPartitions=3)

    def written(factor: int) -> None:
        frame = numbers.selectExpr("lpad(id, 5, '0') AS id", f"id * {factor} AS n")
        frame.write.format("rowlock").mode("append").options(batch_bytes=4096, **options).save()

    def read() -> DataFrame:
        return spark.read.format("rowlock").options(partition_bytes=8192, batch_bytes=4096, **options).load()

    def values() -> list[tuple[str, int]]:
        return sorted((row.id, row.n) for row in read().collect())

    with _moving(rowlock_client) as done:
        retried(lambda: written(1))
        assert retried(values) == [(f"{number:05}", number) for number in range(_ROWS)]
        retried(lambda: written(2))
        assert retried(values) == [(f"{number:05}", 2 * number) for number in range(_ROWS)]
        wait_until(lambda: len(done) > 2 * len(_SPLITS))
    assert table.scan().to_arrow(_MAPPING).column("n").to_pylist() == [2 * number for number in range(_ROWS)]
