"""The sink and the source through Spark Connect, whose server is another Java."""

from __future__ import annotations

import os

from rowlock.spark import prepare_environment

from tests.crash.account import Account, Settings
from tests.spark.campaigns.setup import Setup, in_own_process, set_up

PROMISE = "Spark Connect writes, inserts, refuses and reads a DataFrame as classic Spark does"
_MAPPING = "id STRING :key, number INT f:number"


def run(settings: Settings) -> Account:
    """Runs the campaign."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup:
            _try_out(setup, account)

    return in_own_process("connect", PROMISE, campaign)


def _try_out(setup: Setup, account: Account) -> None:
    prepare_environment()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"server": setup.server.address, "table": "t", "mapping": _MAPPING}
    frame = spark.createDataFrame([("a", 1), ("b", None)], "id STRING, number INT")
    frame.write.format("rowlock").mode("append").options(**options).save()
    spark.sql(
        f"CREATE TEMPORARY VIEW v USING rowlock OPTIONS (server '{setup.server.address}', table 't', "
        f"mapping '{_MAPPING}', snapshot 'latest')"
    )
    spark.sql("INSERT INTO v VALUES ('c', 3)").collect()
    found = sorted(tuple(row) for row in spark.table("v").collect())
    account.counts["rows read back"] += len(found)
    # A null writes no cell, and a row exists only with a cell.
    if found != [("a", 1), ("c", 3)]:
        account.problems.append(f"the table reads as {found}")
    try:
        frame.write.format("rowlock").mode("overwrite").options(**options).save()
    except PySparkException as error:
        account.counts["refusals"] += 1
        if "rowlock can't overwrite" not in str(error):
            account.problems.append(f"overwriting was refused with {str(error)[:300]}")
    else:
        account.problems.append("overwriting was not refused")
    spark.stop()
