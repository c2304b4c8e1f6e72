"""A bank that Spark reads while money moves between its accounts: every read has the whole sum.

The bank, and the threads that move its money, are those of tests/consistency/consistent_cut.py. They also split and
merge regions, between the planning of a read and its tasks too. The tasks read different accounts at different times.
A read is checked in any case, but counts only if it had several tasks, and money moved during it or, with a named
snapshot, after that was taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rowlock
import rowlock.spark

from tests.consistency.consistent_cut import ACCOUNTS, BALANCE, LIMITS, TABLE, make_bank, move_money
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import FORMAT
from tests.spark.campaigns.setup import in_own_process, set_up
from tests.waiting import WAIT_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROMISE = "every read of Spark has the whole sum of a bank, while money moves between regions that split and merge"
SECONDS = 60.0
_TRANSFERS = ("bulk transfers", "transfers under a lock")
# How many of each the long form must have had, beside the reads of each way. The short form must have had one.
_LEAST = {**dict.fromkeys(_TRANSFERS, 50), "splits": 10, "merges": 10}
_READS_LEAST = 5
_MAPPING = "id STRING :key, balance STRING f:balance"


def run(settings: Settings, source: str = FORMAT) -> Account:
    """The long form reads for 60 s. source: the format to read, which may be one that is broken on purpose."""

    def campaign(account: Account) -> None:
        with set_up(settings, LIMITS) as setup:
            spark = setup.session("local[2]")
            if source != FORMAT:
                from tests.spark.campaigns.broken_formats import register

                register(spark)
            read_bank(spark, setup.server.address, setup.client, settings, account, source)
            spark.stop()

    return in_own_process("consistent_cut", PROMISE, campaign)


def read_bank(
    spark: SparkSession,
    server: str,
    client: rowlock.Client,
    settings: Settings,
    account: Account,
    source: str = FORMAT,
) -> None:
    """Makes a bank and reads it in each way in turn while money moves, until enough of everything has happened."""
    make_bank(client)
    with WorkerThreads(account) as workers:
        ways = _Reads(spark, server, client, workers, source).ways()
        least = {**_LEAST, **dict.fromkeys(ways, _READS_LEAST)}
        if settings.is_short:
            least = dict.fromkeys(least, 1)
        move_money(workers, client, settings.seed)
        stop = time.monotonic() + (0.0 if settings.is_short else SECONDS)

        def goes_on() -> bool:
            now, is_enough = time.monotonic(), all(workers.counted(what) >= count for what, count in least.items())
            # On a loaded machine it takes longer until enough has happened.
            return workers.has_work and (now < stop or (not is_enough and now < stop + WAIT_S))

        while goes_on():
            way = min(ways, key=workers.counted)
            before = _transfers(workers)
            task_count = ways[way]()
            if task_count > 1 and _transfers(workers) > before:
                workers.count(way)
                workers.count("tasks", task_count)
            else:
                workers.count("reads that don't count")
    for what, count in least.items():
        if account.counts[what] < count:
            account.problems.append(f"there were {account.counts[what]} {what}, and not at least {count}")


def _transfers(workers: WorkerThreads) -> int:
    return sum(workers.counted(what) for what in _TRANSFERS)


@dataclass(frozen=True, slots=True)
class _Reads:
    """The ways to read the bank. Each checks the sum, and returns the number of Spark's tasks."""

    spark: SparkSession
    server: str
    client: rowlock.Client
    workers: WorkerThreads
    source: str

    def ways(self) -> Mapping[str, Callable[[], int]]:
        return {
            "reads of the whole table": lambda: self._check("a read", self._frame()),
            "reads with snapshot=latest": lambda: self._check("a read of the latest", self._frame(snapshot="latest")),
            "reads by two filters of one snapshot": self._by_filters,
            "reads of a named snapshot": self._named,
        }

    def _frame(self, **options: str) -> DataFrame:
        reader = self.spark.read.format(self.source).options(server=self.server, mapping=_MAPPING, **options)
        return reader.option("partition_bytes", 4096).load(TABLE)

    def _check(self, what: str, frame: DataFrame) -> int:
        of_rows = frame.selectExpr("CAST(balance AS BIGINT) balance", "spark_partition_id() task")
        [(accounts, found, last_task)] = of_rows.selectExpr("count(*)", "sum(balance)", "max(task)").collect()
        if (accounts, found) != (ACCOUNTS, ACCOUNTS * BALANCE):
            expected = f"{ACCOUNTS} with {ACCOUNTS * BALANCE}"
            self.workers.problem(f"{what} has {accounts} accounts with {found} in all, and not {expected}")
        return 0 if last_task is None else int(last_task) + 1

    def _by_filters(self) -> int:
        """Reads the accounts from 1000 on and those below, which change places as money moves."""
        with rowlock.spark.snapshot(self.spark, TABLE, server=self.server, timeout=60) as held:
            above, below = (
                self._frame(snapshot=held.id, filter=f"balance {which} '1%'") for which in ("LIKE", "NOT LIKE")
            )
            return self._check("a read by two filters", above.union(below))

    def _named(self) -> int:
        """Reads a snapshot after money has moved, and compares its accounts with those that it had before."""
        name = "cut"
        self.client.create_snapshot(name, TABLE)
        expected = {row.decode(): data[b"f:balance"].decode() for row, data in self.client.table(f"@{name}").scan()}
        before = _transfers(self.workers)
        self.workers.wait_until(lambda: _transfers(self.workers) > before, WAIT_S)
        frame = self._frame(snapshot=f"@{name}")
        task_count = self._check("a named snapshot", frame)
        if {row.id: row.balance for row in frame.collect()} != expected:
            self.workers.problem("a named snapshot has other accounts in Spark than in a scan before")
        self.client.drop_snapshot(name)
        return task_count
