"""How long writes wait while a region is split, or two are merged.

A put that waits at the region's gate is made by the new region. One that comes later is refused and sent again. The
pause of a split is that of the slowest write that overlaps it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bench.bench import Bench
from bench.measure import Measurement, Spread, percentile
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
_ROUNDS = 50
# The target: so much, and so many syncs of the same disk.
_FIXED_MS = 20.0
_SYNCS = 3


@dataclass(slots=True)
class _Pauses:
    """Of all rounds: the slowest write of each change, all writes before it, and the syncs between those."""

    split_ms: list[float] = field(default_factory=list)
    merge_ms: list[float] = field(default_factory=list)
    gap_ms: list[float] = field(default_factory=list)
    calm_ms: list[float] = field(default_factory=list)
    sync_ms: list[float] = field(default_factory=list)


def split(bench: Bench) -> Measurement:
    """Measures the 99th percentile of the pause of splits, against 20 ms and three syncs."""
    pauses = _measured(bench)
    return _against_target(pauses, pauses.split_ms, "ms pause of a split")


def merge(bench: Bench) -> Measurement:
    """Measures the same of merges."""
    pauses = _measured(bench)
    return _against_target(pauses, pauses.merge_ms, "ms pause of a merge")


def _against_target(pauses: _Pauses, changes_ms: Sequence[float], name: str) -> Measurement:
    measured = against_syncs(changes_ms, name, (_FIXED_MS, _SYNCS), pauses.sync_ms)
    return replace(
        measured,
        details={
            **measured.details,
            "ms without any acknowledged write, splits": Spread.of(pauses.gap_ms),
            "ms of a write before, p99": Spread.of([percentile(pauses.calm_ms, PERCENT)]),
        },
    )


def _measured(bench: Bench) -> _Pauses:
    row_count = bench.scaled(_ROWS, at_least=1000)
    middle = row_key(row_count // 2)
    pauses = _Pauses()
    folder = bench.fresh_folder("split-pause")
    with running_rowlock(folder) as server:
        server.client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST)
        store = RowlockStore(server.client.table("t"))
        store.fill(row_count, bytes(VALUE_BYTES))
        server.client.flush("t")
        with writing(store, row_count) as writes:
            for _ in range(bench.scaled(_ROUNDS, at_least=1)):
                begin = time.perf_counter()
                time.sleep(CALM_SECONDS)
                pauses.sync_ms += [sync_ms(folder) for _ in range(SYNCS_MEASURED)]
                splits = time.perf_counter()
                split_writes = during(writes, lambda: server.client.split("t", middle))
                merge_writes = during(writes, lambda: server.client.merge("t", middle))
                pauses.calm_ms += [write.ms for write in writes if begin < write.began and write.ended < splits]
                pauses.split_ms.append(max(write.ms for write in split_writes))
                pauses.gap_ms.append(_gap_ms(split_writes))
                pauses.merge_ms.append(max(write.ms for write in merge_writes))
                writes.clear()
                # Else each pair of changes would leave more files to link.
                server.client.compact("t", major=True, wait=True)
    return pauses


def _gap_ms(writes: Sequence[Write]) -> float:
    """Returns the longest time between two answers."""
    ends = sorted(write.ended for write in writes)
    return 1000 * max((after - before for before, after in itertools.pairwise(ends)), default=0.0)
