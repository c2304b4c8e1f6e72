"""The rows of the comparison with HBase: the work, the shape of its callers on each side, and the goal of the ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.hbase.floors import ECHO_METHODS, coalesced_echoes, shared_syncs
from bench.ycsb.workers import Shape

ONE = Shape(1)
EIGHT = Shape(8)
EIGHT_THREADS = Shape(1, 8)
MANY_THREADS = Shape(1, 64)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a row: which workers make which operation in which shape."""

    workers: str
    operation: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Floor:
    """A raw rate without any row store. A row also holds if rowlock's rate is this share of it."""

    share: float
    measure: Callable[[Path], float | None]
    sentence: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `goal` is the least ratio of rowlock's rate to HBase's; None if none was set."""

    section: str
    name: str
    unit: str
    goal: float | None
    ours: Side
    theirs: Side
    floor: Floor | None = None


# The names of workers.
ROWLOCK = "rowlock"
ROWLOCK_SYNCED = "rowlock at fsync"
HBASE = "HBase by happybase"
HBASE_JAVA = "HBase by Java"

SAME_CLIENT = "by happybase, both without fsync"
SYNCED = "rowlock at `fsync`, HBase without"
YCSB = "YCSB, 8 processes"
ONE_CLIENT = "64 threads of one client, beside 8 threads of HBase's Java client"


def _row(name: str, unit: str, goal: float | None, operation: str, shape: Shape, section: str = SAME_CLIENT) -> Row:
    return Row(section, name, unit, goal, Side(ROWLOCK, operation, shape), Side(HBASE, operation, shape))


def _against_java(name: str, goal: float, operation: str) -> Row:
    ours, theirs = Side(ROWLOCK, operation, MANY_THREADS), Side(HBASE_JAVA, operation, EIGHT_THREADS)
    floor = Floor(
        0.5,
        partial(coalesced_echoes, method=ECHO_METHODS[operation]),
        "a raw framed echo of the same messages by 64 threads, whose requests travel together too",
    )
    return Row(ONE_CLIENT, name, "calls/s", goal, ours, theirs, floor)


_SHARED_SYNCS = Floor(
    0.7, shared_syncs, "8 writers that share a raw write and fdatasync, which takes more than 1 ms here"
)


# In the order of measuring, too: what writes much comes late, and what adds rows last.
ROWS = (
    _row("get, 1 process", "gets/s", 2, "get", ONE),
    _row("get, 8 processes", "gets/s", 1.5, "get", EIGHT),
    _row("put, 1 process", "puts/s", 1.5, "put", ONE),
    _row("put, 8 processes", "puts/s", 1.5, "put", EIGHT),
    _row("half reads, half updates, 1 process", "calls/s", 1.5, "half", ONE),
    _row("increments of one row, 1 process", "calls/s", 1.5, "increment", ONE),
    _row("increments of one row, 8 threads", "calls/s", 1.5, "increment", EIGHT_THREADS),
    _row("increments of one row, 8 processes", "calls/s", 1.5, "increment", EIGHT),
    _row("scans of 1 to 100 rows, 1 process", "rows/s", 1.5, "scan", ONE),
    _row("scans of 1 to 100 rows, 8 processes", "rows/s", 1.2, "scan", EIGHT),
    _row("batch put of 1,000 rows, 1 process", "rows/s", 2, "put_batch", ONE),
    _row("batch put of 1,000 rows, 8 processes", "rows/s", 1.2, "put_batch", EIGHT),
    _row("full scan to dicts", "rows/s", 2.5, "full_scan", ONE),
    Row(
        SAME_CLIENT,
        "full scan to Arrow, beside happybase's to dicts",
        "rows/s",
        6,
        Side(ROWLOCK, "full_scan_arrow", ONE),
        Side(HBASE, "full_scan", ONE),
    ),
    Row(
        SYNCED,
        "put, 8 processes",
        "puts/s",
        1,
        Side(ROWLOCK_SYNCED, "put", EIGHT),
        Side(HBASE, "put", EIGHT),
        _SHARED_SYNCS,
    ),
    _against_java("get", 2, "get"),
    _against_java("put", 1.5, "put"),
    _against_java("increments of one row", 1.5, "increment"),
    _row("A: half reads, half updates", "calls/s", None, "ycsb_a", EIGHT, YCSB),
    _row("B: 95 % reads, 5 % updates", "calls/s", None, "ycsb_b", EIGHT, YCSB),
    _row("C: reads", "calls/s", None, "ycsb_c", EIGHT, YCSB),
    _row("D: 95 % reads of the newest rows, 5 % inserts", "calls/s", None, "ycsb_d", EIGHT, YCSB),
    _row("E: 95 % short scans, 5 % inserts", "calls/s", None, "ycsb_e", EIGHT, YCSB),
    _row("F: half reads, half reads and updates", "calls/s", None, "ycsb_f", EIGHT, YCSB),
)
