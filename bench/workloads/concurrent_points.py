"""Points by many threads of one client, which sends their waiting calls in one message."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from bench.bench import Bench
from bench.measure import Measurement, Operation, rate, rate_of_threads, ratio
from bench.targets.echo import running_echo
from bench.targets.messages import VALUE_BYTES, get_exchange, row_key
from bench.targets.rowlock import running_rowlock
from bench.targets.store import RowStore

CALLERS = 64
_ROWS_EACH = 100


def gets(bench: Bench) -> Measurement:
    """Measures gets, each thread of its own rows; the baseline is a sequential unary echo of one get's messages."""

    def caller(store: RowStore, number: int) -> Operation:
        rows = own_rows(number)
        return lambda: store.get(next(rows))

    return _against_unary_echo(bench, "gets/s", caller)


def puts(bench: Bench) -> Measurement:
    """Measures puts at fsync, each thread to its own rows; the baseline is that of gets()."""
    value = bytes(VALUE_BYTES)

    def caller(store: RowStore, number: int) -> Operation:
        rows = own_rows(number)
        return lambda: store.put(next(rows), value)

    return _against_unary_echo(bench, "puts/s", caller)


def own_rows(number: int) -> map[bytes]:
    """Returns the endlessly repeated keys of this caller's rows."""
    return map(row_key, itertools.cycle(range(number * _ROWS_EACH, (number + 1) * _ROWS_EACH)))


def _against_unary_echo(bench: Bench, name: str, caller: Callable[[RowStore, int], Operation]) -> Measurement:
    folder = bench.fresh_folder("concurrent")
    value = bytes(VALUE_BYTES)
    with running_rowlock(folder) as rowlock, running_echo(folder) as echo:
        store = rowlock.store("points")
        store.fill(CALLERS * _ROWS_EACH, value)
        callers = [caller(store, number) for number in range(CALLERS)]
        message = get_exchange(value).request
        return ratio(
            name,
            lambda: rate_of_threads(callers, bench.turn_seconds),
            "unary echoes/s",
            lambda: rate(lambda: echo.unary(message), bench.turn_seconds),
            bench.rounds,
        )
