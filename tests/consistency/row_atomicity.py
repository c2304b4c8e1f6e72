"""Row atomicity: readers and scanners never see a part of a change, nor an older change after a newer one.

Every change writes one number into all 150 columns of a row, over three families with different settings. So a reader
must find the same number 150 times, and no smaller one than any reader had seen, or any writer had acknowledged, before
the read began. Meanwhile the table is flushed continuously, by calls and by a memory bound of a few writes, and its
files are compacted without a pause.

The writers change rows in all ways: plain puts, deleting and putting the row in one change, check-and-put by two racing
writers, and bulk batches, which are atomic over their three rows too.

All threads move to a new table at intervals, so that the first flushes and compactions of a table happen often, too.
"""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pyarrow as pa
import rowlock

from tests.consistency.both_ways import switch_at_random
from tests.consistency.live_server import live_server
from tests.consistency.ways import count_ways, judge_direct, judge_scans
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings

PROMISE = "readers see one number in all 3 families x 50 columns of a row, and never an older one than before"

FAMILIES = {
    "a": rowlock.Family(block_bytes=4096),
    "b": rowlock.Family(versions=3, compression="zstd"),
    "c": rowlock.Family(bloom_filter=False, compression="lz4"),
}
COLUMNS = [f"{family}:{number:02d}".encode() for family in FAMILIES for number in range(50)]
PUT, REPLACED, RACED = b"put", b"replaced", b"raced"
BULK = (b"together-1", b"together-2", b"together-3")
FLUSHES_A_TABLE = 10
# Of each way, in the long form.
SCANS_MIN = 20
# What must have happened beside the reads, in the long form.
_BESIDE = ("flushes", "compactions")


def run(settings: Settings) -> Account:
    """The long form runs for 60 s."""
    account = Account("row_atomicity", PROMISE)
    with (
        live_server({"memstore_flush_bytes": 256 * 1024}) as server,
        rowlock.connect(server.address, timeout=60) as writing,
        rowlock.connect(server.address, timeout=60) as reading,
    ):
        switch_at_random(reading._servers, settings.seed, scans_only=True)
        deadline = time.monotonic() + (3.0 if settings.is_short else 60.0)
        number = 0
        while time.monotonic() < deadline and not account.problems:
            number += 1
            name = f"numbers-{number}"
            writing.create_table(name, FAMILIES, durability="os")
            _one_table(account, writing, reading.table(name), deadline)
            writing.drop_table(name)
        account.counts["tables"] = number
        count_ways(account, [writing.statistics(), reading.statistics()])
    if not settings.is_short:
        account.problems += [f"there were no {what}" for what in _BESIDE if not account.counts[what]]
        judge_scans(account, SCANS_MIN)
    judge_direct(account)
    return account


def _one_table(account: Account, writing: rowlock.Client, read: rowlock.Table[bytes], deadline: float) -> None:
    """Runs until the table has been flushed often, or until the deadline."""
    write = writing.table(read.name)
    floors = Floors()
    with WorkerThreads(account) as workers:
        workers.start("puts", lambda: _put(workers, write, floors))
        workers.start("replaces", lambda: _replace(workers, write, floors))
        for racer in ("first", "second"):
            workers.start(f"races, {racer}", lambda: _race(workers, write, floors))
        workers.start("writes bulk batches", lambda: _bulk(workers, write, floors))
        for _ in range(2):
            workers.repeat("gets", lambda: _get(workers, read, floors))
        workers.repeat("gets several rows", lambda: _get_rows(workers, read, floors))
        workers.repeat("scans", lambda: _scan(workers, read, floors))
        workers.repeat("flushes", lambda: _flush(workers, writing, write.name))
        workers.repeat("compacts", lambda: _compact(workers, writing, write.name))
        workers.wait_until(lambda: workers.counted("flushes") >= FLUSHES_A_TABLE, deadline - time.monotonic())


class Floors:
    """The greatest number of each row that was read or acknowledged. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._floors: dict[bytes, int] = {}

    def now(self) -> dict[bytes, int]:
        """Returns the least numbers that a read that begins now may find, by row."""
        with self._lock:
            return dict(self._floors)

    def rise(self, row: bytes, number: int) -> None:
        with self._lock:
            self._floors[row] = max(number, self._floors.get(row, 0))


def _data(number: int) -> dict[bytes, bytes]:
    return dict.fromkeys(COLUMNS, b"%d" % number)


def _written(workers: WorkerThreads, floors: Floors, row: bytes, number: int) -> None:
    floors.rise(row, number)
    workers.count("row writes")


def _put(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    number = 0
    while workers.has_work:
        number += 1
        table.put(PUT, _data(number))
        _written(workers, floors, PUT, number)


def _replace(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    """Deletes the row and puts it again, in one change, so that no reader may see it absent."""
    number = 0
    while workers.has_work:
        number += 1
        table.mutate_row(REPLACED, [rowlock.Delete(), *(rowlock.Put(column, b"%d" % number) for column in COLUMNS)])
        _written(workers, floors, REPLACED, number)


def _race(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    """Puts the next number by check-and-put; the loser of a race continues from the number that it finds."""
    seen: bytes | None = None
    while workers.has_work:
        number = 1 + int(seen or b"0")
        # Any column can be checked, because all are equal.
        check = table.check_and_put(RACED, random.choice(COLUMNS), seen, _data(number))
        if check:
            seen = b"%d" % number
            _written(workers, floors, RACED, number)
        else:
            workers.count("races lost")
            seen = check.current
            floors.rise(RACED, int(seen or b"0"))


def _bulk(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    number = 0
    while workers.has_work:
        number += 1
        table.put_arrow(_cells(number))
        for row in BULK:
            _written(workers, floors, row, number)


def _cells(number: int) -> pa.Table:
    """Returns the cells of the bulk rows, unordered."""
    cells = [(row, *column.split(b":")) for row in BULK for column in COLUMNS]
    random.shuffle(cells)
    row, family, qualifier = zip(*cells, strict=True)
    value = [b"%d" % number] * len(cells)
    names = ["row", "family", "qualifier", "value"]
    return pa.table([pa.array(list(column), pa.binary()) for column in (row, family, qualifier, value)], names=names)


def _get(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    row = random.choice((PUT, REPLACED, RACED, *BULK))
    floor = floors.now()
    _check_row(workers, "a get", row, table.row(row), floor, floors)
    workers.count("gets")


def _get_rows(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    floor = floors.now()
    rows = dict(table.rows([RACED, *BULK, PUT]))
    numbers = {row: _check_row(workers, "a get of rows", row, data, floor, floors) for row, data in rows.items()}
    _check_together(workers, "a get of rows", numbers)
    workers.count("gets")


def _scan(workers: WorkerThreads, table: rowlock.Table[bytes], floors: Floors) -> None:
    """Scans; every other scan has batches smaller than a row."""
    floor = floors.now()
    reverse, batch_bytes = random.random() < 0.3, random.choice((0, 1000))
    by = f"a scan (reverse={reverse}, batch_bytes={batch_bytes})"
    with table.scan(reverse=reverse, batch_bytes=batch_bytes, strict=True) as scan:
        rows = dict(scan)
    numbers = {
        row: _check_row(workers, by, row, rows.get(row, {}), floor, floors) for row in floor.keys() | rows.keys()
    }
    _check_together(workers, by, numbers)
    workers.count("scans")


def _flush(workers: WorkerThreads, client: rowlock.Client, table: str) -> None:
    if client.flush(table).store_file_count:
        workers.count("flushes")


def _compact(workers: WorkerThreads, client: rowlock.Client, table: str) -> None:
    done = client.compact(table, major=random.random() < 0.5, wait=True, timeout=60)
    workers.count("compactions", len(done))


def _check_row(
    workers: WorkerThreads, by: str, row: bytes, data: dict[bytes, bytes], floor: dict[bytes, int], floors: Floors
) -> int:
    """Returns the row's number, 0 when it is absent; records a problem if the row is wrong."""
    values, counts = np.unique(list(data.values()), return_counts=True)
    number = int(values[0]) if len(values) else 0
    if len(data) not in (0, len(COLUMNS)) or len(values) > 1:
        found = dict(zip(values.tolist(), counts.tolist(), strict=True))
        workers.problem(f"{by} saw row {row!r} in parts: {len(data)} columns, of each number so many: {found}")
    if number < floor.get(row, 0):
        workers.problem(f"{by} saw row {row!r} at {number}, after {floor[row]} had been seen")
    floors.rise(row, number)
    return number


def _check_together(workers: WorkerThreads, by: str, numbers: dict[bytes, int]) -> None:
    """Checks the rows of one bulk batch, read at one read point."""
    found = {row: numbers.get(row, 0) for row in BULK}
    if len(set(found.values())) > 1:
        workers.problem(f"{by} saw a bulk batch in parts: {found}")
