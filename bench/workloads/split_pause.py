"""How long writes wait while a region is split, or two are merged.

A put that waits at the region's gate is made by the new region. One that comes later is refused and sent again. The
pause of a split is that of the slowest write that overlaps it. Another process syncs the same disk meanwhile, and so
shows which pauses are those of the disk.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from bench.bench import Bench
from bench.measure import Measurement, Spread, percentile
from bench.side_process import SideProcess
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock
from bench.workloads.write_pauses import (
    CALM_SECONDS,
    PERCENT,
    SYNCS_MEASURED,
    Write,
    against_syncs,
    during,
    sync_ms,
    writing,
)

_ROWS = 100_000
# The 99th percentile of 150 is the second longest.
_ROUNDS = 150
_runs: dict[float, _Measured] = {}


@dataclass(slots=True)
class _Changes:
    """Of all splits, or all merges, in their order, in ms."""

    pause: list[float] = field(default_factory=list)  # of the slowest write
    gap: list[float] = field(default_factory=list)  # the longest time without an acknowledged write
    sync_beside: list[float] = field(default_factory=list)  # the longest sync of the other process


@dataclass(slots=True)
class _Measured:
    """All changes, all writes before them, and the syncs between those, in ms."""

    splits: _Changes = field(default_factory=_Changes)
    merges: _Changes = field(default_factory=_Changes)
    calm: list[float] = field(default_factory=list)
    sync: list[float] = field(default_factory=list)


def split(bench: Bench) -> Measurement:
    """Measures the 99th percentile of the pause of splits, against 20 ms and three syncs."""
    measured = _measured_once(bench)
    return _against_target(measured, measured.splits, "split")


def merge(bench: Bench) -> Measurement:
    """Measures the same of merges."""
    measured = _measured_once(bench)
    return _against_target(measured, measured.merges, "merge")


def _against_target(measured: _Measured, changes: _Changes, name: str) -> Measurement:
    measurement = against_syncs(changes.pause, f"ms pause of a {name}", measured.sync)
    longest = "ms of the longest sync of another process during"
    slowest = changes.pause.index(max(changes.pause))
    return replace(
        measurement,
        details={
            **measurement.details,
            f"ms without any acknowledged write, {name}": Spread.of(changes.gap),
            "ms of a write before, p99": Spread.of([percentile(measured.calm, PERCENT)]),
            f"{longest} a {name}": Spread.of(changes.sync_beside),
            f"{longest} the {name} with the longest pause": Spread.of([changes.sync_beside[slowest]]),
        },
    )


def _measured_once(bench: Bench) -> _Measured:
    """Returns the run of both figures, which is not repeated for the second of them."""
    if bench.scale not in _runs:
        _runs[bench.scale] = _measured(bench)
    return _runs[bench.scale]


def _measured(bench: Bench) -> _Measured:
    row_count = bench.scaled(_ROWS, at_least=1000)
    middle = row_key(row_count // 2)
    measured = _Measured()
    folder = bench.fresh_folder("split-pause")
    with (
        running_rowlock(folder) as server,
        SideProcess([sys.executable, "-m", "bench.targets.disk_syncs", str(folder)]) as syncs,
    ):
        server.client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST)
        store = RowlockStore(server.client.table("t"))
        store.fill(row_count, bytes(VALUE_BYTES))
        server.client.flush("t")
        with writing(store, row_count) as writes:
            for _ in range(bench.scaled(_ROUNDS, at_least=1)):
                begin = time.perf_counter()
                time.sleep(CALM_SECONDS)
                measured.sync += [sync_ms(folder) for _ in range(SYNCS_MEASURED)]
                splits = time.perf_counter()
                split_writes = during(writes, lambda: server.client.split("t", middle))
                merge_writes = during(writes, lambda: server.client.merge("t", middle))
                measured.calm += [write.ms for write in writes if begin < write.began and write.ended < splits]
                beside = cast("list[list[float]]", syncs.call("syncs")["syncs"])
                _add(measured.splits, split_writes, beside)
                _add(measured.merges, merge_writes, beside)
                writes.clear()
                # Else each pair of changes would leave more files to link.
                server.client.compact("t", major=True, wait=True)
    return measured


def _add(changes: _Changes, writes: Sequence[Write], syncs: Sequence[Sequence[float]]) -> None:
    """Adds a change, with the writes that overlap it. `syncs`: when each sync of its round began and ended."""
    changes.pause.append(max(write.ms for write in writes))
    changes.gap.append(_gap_ms(writes))
    first, last = min(write.began for write in writes), max(write.ended for write in writes)
    overlapping = (1000 * (ended - began) for began, ended in syncs if began < last and ended > first)
    changes.sync_beside.append(max(overlapping, default=0.0))  # A short change may come between two syncs.


def _gap_ms(writes: Sequence[Write]) -> float:
    """Returns the longest time between two answers."""
    ends = sorted(write.ended for write in writes)
    return 1000 * max((after - before for before, after in itertools.pairwise(ends)), default=0.0)
