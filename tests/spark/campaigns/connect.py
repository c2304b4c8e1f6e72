"""The same sink and source through Spark Connect, whose server is a Java of its own."""

from __future__ import annotations

import os

from rowlock.spark import prepare_environment

from tests.crash.account import Account, Settings
from tests.spark.campaigns.stage import Stage, in_own_process, stage

PROMISE = "through Spark Connect a DataFrame is written, inserted, refused and read as without it"
_MAPPING = "id STRING :key, number INT f:number"


def run(settings: Settings) -> Account:
    """The campaign."""

    def campaign(account: Account) -> None:
        with stage(settings) as held:
            _try_out(held, account)

    return in_own_process("connect", PROMISE, campaign)


def _try_out(held: Stage, account: Account) -> None:
    prepare_environment()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    options = {"server": held.server.address, "table": "t", "mapping": _MAPPING}
    frame = spark.createDataFrame([("a", 1), ("b", None)], "id STRING, number INT")
    frame.write.format("rowlock").mode("append").options(**options).save()
    spark.sql(
        f"CREATE TEMPORARY VIEW v USING rowlock OPTIONS (server '{held.server.address}', table 't', "
        f"mapping '{_MAPPING}', snapshot 'latest')"
    )
    spark.sql("INSERT INTO v VALUES ('c', 3)").collect()
    found = sorted(tuple(row) for row in spark.table("v").collect())
    account.counts["rows read back"] += len(found)
    # A null is no cell, and a row exists by having one.
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
