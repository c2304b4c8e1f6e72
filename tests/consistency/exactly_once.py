"""Exactly once: increments whose answers are lost are retried, and count once.

Processes increment one row through proxies that lose answers after the change was made (lossy_proxy.py), while the
server is killed and restarted. Each attempt goes by gRPC or over a direct connection at random. Each process writes
batches of rows meanwhile, with numbers of the same sequence: as bulk batches, which go either way, too, and as puts in
columns, which overwrite the values of the batch before. Each increment must finally be answered with a different
number. All numbers are 1, 2, 3, ... without a gap, and the counter equals their count; all rows of the batches are
there, with their last values. The server's answers say which request ids it met again.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass

import pyarrow as pa
import rowlock
from rowlock._core import point
from rowlock_proto.v1 import types_pb2

from tests.consistency.both_ways import client_both_ways, lossy_server
from tests.consistency.live_server import kill_and_restart
from tests.consistency.ways import count_ways, judge_both, judge_bulk
from tests.crash.account import Account, Settings

PROMISE = "with lost answers and SIGKILLs each increment counts once, and each is answered with its own number"

TABLE, ROW, COLUMN = "counters", b"hot", b"f:n"
BULK_TABLE, BULK_ROWS = "rows", 50
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Counted:
    """The answers that one process got."""

    numbers: list[int]
    repeated: int  # answers that the server had kept from an earlier request with the same id
    rows: list[bytes]  # of acknowledged batches
    statistics: rowlock.ClientStatistics


def run(settings: Settings) -> Account:
    """The long form: 8 processes of 2,000 increments each."""
    processes, increments = (4, 200) if settings.is_short else (8, 2000)
    account = Account("exactly_once", PROMISE)
    random_kills = random.Random(settings.seed)
    with (
        lossy_server(10 if settings.is_short else 60, settings.seed) as lossy,
        rowlock.connect(lossy.server.address, timeout=TIMEOUT_SECONDS) as db,
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
    ):
        db.create_table(TABLE, ["f"])
        db.create_table(BULK_TABLE, ["f"])
        working = [
            pool.submit(_work, lossy.address, increments, f"{settings.seed} {number}") for number in range(processes)
        ]
        # Processes take long to start, and a kill before the first increment would test nothing.
        _wait_for_more(db.table(TABLE), working)
        kills = 0
        while wait(working, random_kills.uniform(0.3, 1.5)).not_done:
            kill_and_restart(lossy.server)
            kills += 1
            _wait_for_more(db.table(TABLE), working)
        total = db.table(TABLE).counter(ROW, COLUMN)
        lost = (lossy.grpc.lost_answers, lossy.direct.lost_answers)
        rows = {row for row, _ in db.table(BULK_TABLE).scan(keys_only=True)}
    counted = [_result(account, work) for work in working]
    _judge(account, counted, processes * increments, total)
    missing = {row for process in counted for row in process.rows} - rows
    if missing:
        account.problems.append(f"{len(missing)} rows of acknowledged batches are missing")
    account.counts.update(
        {
            "SIGKILLs of the server": kills,
            "answers lost by gRPC": lost[0],
            "answers lost on direct connections": lost[1],
            "rows of batches": len(rows),
        }
    )
    count_ways(account, [process.statistics for process in counted])
    judge_both(account, increments)
    judge_bulk(account, processes)
    repeats_min = 10 if settings.is_short else 100
    if account.counts["repeated request ids met"] < repeats_min:
        account.problems.append(f"fewer than {repeats_min} repeated request ids: the campaign has tested little")
    return account


def _wait_for_more(table: rowlock.Table[bytes], working: Sequence[Future[_Counted]]) -> None:
    """Waits until the counter moves or a process is done, so that there is progress between kills on slow machines."""
    before = table.counter(ROW, COLUMN)
    while table.counter(ROW, COLUMN) == before and not any(work.done() for work in working):
        time.sleep(0.05)


def _work(address: str, count: int, seed: str) -> _Counted:
    """Makes `count` increments, one after the other, and batches meanwhile, in a process of its own."""
    # Below Table.increment, because only the raw answer says whether it is a saved one.
    db = client_both_ways(address, TIMEOUT_SECONDS, seed)
    servers = db._servers
    numbers: list[int] = []
    repeated = 0
    over = threading.Event()
    with db, ThreadPoolExecutor(1) as threads:
        batches = threads.submit(_put_batches, db, seed, over)
        try:
            for _ in range(count):
                request = point.increment(TABLE, ROW, COLUMN, 1, types_pb2.DURABILITY_UNSPECIFIED)
                answer = servers.point(request, TIMEOUT_SECONDS)
                numbers.append(point.new_number(answer))
                repeated += answer.mutate.results[0].repeated_request
        finally:
            over.set()
        rows = batches.result()
        return _Counted(numbers, repeated, rows, db.statistics())


def _put_batches(db: rowlock.Client, seed: str, over: threading.Event) -> list[bytes]:
    """Writes batches of rows until it is over; returns the rows that were acknowledged. Reads those put in columns."""
    table = db.table(BULK_TABLE)
    rows: list[bytes] = []
    overwritten = [f"{seed} put {number:09}".encode() for number in range(BULK_ROWS)]
    value = 0
    while True:
        value += 1
        with table.batch(size=BULK_ROWS) as batch:
            for row in overwritten:
                batch.put(row, {"f:v": b"%d" % value, "f:w": b"%d" % value})
        found = {values[b"f:v"] for _, values in table.rows(overwritten)}
        assert found == {b"%d" % value}, f"a put of {value} was followed by {found}"
        if over.is_set():
            return rows + overwritten
        keys = [f"{seed} {number:09}".encode() for number in range(len(rows), len(rows) + BULK_ROWS)]
        table.put_arrow(pa.table({"k": pa.array(keys, pa.binary()), "v": keys}), "k BINARY :key, v BINARY f:v")
        rows += keys


def _result(account: Account, work: Future[_Counted]) -> _Counted:
    error = work.exception()
    if error is None:
        return work.result()
    account.problems.append(f"a process gave up: {error!r}")
    return _Counted([], 0, [], rowlock.ClientStatistics(()))


def _judge(account: Account, counted: Sequence[_Counted], expected: int, total: int) -> None:
    numbers = sorted(number for process in counted for number in process.numbers)
    account.counts["increments answered"] = len(numbers)
    account.counts["the counter at the end"] = total
    account.counts["repeated request ids met"] = sum(process.repeated for process in counted)
    if total != expected:
        account.problems.append(f"the counter is {total} after {expected} increments")
    if numbers != list(range(1, expected + 1)):
        twice = sorted({number for number, after in itertools.pairwise(numbers) if number == after})
        missing = sorted(set(range(1, expected + 1)) - set(numbers))
        account.problems.append(f"answered twice: {twice[:10]}, never: {missing[:10]}")
