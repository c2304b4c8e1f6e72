"""Durability levels: what each keeps when the server is killed, and that writes are published in order.

Writers of all four levels write concurrently into one table: in turns a mark of their own into one hot row, and a new
row of their own. Readers record what they see. Then the server is killed and restarted, and its contents are checked:

- fsync, os: every acknowledged write is there, and every write that a reader has seen.
- Order: there is one order of all writes, in which they are published and logged. A scan or a restarted server that has
  a write has every write that was acknowledged before it began. After a kill, writes at skip may be missing, unless a
  flush stored them. But an acknowledged fsync confirms the writes acknowledged before it at async.
- skip: writes that were acknowledged before a flush began are there. The lost writes at async and skip are counted.
- An orderly stop loses nothing of any level.

A SIGKILL keeps what the operating system has received, so fsync and os can't be told apart here. tests/crash does that,
on a simulated disk that loses what was not synced.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import get_args

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.live_server import live_server
from tests.consistency.ways import count_ways, judge_direct
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings

PROMISE = "SIGKILL loses nothing acknowledged at fsync or os, and a reader of a write has all writes before it"

LEVELS: tuple[rowlock.Durability, ...] = get_args(rowlock.Durability)
WRITERS_A_LEVEL = 2
TABLE = "levels"
# A cycle ends when it has enough writes, and at the latest after this time, because the machine may be slow.
WRITES_A_CYCLE, CYCLE_SECONDS_MAX = 300, 10.0
TIMEOUT_SECONDS = 120.0
# The server ends right after an answer to one of these: a writer of that level, or a reader of the hot row.
ENDERS = ("fsync", "os", "reader")


@dataclass(slots=True)
class _Write:
    """A new row, and the time of its write in seconds of one clock."""

    level: rowlock.Durability
    row: bytes
    began: float
    acknowledged: float | None = None

    def is_acknowledged_before(self, moment: float) -> bool:
        return self.acknowledged is not None and self.acknowledged < moment


@dataclass(slots=True)
class _Writer:
    """A writer of one level, with a mark in the hot row and rows of its own. Used only by its own thread."""

    level: rowlock.Durability
    name: bytes
    mark: int = 0  # the greatest that was acknowledged
    writes: list[_Write] = field(default_factory=list)

    @property
    def column(self) -> bytes:
        return b"mark:" + self.name


@dataclass(slots=True)
class _Cycle:
    """The writes and reads between a start of the server and its end."""

    number: int
    writers: Sequence[_Writer]
    end: Callable[[], None]
    ends_by: str  # one of ENDERS, which ends the server when it is due
    is_due: bool = False
    is_ending: bool = False
    has_ended: threading.Event = field(default_factory=threading.Event)
    ends_once: threading.Lock = field(default_factory=threading.Lock)  # held for ever by the thread that ends it
    flush_began: float | None = None
    # Each written by one reader.
    seen_marks: dict[bytes, int] = field(default_factory=dict)
    seen_rows: set[bytes] = field(default_factory=set)

    @property
    def hot_row(self) -> bytes:
        return b"hot-%d" % self.number

    @property
    def prefix(self) -> bytes:
        return b"own-%d-" % self.number

    def writes(self) -> list[_Write]:
        return [write for writer in self.writers for write in writer.writes]

    def end_if_due(self, by: str) -> None:
        """Ends the server immediately after an answer, so that a write that was answered too early is lost."""
        if self.is_due and by == self.ends_by and self.ends_once.acquire(blocking=False):
            self.is_ending = True
            self.end()
            self.has_ended.set()


def run(settings: Settings) -> Account:
    """The long form: 40 cycles, of which every fifth ends in an orderly stop and the others by SIGKILL."""
    account = Account("durability_levels", PROMISE)
    draw = random.Random(settings.seed)
    with live_server() as server, rowlock.connect(server.address, timeout=60) as db:
        # The lowest level, so that each call can request a higher one.
        table = db.create_table(TABLE, {"mark": rowlock.Family()}, durability="skip")
        for number in range(2 if settings.is_short else 40):
            stops = number % 5 == 1
            cycle = _Cycle(number, _writers(), server.stop if stops else server.kill, draw.choice(ENDERS))
            _live(account, server, db, cycle, flushes=draw.random() < 0.5)
            account.counts["orderly stops" if stops else "SIGKILLs"] += 1
            server.start()
            _judge(account, table, cycle, stopped=stops)
    judge_direct(account)
    return account


def _writers() -> list[_Writer]:
    return [_Writer(level, f"{level}-{number}".encode()) for level in LEVELS for number in range(WRITERS_A_LEVEL)]


def _live(account: Account, server: RowlockServer, db: rowlock.Client, cycle: _Cycle, *, flushes: bool) -> None:
    """Writes and reads until the server is killed or stopped."""
    clients: list[rowlock.Client] = []
    # The connections are closed first, so that no thread waits for a dead server.
    with WorkerThreads(account) as workers, contextlib.ExitStack() as connections:

        def start(name: str, turn: Callable[[rowlock.Table[bytes]], None], durability: rowlock.Durability) -> None:
            # One connection each, so that no message has writes of two levels.
            own = connections.enter_context(rowlock.connect(server.address, timeout=TIMEOUT_SECONDS))
            clients.append(own)
            table = own.table(TABLE, durability=durability)
            workers.repeat(name, lambda: _turn(cycle, turn, table))

        for writer in cycle.writers:
            start(
                f"writes at {writer.level}",
                lambda table, writer=writer: _write(cycle, table, writer),  # type: ignore[misc]  # a bound default
                writer.level,
            )
        start("gets", lambda table: _get(workers, cycle, table), "skip")
        start("scans", lambda table: _scan(workers, cycle, table), "skip")
        workers.wait_until(lambda: len(cycle.writes()) > WRITES_A_CYCLE / 2, CYCLE_SECONDS_MAX / 2)
        if flushes:
            began = time.monotonic()
            workers.count("flushes", db.flush(TABLE).store_file_count)
            cycle.flush_began = began
        workers.wait_until(lambda: len(cycle.writes()) > WRITES_A_CYCLE, CYCLE_SECONDS_MAX / 2)
        cycle.is_due = True
        workers.wait_until(cycle.has_ended.is_set, TIMEOUT_SECONDS)
    count_ways(account, [client.statistics() for client in clients])


def _turn(cycle: _Cycle, turn: Callable[[rowlock.Table[bytes]], None], table: rowlock.Table[bytes]) -> None:
    """Runs one turn of a thread, which may fail only because the server ends."""
    try:
        turn(table)
    except rowlock.RowlockError:
        if not cycle.is_ending:
            raise


def _write(cycle: _Cycle, table: rowlock.Table[bytes], writer: _Writer) -> None:
    mark = len(writer.writes) + 1
    table.put(cycle.hot_row, {writer.column: b"%d" % mark})
    writer.mark = mark
    cycle.end_if_due(writer.level)
    write = _Write(writer.level, b"%s%s-%06d" % (cycle.prefix, writer.name, mark), time.monotonic())
    writer.writes.append(write)
    table.put(write.row, {b"mark:own": b"%d" % mark})
    write.acknowledged = time.monotonic()
    cycle.end_if_due(writer.level)


def _get(workers: WorkerThreads, cycle: _Cycle, table: rowlock.Table[bytes]) -> None:
    """Checks that the hot row's marks are not behind acknowledged ones, nor behind marks that were seen."""
    expected = {writer.column: max(writer.mark, cycle.seen_marks.get(writer.column, 0)) for writer in cycle.writers}
    marks = _marks(table, cycle)
    for column, mark in expected.items():
        if marks.get(column, 0) < mark:
            workers.problem(f"a get saw {column!r} at {marks.get(column, 0)} after {mark}")
    cycle.seen_marks.update(marks)
    if any(marks.get(writer.column, 0) > expected[writer.column] for writer in cycle.writers if _is_safe(writer.level)):
        cycle.end_if_due("reader")
    workers.count("gets")


def _scan(workers: WorkerThreads, cycle: _Cycle, table: rowlock.Table[bytes]) -> None:
    """Checks that a scan sees no gap, and all writes that were acknowledged before."""
    began = time.monotonic()
    rows = _rows(table, cycle, strict=True)
    writes = cycle.writes()
    latest = max([began, *(write.began for write in writes if write.row in rows)])
    for write in _missing(writes, rows, latest):
        workers.problem(f"a scan did not see {write.row!r}, but later writes")
    cycle.seen_rows |= rows
    workers.count("scans")


def _judge(account: Account, table: rowlock.Table[bytes], cycle: _Cycle, *, stopped: bool) -> None:
    """Checks the contents of the restarted server."""
    marks, rows, writes = _marks(table, cycle), _rows(table, cycle), cycle.writes()
    for writer in cycle.writers:
        expected = max(writer.mark, cycle.seen_marks.get(writer.column, 0))
        if (stopped or _is_safe(writer.level)) and marks.get(writer.column, 0) < expected:
            account.problems.append(f"cycle {cycle.number}: mark {expected} of {writer.name!r} is lost: {marks}")
    for write in writes:
        is_promised = write.acknowledged is not None or write.row in cycle.seen_rows
        if (stopped or _is_safe(write.level)) and is_promised and write.row not in rows:
            account.problems.append(f"cycle {cycle.number}: write {write.row!r} is lost")
    _judge_order(account, cycle, rows, writes)
    for level in LEVELS:
        acknowledged = [write for write in writes if write.level == level and write.acknowledged is not None]
        account.counts[f"acknowledged at {level}"] += len(acknowledged)
        account.counts[f"lost of {level}"] += sum(write.row not in rows for write in acknowledged)


def _judge_order(account: Account, cycle: _Cycle, rows: set[bytes], writes: Sequence[_Write]) -> None:
    """Checks that no write before a stored one is missing.

    All writes before a flush must be there, also those at skip, and so must those before a stored write at skip, which
    only a flush can have stored.
    """
    logged = [write for write in writes if write.level != "skip"]
    latest_logged = max((write.began for write in logged if write.row in rows), default=0.0)
    latest_flushed = max((write.began for write in writes if write.level == "skip" and write.row in rows), default=0.0)
    lost = [
        *_missing(logged, rows, latest_logged),
        *_missing(writes, rows, max(latest_flushed, cycle.flush_began or 0.0)),
    ]
    for write in lost:
        account.problems.append(f"cycle {cycle.number}: {write.row!r} is lost, and writes after it are not")


def _is_safe(level: rowlock.Durability) -> bool:
    return level in ("fsync", "os")


def _missing(writes: Iterable[_Write], rows: set[bytes], latest: float) -> list[_Write]:
    """Writes that are not among the rows, though they were acknowledged before `latest`."""
    return [write for write in writes if write.is_acknowledged_before(latest) and write.row not in rows]


def _marks(table: rowlock.Table[bytes], cycle: _Cycle) -> dict[bytes, int]:
    return {column: int(mark) for column, mark in table.row(cycle.hot_row).items()}


def _rows(table: rowlock.Table[bytes], cycle: _Cycle, *, strict: bool = False) -> set[bytes]:
    with table.scan(prefix=cycle.prefix, keys_only=True, strict=strict) as scan:
        return {row for row, _ in scan}
