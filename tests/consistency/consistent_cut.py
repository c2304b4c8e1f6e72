"""A consistent cut: every snapshot of a bank has the same sum, whatever moves money between its regions.

The accounts are in four regions. Some transfers are bulk writes over two of them, refused if an account has changed
since it was read; others are two puts under an exclusive lock of the table. Meanwhile the table is split, merged,
flushed and compacted. Each leased snapshot, each named one, and each table that is restored from one, must have the sum
with which the bank began. A named snapshot must also have the same accounts whenever it is read.
Requests and scans go directly or by gRPC at random.
"""

from __future__ import annotations

import contextlib
import itertools
import random

import pyarrow as pa
import rowlock

from tests.consistency.both_ways import client_both_ways
from tests.consistency.live_server import live_server
from tests.consistency.region_moves import split_or_merge
from tests.consistency.ways import count_ways, judge_scans
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings
from tests.waiting import WAIT_S

PROMISE = "every snapshot of a bank has its whole sum, while money moves between regions by bulk writes and under locks"

ACCOUNTS, REGIONS, BALANCE = 1000, 4, 1000
REGIONS_MAX = 8
_BULK_MOVERS = 3
# Of each way, in the long form.
SCANS_MIN = 100
TABLE, _COLUMN = "bank", b"f:balance"
_MAPPING = "id BINARY :key, balance BINARY f:balance"
_BESIDE = ("bulk transfers", "transfers under a lock", "leased snapshots", "named snapshots", "splits", "merges")
LIMITS = {"memstore_flush_bytes": 256 * 1024, "log_segment_bytes": 1024 * 1024}


def run(settings: Settings) -> Account:
    """The long form runs for 60 s."""
    account = Account("consistent_cut", PROMISE)
    with (
        live_server(LIMITS) as server,
        client_both_ways(server.address, 60, f"{settings.seed} moving") as moving,
        client_both_ways(server.address, 60, f"{settings.seed} reading") as reading,
    ):
        make_bank(moving)
        with WorkerThreads(account) as workers:
            move_money(workers, moving, settings.seed)
            names = (f"s{number}" for number in itertools.count())
            workers.repeat("leased snapshots", lambda: _read_leased(workers, reading))
            workers.repeat("named snapshots", lambda: _read_named(workers, reading, next(names)))
            workers.wait(2.0 if settings.is_short else 60.0)
            # A run in which nothing happened beside the reads shows nothing; on a loaded machine it takes longer.
            workers.wait_until(lambda: all(workers.counted(what) for what in _BESIDE), WAIT_S)
        account.problems += [f"there were no {what}" for what in _BESIDE if not account.counts[what]]
        _check(account, "the table at the end", _balances(moving.table(TABLE).scan()))
        count_ways(account, [moving.statistics(), reading.statistics()])
    if not settings.is_short:
        judge_scans(account, SCANS_MIN)
    return account


def make_bank(client: rowlock.Client) -> None:
    """Makes the table, with all accounts in its regions."""
    splits = [_row(ACCOUNTS * place // REGIONS) for place in range(1, REGIONS)]
    client.create_table(TABLE, ["f"], durability="os", splits=splits)
    rows = [_row(number) for number in range(ACCOUNTS)]
    client.table(TABLE).put_arrow(pa.table({"id": rows, "balance": [b"%d" % BALANCE] * ACCOUNTS}), _MAPPING)


def move_money(workers: WorkerThreads, client: rowlock.Client, seed: int) -> None:
    """Starts the threads that move money, and those that change the regions and files of the table."""
    for number in range(_BULK_MOVERS):
        draw = random.Random(f"{seed} bulk {number}")
        workers.repeat("bulk transfers", lambda d=draw: _move_in_bulk(workers, client, d))  # type: ignore[misc]
    under_lock, regions = (random.Random(f"{seed} {what}") for what in ("lock", "regions"))
    workers.repeat("transfers under a lock", lambda: _move_under_lock(workers, client, under_lock))
    workers.repeat("splits and merges", lambda: _change_regions(workers, client, regions))
    workers.repeat("flushes", lambda: _rewrite(workers, client))


def _row(number: int) -> bytes:
    return b"%04d" % number


def _two_accounts(draw: random.Random) -> tuple[bytes, bytes]:
    """Returns two accounts that began in different regions."""
    one, other = draw.sample(range(REGIONS), 2)
    in_region = ACCOUNTS // REGIONS
    return _row(one * in_region + draw.randrange(in_region)), _row(other * in_region + draw.randrange(in_region))


def _move_in_bulk(workers: WorkerThreads, client: rowlock.Client, draw: random.Random) -> None:
    giver, taker = _two_accounts(draw)
    table = client.table(TABLE)
    with client.snapshot(TABLE) as snapshot:
        [(_, given)] = table.scan(start=giver, stop=giver + b"\0", snapshot=snapshot)
        [(_, taken)] = table.scan(start=taker, stop=taker + b"\0", snapshot=snapshot)
        amount = draw.randint(1, 5)
        try:
            with client.bulk_write(TABLE, snapshot=snapshot) as write:
                write.put(giver, {_COLUMN: b"%d" % (int(given[_COLUMN]) - amount)})
                write.put(taker, {_COLUMN: b"%d" % (int(taken[_COLUMN]) + amount)})
        except rowlock.ConflictError:
            workers.count("bulk transfers refused, as an account had changed")
        else:
            workers.count("bulk transfers")


def _move_under_lock(workers: WorkerThreads, client: rowlock.Client, draw: random.Random) -> None:
    giver, taker = _two_accounts(draw)
    table = client.table(TABLE)
    with client.lock(TABLE, "exclusive", purpose="transfers"):
        for _ in range(draw.randint(1, 3)):
            amount = draw.randint(1, 5)
            table.put(giver, {_COLUMN: b"%d" % (int(table.row(giver)[_COLUMN]) - amount)})
            table.put(taker, {_COLUMN: b"%d" % (int(table.row(taker)[_COLUMN]) + amount)})
    workers.count("transfers under a lock")
    workers.wait(0.02)  # for the others, which the lock keeps waiting


def _read_leased(workers: WorkerThreads, client: rowlock.Client) -> None:
    table = client.table(TABLE)
    with client.snapshot(TABLE) as snapshot:
        for _ in range(2):
            _check(workers, "a snapshot", _balances(table.scan(snapshot=snapshot)))
    workers.count("leased snapshots")


def _read_named(workers: WorkerThreads, client: rowlock.Client, name: str) -> None:
    client.create_snapshot(name, TABLE)
    first = _balances(client.table(f"@{name}").scan())
    _check(workers, f"snapshot {name}", first)
    restored = f"restored-{name}"
    client.restore_snapshot(name, restored)
    for what, table in (("a restored table", restored), ("a snapshot that is read again", f"@{name}")):
        if _balances(client.table(table).scan()) != first:
            workers.problem(f"{what} of {name} differs from the snapshot")
    client.drop_table(restored)
    client.drop_snapshot(name)
    workers.count("named snapshots")


def _balances(scan: rowlock.Scan[bytes]) -> dict[bytes, int]:
    return {row: int(data[_COLUMN]) for row, data in scan}


def _check(to: WorkerThreads | Account, what: str, balances: dict[bytes, int]) -> None:
    found = sum(balances.values())
    if found != ACCOUNTS * BALANCE or len(balances) != ACCOUNTS:
        text = f"{what} has {len(balances)} accounts with {found} in all, and not {ACCOUNTS} with {ACCOUNTS * BALANCE}"
        if isinstance(to, Account):
            to.problems.append(text)
        else:
            to.problem(text)


def _change_regions(workers: WorkerThreads, client: rowlock.Client, draw: random.Random) -> None:
    borders = draw.randrange(1, REGIONS_MAX)
    split_or_merge(workers, client, TABLE, borders, lambda: _row(draw.randrange(1, ACCOUNTS)), draw)
    workers.wait(0.05)


def _rewrite(workers: WorkerThreads, client: rowlock.Client) -> None:
    client.flush(TABLE)
    workers.count("flushes")
    with contextlib.suppress(rowlock.CompactionError):  # Of a region that was split or merged.
        client.compact(TABLE, wait=True, timeout=60)
        workers.count("compactions")
    workers.wait(0.2)
