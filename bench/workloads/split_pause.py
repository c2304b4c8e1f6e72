"""How long writes wait while a region is split, or two are merged.

A write's pause is its latency, from its call to its answer: it waits at the region's gate, is refused, and is sent
again to the new region. The pause of a split is that of the slowest write that overlaps it.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.bench import Bench
from bench.measure import Measurement, Spread, percentile
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock

_ROWS = 100_000
_WRITERS = 4
_ROUNDS = 50
_PERCENT = 99
# The target: so much, and so many syncs of the same disk.
_FIXED_MS = 20.0
_SYNCS = 3
_SYNCS_MEASURED = 5
# Of writers that work undisturbed before each change.
_CALM_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that was acknowledged, with the times of its call and its answer."""

    began: float
    ended: float

    @property
    def ms(self) -> float:
        return 1000 * (self.ended - self.began)


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
    p99, sync_ms = percentile(changes_ms, _PERCENT), Spread.of(pauses.sync_ms)
    allowed_ms = _FIXED_MS + _SYNCS * sync_ms.median
    return Measurement(
        Spread.of([p99 / allowed_ms]),
        {
            f"{name}, p99": Spread.of([p99]),
            "ms allowed": Spread.of([allowed_ms]),
            name: Spread.of(changes_ms),
            "ms without any acknowledged write, splits": Spread.of(pauses.gap_ms),
            "ms of a write before, p99": Spread.of([percentile(pauses.calm_ms, _PERCENT)]),
            "ms of a sync of 4 KiB beside the writers": sync_ms,
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
        with _writing(store, row_count) as writes:
            for _ in range(bench.scaled(_ROUNDS, at_least=1)):
                begin = time.perf_counter()
                time.sleep(_CALM_SECONDS)
                pauses.sync_ms += [_sync_ms(folder) for _ in range(_SYNCS_MEASURED)]
                splits = time.perf_counter()
                split_writes = _during(writes, lambda: server.client.split("t", middle))
                merge_writes = _during(writes, lambda: server.client.merge("t", middle))
                pauses.calm_ms += [write.ms for write in writes if begin < write.began and write.ended < splits]
                pauses.split_ms.append(max(write.ms for write in split_writes))
                pauses.gap_ms.append(_gap_ms(split_writes))
                pauses.merge_ms.append(max(write.ms for write in merge_writes))
                writes.clear()
                # Else each pair of changes would leave more files to link.
                server.client.compact("t", major=True, wait=True)
    return pauses


def _during(writes: list[_Write], change: Callable[[], object]) -> list[_Write]:
    """Returns the writes that overlap the change, when all of them have been acknowledged."""
    began = time.perf_counter()
    change()
    ended = time.perf_counter()
    while sum(write.began > ended for write in list(writes)) < _WRITERS:
        time.sleep(0.001)
    return [write for write in list(writes) if write.began < ended and write.ended > began]


def _gap_ms(writes: Sequence[_Write]) -> float:
    """Returns the longest time between two answers."""
    ends = sorted(write.ended for write in writes)
    return 1000 * max((after - before for before, after in itertools.pairwise(ends)), default=0.0)


@contextmanager
def _writing(store: RowlockStore, row_count: int) -> Iterator[list[_Write]]:
    """Lets writers put random rows until exit. Yields what they have written so far, which they append to."""
    writes: list[_Write] = []
    failures: list[BaseException] = []
    is_over = threading.Event()

    def write(number: int) -> None:
        choice = random.Random(number)
        value = bytes(VALUE_BYTES)
        try:
            while not is_over.is_set():
                began = time.perf_counter()
                store.put(row_key(choice.randrange(row_count)), value)
                writes.append(_Write(began, time.perf_counter()))
        except BaseException as failure:  # raised again by the measuring thread
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(_WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield writes
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _sync_ms(folder: Path) -> float:
    """Appends 4 KiB to a file of the same disk, and syncs it."""
    descriptor = os.open(folder / "synced", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        began = time.perf_counter()
        os.write(descriptor, bytes(4096))
        os.fsync(descriptor)
        return 1000 * (time.perf_counter() - began)
    finally:
        os.close(descriptor)
