"""Writers that put rows while something else happens, and how long their writes wait for it.

A write's pause is its latency, from its call to its answer.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Measurement, Spread, percentile
from bench.targets.messages import VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore

WRITERS = 4
PERCENT = 99
# Of writers that work undisturbed before each change, and how many syncs are measured beside them.
CALM_SECONDS = 0.2
SYNCS_MEASURED = 5
# What a pause may take: so much, and so many syncs of the same disk for each region.
_FIXED_MS = 20.0
_SYNCS = 3


@dataclass(frozen=True, slots=True)
class Write:
    """A write that was acknowledged, with the times of its call and its answer, and the number of its writer."""

    writer: int
    began: float
    ended: float

    @property
    def ms(self) -> float:
        return 1000 * (self.ended - self.began)


def against_syncs(
    pauses_ms: Sequence[float], name: str, syncs_ms: Sequence[float], region_count: int = 1
) -> Measurement:
    """Returns the 99th percentile of the pauses as a share of what is allowed: 20 ms, and 3 syncs for each region."""
    p99, a_sync_ms = percentile(pauses_ms, PERCENT), Spread.of(syncs_ms)
    allowed_ms = _FIXED_MS + _SYNCS * region_count * a_sync_ms.median
    return Measurement(
        Spread.of([p99 / allowed_ms]),
        {
            f"{name}, p99": Spread.of([p99]),
            "ms allowed": Spread.of([allowed_ms]),
            name: Spread.of(pauses_ms),
            "ms of a sync of 4 KiB beside the writers": a_sync_ms,
        },
    )


def during(writes: list[Write], change: Callable[[], object]) -> list[Write]:
    """Returns the writes that overlap the change, when all of them have been acknowledged."""
    began = time.perf_counter()
    change()
    ended = time.perf_counter()
    while len({write.writer for write in list(writes) if write.began > ended}) < WRITERS:
        time.sleep(0.001)
    return [write for write in list(writes) if write.began < ended and write.ended > began]


@contextmanager
def writing(store: RowlockStore, row_count: int) -> Iterator[list[Write]]:
    """Lets writers put random rows until exit. Yields what they have written so far, which they append to.

    The garbage collector skips the objects that exist already: looking through them takes longer than a pause.
    """
    writes: list[Write] = []
    failures: list[BaseException] = []
    is_over = threading.Event()

    def write(number: int) -> None:
        choice = random.Random(number)
        value = bytes(VALUE_BYTES)
        try:
            while not is_over.is_set():
                began = time.perf_counter()
                store.put(row_key(choice.randrange(row_count)), value)
                writes.append(Write(number, began, time.perf_counter()))
        except BaseException as failure:  # raised again by the measuring thread
            failures.append(failure)

    gc.collect()
    gc.freeze()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield writes
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        gc.unfreeze()
    if failures:
        raise failures[0]


def sync_ms(folder: Path) -> float:
    """Appends 4 KiB to a file of the same disk, and syncs it."""
    descriptor = os.open(folder / "synced", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        began = time.perf_counter()
        os.write(descriptor, bytes(4096))
        os.fsync(descriptor)
        return 1000 * (time.perf_counter() - began)
    finally:
        os.close(descriptor)
