"""Each read of Spark has one moment of the whole table, while money moves between its regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.crash.account import Account, Settings
from tests.seeds import drawn_seed
from tests.spark.campaigns.consistent_cut import PROMISE, read_bank

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_read_has_the_whole_sum(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    account = Account("consistent_cut", PROMISE)
    read_bank(spark, rowlock_server.address, rowlock_client, Settings(drawn_seed(), is_short=True), account)
    assert not account.problems, account
