"""The CPU time of one caller's gets, puts and increments over a direct connection, client and server together.

CPU time varies less than rates on a machine that other work shares. The baseline exchanges messages of the same bytes
by the simplest means: an asyncio protocol, and a socket that the caller itself reads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, rate
from bench.processes import start_module
from bench.targets.framed_echo import FramedEcho
from bench.targets.messages import VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock
from bench.targets.store import RowStore

_ROWS = 1000


def gets(bench: Bench) -> Measurement:
    """Measures gets of 1 KiB rows in the memstore."""

    def operation(store: RowStore) -> Operation:
        rows = _rows()
        return lambda: store.get(next(rows))

    return _measured(bench, "get", operation, b"G")


def puts(bench: Bench) -> Measurement:
    """Measures puts of 1 KiB rows at durability `os`."""

    def operation(store: RowStore) -> Operation:
        rows, value = _rows(), bytes(VALUE_BYTES)
        return lambda: store.put(next(rows), value)

    return _measured(bench, "put", operation, b"P")


def increments(bench: Bench) -> Measurement:
    """Measures increments of counters at durability `os`."""

    def operation(store: RowStore) -> Operation:
        rows = _rows()
        return lambda: store.increment(next(rows))

    return _measured(bench, "increment", operation, b"I")


def _rows() -> map[bytes]:
    return map(row_key, itertools.cycle(range(_ROWS)))


def _measured(bench: Bench, name: str, operation: Callable[[RowStore], Operation], method: bytes) -> Measurement:
    """Measures CPU seconds of ours divided by the baseline's, in turns. method: the echo's."""
    folder = bench.fresh_folder(name)
    samples: dict[str, list[float]] = {}
    ratios: list[float] = []
    with (
        running_rowlock(folder) as rowlock,
        start_module("bench.targets.framed_echo_server", [], folder / "framed-echo.log") as echo_server,
        closing(FramedEcho(echo_server.address)) as echo,
    ):
        store = rowlock.store("points", "os")
        store.fill(_ROWS, bytes(VALUE_BYTES))
        ours, baseline = operation(store), lambda: echo.exchange(method)
        for number in range(bench.rounds + 1):
            turns = (("", ours, rowlock.process.pid), ("echo ", baseline, echo_server.pid))
            both: list[float] = []
            for label, call, pid in turns:
                calls_a_second, client_us, server_us = _turn(call, pid, bench.turn_seconds)
                both.append(client_us + server_us)
                if number:
                    samples.setdefault(f"{label}µs of the client", []).append(client_us)
                    samples.setdefault(f"{label}µs of the server", []).append(server_us)
                    samples.setdefault(f"{label}calls/s", []).append(calls_a_second)
            if number:
                ratios.append(both[0] / both[1])
    return Measurement(Spread.of(ratios), {key: Spread.of(values) for key, values in samples.items()})


def _turn(call: Operation, server_pid: int, seconds: float) -> tuple[float, float, float]:
    """Returns the calls a second, and the microseconds of CPU of client and server for each."""
    server_before, client_before = _cpu_seconds(server_pid), time.process_time()
    started = time.perf_counter()
    calls_a_second = rate(call, seconds)
    count = calls_a_second * (time.perf_counter() - started)
    client = time.process_time() - client_before
    return calls_a_second, client / count * 1e6, (_cpu_seconds(server_pid) - server_before) / count * 1e6


def _cpu_seconds(pid: int) -> float:
    """Returns the CPU time of the process's threads, as exactly as the scheduler counts it. Linux only."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
