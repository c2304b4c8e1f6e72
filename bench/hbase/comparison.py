"""Measures the rows of the comparison: both sides in turns, with the cores that others used meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hbase.work import EIGHT, EIGHT_THREADS, HBASE, HBASE_JAVA, MANY_THREADS, ROWLOCK, Row, Side
from bench.measure import Spread
from bench.side_process import SideProcessError
from bench.ycsb.workers import Turn, Workers

# What warms both sides up: one operation for each code path of the table.
_WARMING = ("put", "get", "half", "increment", "scan", "put_batch", "full_scan")
_WARMING_IN_JAVA = ("put", "get", "increment")
_WARMING_TURN_S = 10.0
# rowlock's server and clients have no compiler that must see the load first.
_OUR_SHARE_OF_WARMING = 0.2


@dataclass(frozen=True, slots=True)
class Settings:
    """How long a run takes and how much data it has."""

    row_count: int = 100_000
    rounds: int = 5
    warm_s: float = 0.5
    measured_s: float = 3.0
    # HBase is several times slower until its code is compiled, which takes minutes.
    server_warm_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Result:
    """One measured row. `others` is the median of the cores that other programs and the host used in its turns."""

    row: Row
    ours: Spread
    theirs: Spread
    ratio: Spread
    others: float
    our_p99_ms: float
    their_p99_ms: float
    floor: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the row meets its goal; None if it has none."""
        if self.row.goal is None:
            return None
        if self.ratio.median >= self.row.goal:
            return True
        if self.row.floor is None or self.floor is None:
            return False
        return self.ours.median >= self.row.floor.share * self.floor


@dataclass(frozen=True, slots=True)
class Failed:
    """A row that could not be measured. It has a line in the table all the same, and does not hold."""

    row: Row
    reason: str
    holds: bool = False


class Comparison:
    """Both systems' workers. `own_process_ids` are the servers', whose work is not others'."""

    def __init__(self, workers: Mapping[str, Workers], own_process_ids: Sequence[int], settings: Settings) -> None:
        self._workers = workers
        self._settings = settings
        self._own = [*own_process_ids, *(process for each in workers.values() for process in each.process_ids)]

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Makes every kind of call for minutes on HBase, and for a fifth of that on rowlock."""
        seconds = self._settings.server_warm_s
        turn_s = min(_WARMING_TURN_S, seconds / len(_WARMING))
        stop = time.perf_counter() + seconds
        while time.perf_counter() < stop:
            for operation in _WARMING:
                theirs = self._turn(Side(HBASE, operation, EIGHT), turn_s)
                ours = self._turn(Side(ROWLOCK, operation, EIGHT), turn_s * _OUR_SHARE_OF_WARMING)
                rates = f"HBase {theirs.outcome.rows_a_second:,.0f}, rowlock {ours.outcome.rows_a_second:,.0f} rows/s"
                report(f"warming up, {operation}: {rates}")
            for operation in _WARMING_IN_JAVA if HBASE_JAVA in self._workers else ():
                self._turn(Side(HBASE_JAVA, operation, EIGHT_THREADS), turn_s)
                self._turn(Side(ROWLOCK, operation, MANY_THREADS), turn_s * _OUR_SHARE_OF_WARMING)

    def measure(self, row: Row, folder: Path) -> Result | Failed:
        """Measures one row. A call that fails makes it a failed one, so that other rows are still measured."""
        try:
            return self._measured(row, folder)
        except SideProcessError as failure:
            return Failed(row, str(failure).splitlines()[0])

    def _measured(self, row: Row, folder: Path) -> Result:
        """Measures one row in rounds of two turns, whose order changes each time."""
        ours: list[Turn] = []
        theirs: list[Turn] = []
        for number in range(self._settings.rounds):
            order = [(row.ours, ours), (row.theirs, theirs)]
            for side, turns in order if number % 2 else reversed(order):
                turns.append(self._turn(side, self._settings.measured_s))
        return result_of(row, ours, theirs, row.floor.measure(folder) if row.floor else None)

    def _turn(self, side: Side, measured_s: float) -> Turn:
        workers = self._workers[side.workers]
        return workers.turn(side.operation, side.shape, self._settings.warm_s, measured_s, self._own)


def result_of(row: Row, ours: Sequence[Turn], theirs: Sequence[Turn], floor: float | None) -> Result:
    """Returns the result of the turns of both sides, in pairs."""
    our_rates = [turn.outcome.rows_a_second for turn in ours]
    their_rates = [turn.outcome.rows_a_second for turn in theirs]
    return Result(
        row,
        Spread.of(our_rates),
        Spread.of(their_rates),
        Spread.of([mine / other for mine, other in zip(our_rates, their_rates, strict=True)]),
        statistics.median(turn.cores.others + turn.cores.stolen for turn in (*ours, *theirs)),
        statistics.median(turn.outcome.latencies.milliseconds(99) for turn in ours),
        statistics.median(turn.outcome.latencies.milliseconds(99) for turn in theirs),
        floor,
    )


def process_counts(rows: Sequence[Row]) -> dict[str, int]:
    """Returns how many processes each name of workers needs for these rows, and for warming up."""
    counts = {ROWLOCK: EIGHT.processes, HBASE: EIGHT.processes}
    for row in rows:
        for side in (row.ours, row.theirs):
            counts[side.workers] = max(counts.get(side.workers, 0), side.shape.processes)
    return counts
