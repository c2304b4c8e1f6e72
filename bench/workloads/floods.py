"""What a client and four scans lose beside a connection that sends gets without waiting for answers.

A raw framed echo, a server process that only returns bytes, is measured beside the same two: what it loses, it loses by
waiting for a core.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.side_process import SideProcess
from bench.targets import cell_tables
from bench.targets.framed_echo import framed_echo
from bench.targets.messages import row_key
from bench.targets.rowlock import Rowlock, running_rowlock
from bench.workloads.bulk import mapping
from bench.workloads.latencies import closed_loop

_ROWS = 100_000
_SCANS = 4
_ROUNDS_MAX = 5
# Turns of the usual length have too few calls for a 99th percentile, and are shorter than a scan.
_TURNS_EACH = 10
_TABLE = "floods"
_runs: dict[tuple[int, float], tuple[Measurement, Measurement]] = {}


def gets(bench: Bench) -> Measurement:
    """Measures the p99 of another client's gets beside both, against the quiet one."""
    return _measured_once(bench)[0]


def scans(bench: Bench) -> Measurement:
    """Measures the rate of the scans beside the others, against the scans alone."""
    return _measured_once(bench)[1]


def _measured_once(bench: Bench) -> tuple[Measurement, Measurement]:
    """Returns both figures of one run, which is not repeated for the second of them."""
    key = (bench.rounds, bench.scale)
    if key not in _runs:
        _runs[key] = _measured(bench)
    return _runs[key]


def _measured(bench: Bench) -> tuple[Measurement, Measurement]:
    row_count = bench.scaled(_ROWS, at_least=1000)
    seconds = bench.turn_seconds * bench.scaled(_TURNS_EACH)
    quiet, beside, raw_quiet, raw_beside = (list[float]() for _ in range(4))  # milliseconds
    alone, together, answered = (list[float]() for _ in range(3))
    folder = bench.fresh_folder("floods")
    with running_rowlock(folder) as server, framed_echo(folder) as echo, ExitStack() as stack:
        store = server.store(_TABLE)
        store.table.put_arrow(cell_tables.wide_rows(row_count), mapping())
        server.client.flush(_TABLE)
        flood = stack.enter_context(_process(server, "flood", str(row_count), str(seconds)))
        scanning = [stack.enter_context(_process(server, "scanning", str(seconds))) for _ in range(_SCANS)]
        chance = random.Random(1)

        def get() -> int:
            return store.get(row_key(chance.randrange(row_count)))

        def exchange() -> int:
            return len(echo.exchange(b"G"))

        for _ in range(min(bench.rounds, _ROUNDS_MAX)):
            quiet.append(closed_loop(get, seconds).milliseconds(99))
            raw_quiet.append(closed_loop(exchange, seconds).milliseconds(99))
            _send("scan", scanning)
            alone.append(_cells_a_second(scanning))
            for call, p99s, rates in ((get, beside, together), (exchange, raw_beside, [])):
                _send("scan", scanning)
                flood.send("flood")
                p99s.append(closed_loop(call, seconds).milliseconds(99))
                rates.append(_cells_a_second(scanning))
                answered.append(_number(flood.receive("flood")["answer_bytes"]) / seconds / 1e6)
    flooding = {"MB/s of answers to the flood": Spread.of(answered)}
    return (
        Measurement(
            Spread.of([busy / calm for busy, calm in zip(beside, quiet, strict=True)]),
            {
                "ms p99 beside both": Spread.of(beside),
                "ms p99 when quiet": Spread.of(quiet),
                "ms p99 of a raw framed echo beside both": Spread.of(raw_beside),
                "ms p99 of a raw framed echo when quiet": Spread.of(raw_quiet),
                **flooding,
            },
        ),
        Measurement(
            Spread.of([busy / calm for busy, calm in zip(together, alone, strict=True)]),
            {"cells/s of 4 scans": Spread.of(together), "cells/s of 4 scans alone": Spread.of(alone), **flooding},
        ),
    )


def _process(server: Rowlock, module: str, *words: str) -> SideProcess:
    return SideProcess([sys.executable, "-m", f"bench.targets.{module}", server.process.address, _TABLE, *words])


def _send(command: str, processes: Sequence[SideProcess]) -> None:
    for process in processes:
        process.send(command)


def _cells_a_second(scanning: Sequence[SideProcess]) -> float:
    return sum(_number(process.receive("scan")["cells_a_second"]) for process in scanning)


def _number(value: object) -> float:
    assert isinstance(value, int | float), f"not a number: {value!r}"
    return float(value)
