"""Durability levels: what each keeps when the server is killed, and that writes are published in their order.

Writers of all four levels write side by side into one table: by turns a mark of their own into one hot row, and a new
row of their own. Readers note what they see. Then the server is killed, started again, and judged by what is there:

- fsync, os: every acknowledged write, and every write that a reader has seen.
- Order: there is one order of all writes, in which they are published, and logged. Whoever has a write, a scan or the
  server that was started again, has every write that was acknowledged before it began. The killed server may lack those
  of skip, unless a flush kept them; but an acknowledged fsync confirms what was acknowledged at async before it.
- skip: what was acknowledged before a flush began is there. How much of async and skip was lost is told.
- An orderly stop loses nothing of any level.

SIGKILL leaves what the operating system was given, so fsync and os can't be told apart here; tests/crash does that, on
a disk that forgets what was not synced.
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
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings

PROMISE = "SIGKILL loses nothing that was acknowledged at fsync or os; whoever has a write has all before it"

LEVELS: tuple[rowlock.Durability, ...] = get_args(rowlock.Durability)
WRITERS_A_LEVEL = 2
TABLE = "levels"
# A cycle is over when there is enough to judge, and at the latest after so long: the machine may be slow.
WRITES_A_CYCLE, CYCLE_SECONDS_MAX = 300, 10.0
TIMEOUT_SECONDS = 120.0
# The server ends right after one of these has its answer: a writer of that level, or whoever gets the hot row.
ENDERS = ("fsync", "os", "reader")


@dataclass(slots=True)
class _Write:
    """A new row, and when it was written, in seconds of one clock."""

    level: rowlock.Durability
    row: bytes
    began: float
    acknowledged: float | None = None

    def is_acknowledged_before(self, moment: float) -> bool:
        return self.acknowledged is not None and self.acknowledged < moment


@dataclass(slots=True)
class _Writer:
    """A level, a mark in the hot row, and rows of its own. Written by its own thread alone."""

    level: rowlock.Durability
    name: bytes
    mark: int = 0  # the greatest that was acknowledged
    writes: list[_Write] = field(default_factory=list)

    @property
    def column(self) -> bytes:
        return b"mark:" + self.name


@dataclass(slots=True)
class _Cycle:
    """What is written and seen between a start of the server and its end."""

    number: int
    writers: Sequence[_Writer]
    end: Callable[[], None]
    ends_by: str  # of ENDERS, who ends the server once that is due
    is_due: bool = False
    is_ending: bool = False
    has_ended: threading.Event = field(default_factory=threading.Event)
    ends_once: threading.Lock = field(default_factory=threading.Lock)  # taken by who ends the server, and kept
    flush_began: float | None = None
    # Written by one reader each.
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
        """Ends the server in the very moment after an answer, so that what was answered too early is lost."""
        if self.is_due and by == self.ends_by and self.ends_once.acquire(blocking=False):
            self.is_ending = True
            self.end()
            self.has_ended.set()


def run(settings: Settings) -> Account:
    """The long form: 40 cycles, of which every fifth ends in an orderly stop and the others by SIGKILL."""
    account = Account("durability_levels", PROMISE)
    draw = random.Random(settings.seed)
    with live_server() as server, rowlock.connect(server.address, timeout=60) as db:
        # The least of levels, so that each call may ask for more.
        table = db.create_table(TABLE, {"mark": rowlock.Family()}, durability="skip")
        for number in range(2 if settings.is_short else 40):
            stops = number % 5 == 1
            cycle = _Cycle(number, _writers(), server.stop if stops else server.kill, draw.choice(ENDERS))
            _live(account, server, db, cycle, flushes=draw.random() < 0.5)
            account.counts["orderly stops" if stops else "SIGKILLs"] += 1
            server.start()
            _judge(account, table, cycle, stopped=stops)
    return account


def _writers() -> list[_Writer]:
    return [_Writer(level, f"{level}-{number}".encode()) for level in LEVELS for number in range(WRITERS_A_LEVEL)]


def _live(account: Account, server: RowlockServer, db: rowlock.Client, cycle: _Cycle, *, flushes: bool) -> None:
    """Writes and reads until the server is killed or stopped."""
    # The connections are closed first, so that nobody waits for a dead server.
    with WorkerThreads(account) as workers, contextlib.ExitStack() as connections:

        def start(name: str, turn: Callable[[rowlock.Table[bytes]], None], durability: rowlock.Durability) -> None:
            # A connection for each, so that no message carries writes of two levels.
            own = connections.enter_context(rowlock.connect(server.address, timeout=TIMEOUT_SECONDS))
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


def _turn(cycle: _Cycle, turn: Callable[[rowlock.Table[bytes]], None], table: rowlock.Table[bytes]) -> None:
    """One turn of a thread, which may fail only because the server ends."""
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
    """The hot row's marks are never behind what was acknowledged, nor behind what was seen."""
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
    """What a scan sees has no hole, and holds all that was acknowledged before."""
    began = time.monotonic()
    rows = _rows(table, cycle, strict=True)
    writes = cycle.writes()
    latest = max([began, *(write.began for write in writes if write.row in rows)])
    for write in _missing(writes, rows, latest):
        workers.problem(f"a scan did not see {write.row!r}, but later writes")
    cycle.seen_rows |= rows
    workers.count("scans")


def _judge(account: Account, table: rowlock.Table[bytes], cycle: _Cycle, *, stopped: bool) -> None:
    """What the server has that was started again."""
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
    """What is there has no hole before it; a flush, and a write of skip that only a flush can have kept, fill all."""
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
