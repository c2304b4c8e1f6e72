"""Gets of typed rows at random keys, from wide blocks against blocks of cells."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, percentile
from bench.processes import start_module
from bench.targets.rowlock import Rowlock, running_rowlock
from bench.targets.typed_rows import mapping, trip_key, typed_rows

_ROWS = 100_000
_CELLS, _WIDE = "cells", "wide"
_FAMILY = "f"
_PERCENT = 99
_FILL_SETTINGS = ["--config", "memstore_flush_bytes=1GiB"]


@dataclass(frozen=True, slots=True)
class Case:
    """What the block cache holds, and what is read: all columns if `columns` is None."""

    block_cache: str
    is_warm: bool
    columns: Sequence[str] | None = None


# The cache holds the blocks of both tables, decoded.
WARM = Case("512MiB", is_warm=True)
# Ten bytes a column: the data is more than eight times the cache in either form.
COLD = Case("1MiB", is_warm=False)
ONE_COLUMN = Case("1MiB", is_warm=False, columns=[f"{_FAMILY}:distance"])


def rate(bench: Bench, case: Case) -> Measurement:
    """Measures gets a second from wide blocks, against gets from blocks of cells."""
    latencies = _latencies(bench, case)
    pairs = [(len(wide) / sum(wide), len(cells) / sum(cells)) for wide, cells in latencies.pairs]
    return Measurement(
        Spread.of([wide / cells for wide, cells in pairs]),
        {
            "gets/s from wide blocks": Spread.of([wide for wide, _ in pairs]),
            "gets/s from blocks of cells": Spread.of([cells for _, cells in pairs]),
            **latencies.sizes,
        },
    )


def p99(bench: Bench, case: Case) -> Measurement:
    """Measures the 99th percentile of a get from wide blocks, against that from blocks of cells."""
    pairs = [
        (1000 * percentile(wide, _PERCENT), 1000 * percentile(cells, _PERCENT))
        for wide, cells in _latencies(bench, case, turn_factor=4).pairs
    ]
    return Measurement(
        Spread.of([wide / cells for wide, cells in pairs]),
        {
            "ms from wide blocks": Spread.of([wide for wide, _ in pairs]),
            "ms from blocks of cells": Spread.of([cells for _, cells in pairs]),
        },
    )


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The seconds of each get from wide blocks and from cells, by round, and the size of both tables."""

    pairs: Sequence[tuple[list[float], list[float]]]
    sizes: dict[str, Spread]


def _latencies(bench: Bench, case: Case, turn_factor: int = 1) -> _Latencies:
    """Gets from both tables by turns of one get, so that a moment in which the machine is slow affects both."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    with _both_forms(bench, row_count, f"block_cache_bytes={case.block_cache}") as server:
        tables = [server.client.table(name) for name in (_WIDE, _CELLS)]
        gets = [_random_gets(table, row_count, case) for table in tables]
        if case.is_warm:
            for table in tables:
                _read_every_block(table, row_count)
        seconds = 2 * turn_factor * bench.turn_seconds
        pairs = [_by_turns(gets[0], gets[1], seconds) for _ in range(bench.rounds + 1)]
        sizes = {f"MB of {name}": Spread.of([_store_bytes(server.client, name) / 1e6]) for name in (_WIDE, _CELLS)}
    # The first round warms both up.
    return _Latencies(pairs[1:], sizes)


def _by_turns(first: Operation, second: Operation, seconds: float) -> tuple[list[float], list[float]]:
    """Returns the seconds of each call of two operations in turns: A B, B A, A B, ..."""
    latencies: tuple[list[float], list[float]] = ([], [])
    turns = list(zip((first, second), latencies, strict=True))
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or not latencies[0]:
        for operation, found in turns:
            start = time.perf_counter()
            operation()
            found.append(time.perf_counter() - start)
        turns.reverse()
    return latencies


@contextmanager
def _both_forms(bench: Bench, row_count: int, setting: str) -> Iterator[Rowlock]:
    """Runs a server with the same rows in two tables, one in wide blocks and one in blocks of cells."""
    folder = bench.fresh_folder("typed-points")
    with running_rowlock(folder) as server:
        server.client.create_table(_WIDE, [_FAMILY]).put_arrow(typed_rows(row_count), mapping(_FAMILY))
        server.client.flush(_WIDE)
        server.process.stop()
    _fill_cells(folder)
    with running_rowlock(folder, setting) as server:
        yield server


def _fill_cells(folder: Path) -> None:
    """Puts the rows of the wide table one by one into the other, in a server that forms no wide blocks."""
    arguments = ["--data", str(folder / "data"), "--listen", "127.0.0.1:0", *_FILL_SETTINGS]
    with start_module("bench.targets.cell_blocks", arguments, folder / "cell_blocks.log") as process:
        with rowlock.connect(process.address, timeout=60) as client:
            with (
                client.table(_WIDE).scan() as rows,
                client.create_table(_CELLS, [_FAMILY]).batch(size=1000) as batch,
            ):
                for row, data in rows:
                    batch.put(row, data)
            client.flush(_CELLS)
        process.stop()


def _random_gets(table: rowlock.Table[bytes], row_count: int, case: Case) -> Operation:
    choice = random.Random(3)

    def get() -> None:
        assert table.row(trip_key(choice.randrange(row_count)), case.columns), "a row is missing"

    return get


def _read_every_block(table: rowlock.Table[bytes], row_count: int) -> None:
    """Gets rows that are so close to each other that each block holds some of them."""
    keys = [trip_key(number) for number in range(0, row_count, 20)]
    for first in range(0, len(keys), 500):
        table.rows(keys[first : first + 500])


def _store_bytes(client: rowlock.Client, name: str) -> int:
    return sum(region.store_file_bytes for region in client.describe(name).regions)
