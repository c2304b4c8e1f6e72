"""The log's tail is torn at every byte of its last three records: the server opens twice with the intact records.

A small life ends while its last three changes are in the log and in no store file. Then the log is filled with zeros or
garbage from one of their bytes on, as by a power failure that lost what was not synced; the record of how far the log
is durable had not reached the disk either. The server must find the life up to the last intact record, and must not
report damage.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put
from rowlock_regionserver.wal import durable
from rowlock_regionserver.wal.durable import DurableNote, read_durable
from rowlock_regionserver.wal.record import Position

from tests.crash.account import Account, Settings
from tests.crash.children import in_child, spread
from tests.crash.driver import Driver, small_config
from tests.crash.folders import copied, folder
from tests.crash.life import DONE, NOT_SENT, Judge
from tests.crash.restarts import problem_after_restarts
from tests.crash.steps import BulkWrite, CreateTable, Flush, RowWrite, Step
from tests.crash.structures import LogRecord, log_records

PROMISE = "the log zeroed or spoiled from each byte of its last 3 records on: exactly the intact records are there"
VARIANTS = ("zeros", "garbage")
LAST = 3


@dataclass(frozen=True, slots=True)
class Tear:
    """The way in which the log is torn, and the byte from which on."""

    variant: str
    place: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many of the last records were still intact, and what was wrong."""

    whole_count: int
    problem: str | None


def run(settings: Settings) -> Account:
    """Runs the campaign: each byte in each variant, or a sample."""
    account = Account("torn_tail", PROMISE)
    with folder() as root:
        base = root / "base"
        in_child(lambda: _live(base))
        last = _last_changes(_segment(base).read_bytes())
        places = range(last[0].start, last[-1].stop + 1)
        tears = [Tear(variant, place, settings.seed) for place in places for variant in VARIANTS]
        if settings.is_short:
            tears = random.Random(settings.seed).sample(tears, 24)
        account.counts["bytes in the last 3 records"] = len(places) - 1
        for tear, outcome in spread(lambda tear: torn(base, root, tear), tears):
            account.counts[f"torn: {tear.variant}"] += 1
            account.counts["restarts"] += 2
            account.counts[f"with {outcome.whole_count} of the 3 records whole"] += 1
            if outcome.problem is not None:
                account.problems.append(f"{tear}: {outcome.problem}")
    return account


def life() -> list[Step]:
    """Returns a life whose last three steps are one log record each: several families, a counter, a condition."""
    both = (Put(b"info", b"delay", b"12"), Put(b"stats", b"seen", b"12"))
    mixed = (Delete(DeleteKind.ROW), *both, Put(b"info", b"b", b"x" * 9))
    return [
        CreateTable("flights", (b"info", b"stats")),
        RowWrite("flights", b"old", both, Durability.FSYNC),
        Flush("flights"),
        RowWrite("flights", b"row", both, Durability.FSYNC),
        BulkWrite("flights", tuple((b"%d" % row, b"info", b"q", b"bulk") for row in range(2)), Durability.OS),
        RowWrite("flights", b"row", mixed, Durability.FSYNC),
        RowWrite("flights", b"count", (Increment(b"stats", b"n", 5),), Durability.OS),
        RowWrite("flights", b"row", (Put(b"info", b"b", b"y"),), Durability.OS, expected=(b"info", b"b", b"x" * 9)),
    ]


def torn(base: Path, root: Path, tear: Tear) -> Outcome:
    """Tears the log of a copy, and restarts on it twice."""
    target = copied(base, root / f"{tear.variant}-{tear.place}")
    path = _segment(target)
    before = path.read_bytes()
    after = _torn(before, tear)
    path.write_bytes(after)
    last = _last_changes(before)
    whole = [after[record.start : record.stop] == before[record.start : record.stop] for record in last]
    whole_count = (*whole, False).index(False)
    steps = life()
    progress = [DONE] * (len(steps) - LAST + whole_count) + [NOT_SENT] * (LAST - whole_count)
    judge = Judge(steps, progress, Durability.ASYNC)
    return Outcome(whole_count, problem_after_restarts(target, judge, stops=tear.place % 2 == 0))


def _live(base: Path) -> None:
    """Ends as by a kill. No idle marker is written, because it would prove the tail, and make a torn tail damage."""
    base.mkdir(mode=0o700)
    driver = Driver(base, Files(), small_config(log_segment_bytes=64 * 1024, log_idle_marker_ms=3_600_000))
    steps = life()
    driver.live(steps, bytearray(len(steps)))
    log = base / "log"
    note = read_durable(log, Files())
    assert note is not None
    start = _last_changes(_segment(base).read_bytes())[0].start
    (log / durable.NAME).write_bytes(DurableNote(note.log_id, Position(note.position.segment, start)).encode())


def _segment(root: Path) -> Path:
    (path,) = [path for path in (root / "log").iterdir() if path.stem.isdigit()]
    return path


def _last_changes(data: bytes) -> list[LogRecord]:
    return [record for record in log_records(data) if record.is_change][-LAST:]


def _torn(data: bytes, tear: Tear) -> bytes:
    rest = len(data) - tear.place
    match tear.variant:
        case "zeros":
            return data[: tear.place] + bytes(rest)
        case _:
            garbage = random.Random(f"{tear}").randbytes(min(rest, 400))
            return data[: tear.place] + garbage + bytes(rest - len(garbage))
