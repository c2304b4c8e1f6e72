"""Jobs in mode overwrite whose rows are too many to be staged in memory, while regions are split and merged.

Tasks of some jobs fail and are repeated; the server is killed in the middle of others, or about when they commit; some
fail for good. Readers take snapshots meanwhile. Each snapshot, and each read of Spark, must have the rows of one job,
all of them and no others: of the last one that was committed, or, while a job commits, of that one.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import rowlock

from tests.consistency.region_moves import split_or_merge
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import FORMAT, run_job
from tests.spark.campaigns.rows import MAPPING, NUMBER, PARTS, Cells, Model
from tests.spark.campaigns.setup import Setup, in_own_process, set_up
from tests.spark.campaigns.upstream import Trouble, Upstream
from tests.spark.campaigns.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROMISE = "overwriting jobs of many rows are there whole or not at all, in every read, over splits, failures and kills"
JOBS, JOBS_SHORT = 24, 4
ROWS, ROWS_SHORT = 20_000, 2_000
_BATCH_BYTES = 32 * 1024
# A bulk write is merged into store files when it has a quarter of this.
_LIMITS = {"memstore_bytes_max": 2 << 20, "memstore_flush_bytes": 1 << 20, "log_segment_bytes": 1 << 20}
_SHORT_LIMITS = {**_LIMITS, "memstore_bytes_max": 1 << 20, "memstore_flush_bytes": 512 << 10}
_TROUBLES: tuple[Trouble, ...] = ("fail", "stop", "doom", "none")
_KILLED_AFTER_S_MAX = 0.5  # after the last row of a job without other trouble
_BORDERS_MAX = 5
_SPILLED = "looks at staged rows that were merged into store files"
_BESIDE = ("splits", "merges", "snapshots with the rows of one job", _SPILLED)


@dataclass
class _Expected:
    """The rows of each job, by its number. Made before the job runs."""

    row_count: int
    rows: dict[int, Mapping[bytes, Cells]] = field(default_factory=dict)

    def add(self, job: int) -> None:
        model = Model()
        model.apply_job(job, self.row_count)
        self.rows[job] = {row: cells for row, cells in model.rows.items() if cells}


def run(settings: Settings) -> Account:
    """Runs the campaign."""
    row_count = ROWS_SHORT if settings.is_short else ROWS

    def campaign(account: Account) -> None:
        limits = _SHORT_LIMITS if settings.is_short else _LIMITS
        with set_up(settings, limits) as setup:
            spark = setup.session("local[2,4]")
            expected = _Expected(row_count)
            with _beside(setup, expected, account) as workers:
                last = 0
                troubles = itertools.cycle(_TROUBLES)
                for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                    expected.add(job)
                    upstream = replace(setup.upstream(next(troubles), job), row_count=row_count, corrects=False)
                    last = job if _run(spark, setup, upstream, account) else last
                    _judge(spark, setup, expected, last, account)
                workers.wait_until(lambda: all(workers.counted(what) for what in _BESIDE), 60)
            spark.stop()
            left = [info for info in setup.client.sessions() if not info.is_implicit]
            account.problems += [f"session {info.session_id} is left: {info}" for info in left]

    account = in_own_process("overwrites", PROMISE, campaign)
    account.problems += [f"there were no {what}" for what in _BESIDE if not account.counts[what]]
    return account


def _run(spark: SparkSession, setup: Setup, upstream: Upstream, account: Account) -> bool:
    """Runs a job. Returns whether it was committed."""
    account.counts["jobs"] += 1
    has_failed = False
    # The job runs in this thread: in another one Spark does not find the format for a write.
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(_kill, setup, upstream) if upstream.trouble in ("stop", "none") else None
        try:
            run_job(spark, upstream, mode="overwrite", batch_bytes=_BATCH_BYTES)
        except Exception:  # Spark's own, with a text of Java
            has_failed = True
        if killing is not None:
            killing.result()
            account.counts["kills of the server"] += 1
    account.counts["attempts that failed"] += len(upstream.noted("failed"))
    if has_failed and upstream.trouble == "none":
        # Its commit was interrupted, so its outcome is unknown.
        account.counts["jobs that were killed in their commit"] += 1
        return _job_of(dict(setup.client.table("t").scan())) == upstream.job
    if has_failed != (upstream.trouble == "doom"):
        account.problems.append(f"job {upstream.job} has {'' if has_failed else 'not '}failed")
    account.counts["jobs that failed for good"] += has_failed
    return not has_failed


def _kill(setup: Setup, upstream: Upstream) -> None:
    """Kills the server half-way, or about when the job commits, and starts it again."""
    if upstream.trouble == "stop":
        until(lambda: upstream.noted("stopped"))
    else:
        until(lambda: len(upstream.noted("given")) == PARTS)
        time.sleep(setup.chance.uniform(0, _KILLED_AFTER_S_MAX))
    setup.server.kill()
    # The tasks continue to send while no server runs.
    upstream.resume()
    setup.server.restart()


def _job_of(rows: Mapping[bytes, Cells]) -> int:
    """Returns the job of which the first row with a number is; 0: there is none."""
    number = next((cells[NUMBER] for cells in rows.values() if NUMBER in cells), bytes(4))
    return int.from_bytes(number, "big", signed=True) // 1_000_000


def _judge(spark: SparkSession, setup: Setup, expected: _Expected, last: int, account: Account) -> None:
    """Compares the table, as the client and as Spark read it, with the rows of the last job that was committed."""
    rows = expected.rows.get(last, {})
    found = dict(setup.client.table("t").scan())
    account.counts["rows compared"] += len(found)
    if found != rows:
        account.problems.append(f"after job {last}: {_difference(found, rows)}")
    frame = spark.read.format(FORMAT).option("server", setup.server.address).option("mapping", MAPPING)
    [(count, total)] = frame.load("t").selectExpr("count(*)", "sum(number)").collect()
    numbers = [int.from_bytes(cells[NUMBER], "big", signed=True) for cells in rows.values() if NUMBER in cells]
    if (count, total or 0) != (len(rows), sum(numbers)):
        account.problems.append(f"after job {last} Spark counts {count} rows with {total} in all, not {len(rows)}")


def _difference(found: Mapping[bytes, Cells], rows: Mapping[bytes, Cells]) -> str:
    differing = [row for row in sorted({*found, *rows}) if found.get(row) != rows.get(row)]
    row = differing[0]
    return f"{len(differing)} rows differ; {row!r} is {found.get(row)}, expected {rows.get(row)}"


@contextmanager
def _beside(setup: Setup, expected: _Expected, account: Account) -> Iterator[WorkerThreads]:
    """Splits and merges the table, flushes and compacts it, and reads it, until the block ends."""
    draw = random.Random(setup.chance.random())
    with rowlock.connect(setup.server.address, timeout=60) as client, WorkerThreads(account) as workers:
        workers.repeat("splits and merges", lambda: _move(workers, client, draw, expected.row_count))
        workers.repeat("snapshots", lambda: _read(workers, client, expected))
        workers.repeat("staged rows", lambda: _look(workers, setup.server.folder))
        yield workers


def _move(workers: WorkerThreads, client: rowlock.Client, draw: random.Random, row_count: int) -> None:
    def row() -> bytes:
        return b"%d-%06d" % (draw.randrange(PARTS), draw.randrange(row_count))

    split_or_merge(workers, client, "t", draw.randrange(_BORDERS_MAX), row, draw)
    try:
        if draw.random() < 0.5:
            client.flush("t")
        else:
            client.compact("t")
    except rowlock.RowlockError as error:  # The server is dead at the moment.
        workers.count(f"flushes and compactions refused, {type(error).__name__}")
    workers.wait(draw.uniform(0.05, 0.5))


def _look(workers: WorkerThreads, folder: Path) -> None:
    workers.count(_SPILLED, any(folder.glob("staging/*/spill-*")))
    workers.wait(0.05)


def _read(workers: WorkerThreads, client: rowlock.Client, expected: _Expected) -> None:
    """Reads a snapshot, which must have the rows of one job."""
    try:
        with client.snapshot("t") as snapshot:
            found = dict(client.table("t").scan(snapshot=snapshot))
    except rowlock.RowlockError as error:  # The server was killed meanwhile, and its snapshots with it.
        workers.count(f"snapshots lost, {type(error).__name__}")
        workers.wait(0.1)
        return
    if found:
        rows = expected.rows.get(_job_of(found), {})
        if found != rows:
            workers.problem(f"a snapshot: {_difference(found, rows)}")
        workers.count("snapshots with the rows of one job")
    workers.wait(0.2)
