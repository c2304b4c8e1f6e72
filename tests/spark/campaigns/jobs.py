"""One job of a campaign: writes its rows with Spark, and compares the table with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crash.account import Account
from tests.spark.campaigns.rows import FRAME, MAPPING, PARTS, Cells, Model
from tests.spark.campaigns.upstream import STEP, Upstream

if TYPE_CHECKING:
    import rowlock
    from pyspark.sql import SparkSession

# Small batches of Spark and of the sink, so that every job has many of them; and small buffers between Java and Python,
# so that rows are written before a failure.
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(STEP), "spark.buffer.size": "1024"}
BATCH_BYTES = 8 * 1024
FORMAT = "rowlock"


def run_job(
    spark: SparkSession, upstream: Upstream, sink: str = FORMAT, *, mode: str = "append", batch_bytes: int = BATCH_BYTES
) -> None:
    """Writes the job's rows. Blocks, and raises the error of a failed job."""
    parts = spark.range(PARTS, numPartitions=PARTS)
    (
        parts.mapInArrow(upstream.rows(), FRAME)
        .write.format(sink)
        .mode(mode)
        .option("server", upstream.server)
        .option("table", "t")
        .option("mapping", MAPPING)
        .option("batch_bytes", batch_bytes)
        .save()
    )


def judge(client: rowlock.Client, model: Model, upstream: Upstream, account: Account) -> None:
    """Applies the job to the model and compares it with the table. Adds problems to the account."""
    model.apply_job(upstream.job, upstream.row_count)
    acknowledged = set(upstream.noted("corrected"))
    for mark in upstream.noted("correcting"):
        _, _, _, row, number = mark.split(".")
        model.apply_correction(row.encode(), bytes.fromhex(number), is_acknowledged=mark in acknowledged)
    found: dict[bytes, Cells] = dict(client.table("t").scan())
    account.counts["jobs"] += 1
    account.counts["rows compared"] += len(found)
    account.counts["corrections meanwhile"] += len(acknowledged)
    account.problems += [f"job {upstream.job}: {problem}" for problem in model.differences(found)]
