"""Group commit: whether one sync of the log serves many writers, on different rows and on one hot row."""

from __future__ import annotations

from bench.bench import Bench
from bench.measure import Measurement, Operation, rate, rate_of_threads, ratio
from bench.targets.messages import VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock
from bench.targets.store import RowStore
from bench.workloads.concurrent_points import CALLERS, own_rows

_HOT_ROW = row_key(0)
_SYNC_DELAY_MS = 3


def puts_with_slow_sync(bench: Bench) -> Measurement:
    """Measures 64 threads that put their own rows against one thread, on a disk whose sync takes 3 ms longer."""
    with running_rowlock(bench.fresh_folder("slow-sync-puts"), sync_delay_ms=_SYNC_DELAY_MS) as rowlock:
        return _many_against_one(bench, "puts/s", putters(rowlock.store("points")))


def increments_with_slow_sync(bench: Bench) -> Measurement:
    """Measures 64 incrementers of one row against one, with slow syncs; needs the row lock released before the sync."""
    with running_rowlock(bench.fresh_folder("slow-sync-increments"), sync_delay_ms=_SYNC_DELAY_MS) as rowlock:
        return _many_against_one(bench, "increments/s", incrementers(rowlock.store("points")))


def puts_at_fsync(bench: Bench) -> Measurement:
    """Measures 64 putters on a table at fsync against 64 on a table at os, where puts do not wait for a sync."""
    with running_rowlock(bench.fresh_folder("fsync-puts")) as rowlock:
        synced, unsynced = putters(rowlock.store("fsync", "fsync")), putters(rowlock.store("os", "os"))
        return _fsync_against_os(bench, "puts/s", synced, unsynced)


def increments_at_fsync(bench: Bench) -> Measurement:
    """Measures 64 incrementers of one row at fsync against 64 at os."""
    with running_rowlock(bench.fresh_folder("fsync-increments")) as rowlock:
        synced, unsynced = incrementers(rowlock.store("fsync", "fsync")), incrementers(rowlock.store("os", "os"))
        return _fsync_against_os(bench, "increments/s", synced, unsynced)


def putters(store: RowStore) -> list[Operation]:
    """Returns 64 callers that put their own rows of 1 KiB."""
    value = bytes(VALUE_BYTES)

    def putter(number: int) -> Operation:
        rows = own_rows(number)
        return lambda: store.put(next(rows), value)

    return [putter(number) for number in range(CALLERS)]


def incrementers(store: RowStore) -> list[Operation]:
    """Returns 64 callers that increment the same cell."""
    return [lambda: store.increment(_HOT_ROW)] * CALLERS


def _many_against_one(bench: Bench, name: str, callers: list[Operation]) -> Measurement:
    return ratio(
        f"{len(callers)} callers, {name}",
        lambda: rate_of_threads(callers, bench.turn_seconds),
        f"one caller, {name}",
        lambda: rate(callers[0], bench.turn_seconds),
        bench.rounds,
    )


def _fsync_against_os(bench: Bench, name: str, synced: list[Operation], unsynced: list[Operation]) -> Measurement:
    return ratio(
        f"fsync, {name}",
        lambda: rate_of_threads(synced, bench.turn_seconds),
        f"os, {name}",
        lambda: rate_of_threads(unsynced, bench.turn_seconds),
        bench.rounds,
    )
