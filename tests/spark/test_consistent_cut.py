"""Each read of Spark has one moment of the whole table, while money moves between its regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.consistent_cut import ACCOUNTS, BALANCE, TABLE, make_bank, move_money
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account
from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAPPING = "id STRING :key, balance STRING f:balance"
_READS = 4
_BESIDE = ("bulk transfers", "transfers under a lock", "splits")


def test_every_read_has_the_whole_sum(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    account = Account("a bank and Spark", "every read has the whole sum")
    make_bank(rowlock_client)
    sums = []
    with WorkerThreads(account) as workers:
        move_money(workers, rowlock_client, drawn_seed())
        for _ in range(_READS):
            before = workers.counted("bulk transfers")
            workers.wait_until(lambda: workers.counted("bulk transfers") > before, WAIT_S)  # noqa: B023
            frame = (
                spark.read.format("rowlock")
                .option("server", rowlock_server.address)
                .option("mapping", _MAPPING)
                .option("partition_bytes", 4096)
                .load(TABLE)
            )
            [found] = frame.selectExpr("count(*)", "sum(CAST(balance AS BIGINT))").collect()
            sums.append(tuple(found))
        workers.wait_until(lambda: all(workers.counted(what) for what in _BESIDE), WAIT_S)
    assert not account.problems
    assert all(account.counts[what] for what in _BESIDE), account.counts
    assert sums == [(ACCOUNTS, ACCOUNTS * BALANCE)] * _READS
