"""Linearizability while regions are split, merged, flushed and compacted all the time.

Clients work on a few rows, as in linearizability.py, each over gRPC and a direct connection at random. Meanwhile two
threads split the table between these rows and merge it, and others flush and compact it, without a pause. The client
follows the regions by itself, so no operation fails. Connections are not cut and the server is not killed: nearly every
outcome is known, and a history may be long, because the checker's work grows with what runs at once.
"""

from __future__ import annotations

import contextlib
import random

import rowlock

from tests.consistency.both_ways import client_both_ways
from tests.consistency.checker import problem_of
from tests.consistency.installed_procedure import exchange_installed
from tests.consistency.linearizability import CLIENTS, PATIENT_SECONDS, History, draw_action, perform_and_note
from tests.consistency.live_server import live_server
from tests.consistency.region_moves import split_or_merge
from tests.consistency.row_actions import FAMILIES
from tests.consistency.ways import count_ways
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings
from tests.waiting import WAIT_S

PROMISE = "operations on a row have an order that explains every answer, while its region is split and merged"

ROWS = 6
REGIONS_MAX = 4
_TABLE = "rows"
# What must have happened beside each history.
_BESIDE = ("splits", "merges", "flushes", "compactions")
HISTORIES = 20
_LIMITS = {"memstore_flush_bytes": 64 * 1024, "log_segment_bytes": 256 * 1024}


def run(settings: Settings) -> Account:
    """The long form: 20 histories of 60 s, each on a server of its own, which take 20 minutes."""
    account = Account("moving_regions", PROMISE)
    for number in range(1 if settings.is_short else HISTORIES):
        _record(account, History(number, settings.seed * HISTORIES + number, PATIENT_SECONDS), settings)
        account.counts["histories"] += 1
    return account


def _record(account: Account, history: History, settings: Settings) -> None:
    """Records one history and judges it."""
    which = f"history {history.number} of --seed {settings.seed}"
    with (
        contextlib.ExitStack() as connections,
        exchange_installed() as options,
        live_server(_LIMITS, options=options) as server,
        rowlock.connect(server.address, timeout=60) as operator,
    ):
        clients = [
            connections.enter_context(client_both_ways(server.address, 60, f"{history.seed} {number}"))
            for number in range(CLIENTS)
        ]
        operator.create_table(_TABLE, FAMILIES, durability="os")
        with WorkerThreads(account) as workers:
            for number, client in enumerate(clients):
                workers.start(f"client {number}", lambda n=number, c=client: _work(workers, history, n, c))  # type: ignore[misc]
            for number in range(2):
                draw = random.Random(f"{history.seed} regions {number}")
                workers.repeat("splits and merges", lambda d=draw: _change_regions(workers, operator, history, d))  # type: ignore[misc]
            workers.repeat("flushes", lambda: _flush(workers, operator))
            kinds = random.Random(f"{history.seed} compactions")
            workers.repeat("compacts", lambda: _compact(workers, operator, kinds.random() < 0.5))
            workers.wait(2.0 if settings.is_short else 60.0)
            # A run in which nothing happened beside the operations shows nothing; on a loaded machine it takes longer.
            workers.wait_until(lambda: all(workers.counted(what) > 1 for what in _BESIDE), WAIT_S)
        account.problems += [f"{which}: there were no {what}" for what in _BESIDE if not workers.counted(what)]
        count_ways(account, [client.statistics() for client in clients])
    account.counts["operations of known outcome"] += sum(each.is_known for each in history.operations)
    account.counts["operations of unknown outcome"] += sum(not each.is_known for each in history.operations)
    account.problems += [f"{which}: an operation was refused: {error!r}" for error in history.unchanged]
    problem = problem_of(history.operations)
    if problem is not None:
        account.problems.append(f"{which}, {problem[:20_000]}")


def _work(workers: WorkerThreads, history: History, number: int, client: rowlock.Client) -> None:
    draw = random.Random(history.seed * CLIENTS + number)
    durability: rowlock.Durability = draw.choice(("os", "fsync"))
    table = client.table(_TABLE, durability=durability, timeout=history.timeout)
    count = 0
    while workers.has_work:
        count += 1
        action = draw_action(draw, history, b"%d.%d" % (number, count))
        perform_and_note(history, number, table, history.row(draw.randrange(ROWS)), action)


def _change_regions(workers: WorkerThreads, client: rowlock.Client, history: History, draw: random.Random) -> None:
    """Splits a region between two rows, or merges two, beside another thread that does the same."""
    borders = draw.randrange(REGIONS_MAX)
    split_or_merge(workers, client, _TABLE, borders, lambda: history.row(draw.randrange(ROWS)), draw)


def _flush(workers: WorkerThreads, client: rowlock.Client) -> None:
    if client.flush(_TABLE).store_file_count:
        workers.count("flushes")


def _compact(workers: WorkerThreads, client: rowlock.Client, is_major: bool) -> None:
    try:
        client.compact(_TABLE, major=is_major, wait=True, timeout=60)
        workers.count("compactions")
    except rowlock.CompactionError:
        workers.count("compactions of regions that were split or merged")
