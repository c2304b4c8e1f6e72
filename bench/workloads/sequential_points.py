"""One sync caller that waits for each answer, as in a plain Python loop over rows."""

from __future__ import annotations

import itertools

from bench.bench import Bench
from bench.measure import Measurement, rate, ratio
from bench.targets.echo import running_echo
from bench.targets.framed_echo import framed_echo
from bench.targets.messages import VALUE_BYTES, get_exchange, put_exchange, row_key
from bench.targets.rowlock import running_rowlock

_ROWS = 1000


def gets(bench: Bench) -> Measurement:
    """Measures gets of 1 KiB rows in the memstore, against an echo of one get's messages over one stream."""
    folder = bench.fresh_folder("get-sequential")
    value = bytes(VALUE_BYTES)
    with running_rowlock(folder) as rowlock, running_echo(folder) as echo:
        store = rowlock.store("points")
        store.fill(_ROWS, value)
        rows = map(row_key, itertools.cycle(range(_ROWS)))
        stream, message = echo.stream("Get"), get_exchange(value).request
        return ratio(
            "gets/s",
            lambda: rate(lambda: store.get(next(rows)), bench.turn_seconds),
            "echoes/s",
            lambda: rate(lambda: stream.exchange(message), bench.turn_seconds),
            bench.rounds,
        )


def gets_framed(bench: Bench) -> Measurement:
    """Measures the same gets, against an echo of the same bytes in frames over a plain socket."""
    folder = bench.fresh_folder("get-framed")
    value = bytes(VALUE_BYTES)
    with running_rowlock(folder) as rowlock, framed_echo(folder) as echo:
        store = rowlock.store("points")
        store.fill(_ROWS, value)
        rows = map(row_key, itertools.cycle(range(_ROWS)))
        return ratio(
            "gets/s",
            lambda: rate(lambda: store.get(next(rows)), bench.turn_seconds),
            "framed echoes/s",
            lambda: rate(lambda: echo.exchange(b"G"), bench.turn_seconds),
            bench.rounds,
        )


def puts(bench: Bench) -> Measurement:
    """Measures puts of 1 KiB rows at fsync, against an echo whose server writes and syncs one put's request."""
    folder = bench.fresh_folder("put-sequential")
    value = bytes(VALUE_BYTES)
    with running_rowlock(folder) as rowlock, running_echo(folder) as echo:
        store = rowlock.store("points")
        rows = map(row_key, itertools.cycle(range(_ROWS)))
        stream, message = echo.stream("Put"), put_exchange(value).request
        return ratio(
            "puts/s",
            lambda: rate(lambda: store.put(next(rows), value), bench.turn_seconds),
            "synced echoes/s",
            lambda: rate(lambda: stream.exchange(message), bench.turn_seconds),
            bench.rounds,
        )
