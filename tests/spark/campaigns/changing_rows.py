"""Aggregates and self-joins over rows that point writers change continuously.

Each row has two numbers whose sum is always 100, and every change writes both. So the sum of each row is exact at every
read point, and the two sides of a self-join agree in every row only if both have the same read point.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rowlock
from rowlock import Put

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import FORMAT
from tests.spark.campaigns.setup import Setup, in_own_process, set_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROMISE = "aggregates and self-joins over rows that change continuously are exact in every read"
READS, READS_SHORT = 50, 3
ROWS = 500
WRITERS = 2
SUM = 100
MAPPING = "id STRING :key, a BIGINT f:a, b BIGINT f:b"


def run(settings: Settings, source: str = FORMAT) -> Account:
    """Runs the campaign. source: the format to read, which may be one that is broken on purpose."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup:
            table = setup.client.table("t")
            for index in range(ROWS):
                table.mutate_row(_row(index), _changes(50))
            setup.client.flush("t")
            spark = setup.session("local[2]")
            if source != FORMAT:
                from tests.spark.campaigns.broken_formats import register

                register(spark)
            with _writers(setup, account):
                for number in range(1, 1 + (READS_SHORT if settings.is_short else READS)):
                    _read(spark, setup, source, number, account)
            spark.stop()

    return in_own_process("changing_rows", PROMISE, campaign)


def _read(spark: SparkSession, setup: Setup, source: str, number: int, account: Account) -> None:
    from pyspark.sql.functions import col, count, max, min, sum

    frame: DataFrame = (
        spark.read.format(source)
        .option("server", setup.server.address)
        .option("mapping", MAPPING)
        # Many partitions, which are read at different times.
        .option("partition_bytes", 16 * 1024)
        .load("t")
    )
    of_row = col("a") + col("b")
    [found] = frame.agg(sum(of_row), count("*"), min(of_row), max(of_row)).collect()
    if tuple(found) != (SUM * ROWS, ROWS, SUM, SUM):
        account.problems.append(f"read {number}: sum, count, minimum and maximum of a + b are {tuple(found)}")
    left, right = frame.alias("l"), frame.alias("r")
    joined = left.join(right, col("l.id") == col("r.id")).where(col("l.a") + col("r.b") != SUM)
    different = joined.count()
    if different:
        account.problems.append(f"read {number}: the sides of a self-join differ in {different} rows")
    account.counts["reads"] += 1


@contextmanager
def _writers(setup: Setup, account: Account) -> Iterator[None]:
    """Changes rows until the block ends."""
    stop = threading.Event()
    counts = [0] * WRITERS

    def write(place: int) -> None:
        chance = random.Random(f"{setup.row_count}/{place}")
        with rowlock.connect(setup.server.address, timeout=60) as client:
            while not stop.is_set():
                client.table("t").mutate_row(_row(chance.randrange(ROWS)), _changes(chance.randrange(SUM + 1)))
                counts[place] += 1

    threads = [threading.Thread(target=write, args=(place,)) for place in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        account.counts["changes meanwhile"] += sum(counts)


def _row(index: int) -> str:
    return f"{index:06d}"


def _changes(a: int) -> list[Put]:
    return [Put(name, number.to_bytes(8, "big")) for name, number in (("f:a", a), ("f:b", SUM - a))]
