"""Gets from a table that was overwritten at random by many flushes, against gets from the same rows in one file."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from functools import partial

import psutil
import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, Turn, rate, rate_of_threads, ratio
from bench.targets.compactions import ONLY_ON_REQUEST, Idle, is_compacting, store_bytes, store_files
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, row_key
from bench.targets.rowlock import Rowlock, RowlockStore, running_rowlock

_ROWS = 100_000
_COLUMN = FAMILY + b":" + QUALIFIER
_BATCH = 1000
_CALLERS = 64
_FEW_FLUSHES = 8
_WORKING_TURN_S = 0.1
_WORKING_TURNS_MAX = 60
# An idle store has a base and fewer deltas than `compaction.major_deltas`; together they are less than a tenth of it.
_DELTAS_MAX = 9
_DELTA_PART = 100
_CPU_GETS = 2000
_runs: dict[tuple[int, int, float], tuple[Measurement, Measurement]] = {}


def idle(bench: Bench, flushes: int) -> Measurement:
    """Measures gets when automatic compaction is idle after so many flushes; the details have those of 64 callers."""
    return _measured_once(bench, flushes)[0]


def working(bench: Bench, flushes: int) -> Measurement:
    """Measures gets while a compaction works, after single flushes and after the last, against quiet gets."""
    return _measured_once(bench, flushes)[1]


def most_files(bench: Bench) -> Measurement:
    """Measures gets from a base and as many deltas as an idle store may have, against gets from one file."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    with running_rowlock(bench.fresh_folder("compaction-files"), "memstore_flush_bytes=1GiB") as server:
        once, often = (_filled(server, name, row_count, ONLY_ON_REQUEST) for name in ("once", "often"))
        chance = random.Random(2)
        for _ in range(_DELTAS_MAX):
            _overwrite(often, [chance.randrange(row_count) for _ in range(row_count // _DELTA_PART)], chance)
            server.client.flush("often")
        turns = [partial(rate, _random_get(each, row_count, 3), bench.turn_seconds) for each in (often, once)]
        measured = ratio("gets/s from many files", turns[0], "gets/s from one file", turns[1], bench.rounds)
        details = {
            **measured.details,
            "files": Spread.of([store_files(server.client, "often")]),
            **_cpu_details(bench, server, {"many files": often, "one file": once}, row_count),
        }
    return Measurement(measured.value, details)


def _cpu_details(
    bench: Bench, server: Rowlock, stores: Mapping[str, RowlockStore], row_count: int
) -> dict[str, Spread]:
    """Returns the server's CPU of a get from each store, which other work on the machine changes less than the rate."""
    process = psutil.Process(server.process.pid)
    count = bench.scaled(_CPU_GETS, at_least=100)
    details = {}
    for name, store in stores.items():
        get = _random_get(store, row_count, 5)
        before = process.cpu_times()
        for _ in range(count):
            get()
        after = process.cpu_times()
        seconds = after.user + after.system - before.user - before.system
        details[f"µs of the server's CPU a get, {name}"] = Spread.of([1e6 * seconds / count])
    return details


def _measured_once(bench: Bench, flushes: int) -> tuple[Measurement, Measurement]:
    """Returns both figures of one run, which is not repeated for the second of them."""
    key = (flushes, bench.rounds, bench.scale)
    if key not in _runs:
        _runs[key] = _measured(bench, flushes)
    return _runs[key]


def _measured(bench: Bench, flushes: int) -> tuple[Measurement, Measurement]:
    """Measures both with the default settings of compaction, beside a table that is not written again.

    Each of few flushes overwrites as many random rows as the table has; many flushes overwrite so many together.
    """
    row_count = bench.scaled(_ROWS, at_least=1000)
    rows_each = row_count if flushes <= _FEW_FLUSHES else max(1, row_count // flushes)
    with running_rowlock(bench.fresh_folder("compaction-reads"), "memstore_flush_bytes=1GiB") as server:
        client = server.client
        once, often = _filled(server, "once", row_count, ONLY_ON_REQUEST), _filled(server, "often", row_count, {})
        from_one, from_many = _random_get(once, row_count, 3), _random_get(often, row_count, 3)
        quiet = Spread.of([rate(from_one, bench.turn_seconds) for _ in range(5)])
        while_working, file_counts = _Working(client, from_many), [1]
        chance = random.Random(2)
        for _ in range(bench.scaled(flushes, at_least=8)):
            _overwrite(often, [chance.randrange(row_count) for _ in range(rows_each)], chance)
            client.flush("often")
            while_working.measure()
            file_counts.append(store_files(client, "often"))
        compactions = Idle(client, "often")
        while not compactions.look():
            if not while_working.measure():
                time.sleep(_WORKING_TURN_S)
        turns = [partial(rate, each, bench.turn_seconds) for each in (from_many, from_one)]
        after = ratio("gets/s when idle", turns[0], "gets/s from one file", turns[1], bench.rounds)
        several = ratio(
            "gets/s of 64 callers when idle",
            _gets_of_many(bench, often, row_count),
            "gets/s of 64 callers from one file",
            _gets_of_many(bench, once, row_count),
            min(bench.rounds, 5),
        )
        details = {
            "files when idle": Spread.of([store_files(client, "often")]),
            "files after flushes": Spread.of(file_counts),
            "seconds until idle": Spread.of([compactions.seconds_busy]),
            "disk when idle, of one file": Spread.of([store_bytes(client, "often") / store_bytes(client, "once")]),
            **_cpu_details(bench, server, {"when idle": often, "one file": once}, row_count),
        }
    rates = while_working.rates or [after.details["gets/s when idle"].median]
    return (
        Measurement(after.value, {**after.details, "ratio of 64 callers": several.value, **several.details, **details}),
        Measurement(
            Spread.of([each / quiet.median for each in rates]),
            {"gets/s while working": Spread.of(rates), "gets/s from one file, quiet": quiet, **details},
        ),
    )


class _Working:
    """Collects rates of gets during compactions. Used by one thread."""

    def __init__(self, client: rowlock.Client, get: Operation) -> None:
        self._client = client
        self._get = get
        self.rates: list[float] = []

    def measure(self) -> bool:
        """Measures a turn if a compaction works, and keeps its rate if one still does; returns whether one did."""
        if len(self.rates) >= _WORKING_TURNS_MAX or not is_compacting(self._client, "often"):
            return False
        found = rate(self._get, _WORKING_TURN_S)
        if is_compacting(self._client, "often"):
            self.rates.append(found)
        return True


def _filled(server: Rowlock, name: str, row_count: int, properties: Mapping[str, object]) -> RowlockStore:
    """Creates a table with all rows in one file, a base."""
    server.client.create_table(name, [FAMILY.decode()], properties=properties, durability="os")
    store = RowlockStore(server.client.table(name))
    _overwrite(store, range(row_count), random.Random(1))
    server.client.flush(name)
    server.client.compact(name, major=True, wait=True)
    return store


def _overwrite(store: RowlockStore, rows: Iterable[int], chance: random.Random) -> None:
    with store.table.batch(size=_BATCH) as batch:
        for row in rows:
            batch.put(row_key(row), {_COLUMN: chance.randbytes(VALUE_BYTES)})


def _gets_of_many(bench: Bench, store: RowlockStore, row_count: int) -> Turn:
    calls = [_random_get(store, row_count, 4 + number) for number in range(_CALLERS)]
    return partial(rate_of_threads, calls, bench.turn_seconds)


def _random_get(store: RowlockStore, row_count: int, seed: int) -> Operation:
    chance = random.Random(seed)
    return lambda: store.get(row_key(chance.randrange(row_count)))
