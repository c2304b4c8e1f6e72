"""A process that gets one row after the other: `python -m bench.spark.point_reader ADDRESS TABLE ROW_COUNT`.

The command `begin` starts the gets; `end` stops them and answers the milliseconds of each. After each answer there is a
short pause, as in a program that works on the data. A steady rate of gets, independent of the answers, was tried:
while Spark keeps two cores busy, even when it writes Parquet, gets fall behind a modest rate, and then the length of
the queue is measured in place of the latency.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

import rowlock

from bench.side_process import Answer, serve
from bench.targets.messages import row_key

_THINK_SECONDS = 0.005
_SEED = 7


class PacedCalls:
    """Calls an operation repeatedly between begin and end, with a pause after each call, in a separate thread."""

    def __init__(self, operation: Callable[[], object], pause_seconds: float) -> None:
        self._operation = operation
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._latencies: list[float] = []

    def begin(self) -> None:
        """Starts the calls."""
        assert self._thread is None, "the calls were started twice"
        self._stopped.clear()
        self._latencies, self._failure = [], None
        self._thread = threading.Thread(target=self._call)
        self._thread.start()

    def end(self) -> list[float]:
        """Stops the calls; returns the seconds of each. Raises what a call raised."""
        assert self._thread is not None, "the calls were not started"
        self._stopped.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        return self._latencies

    def _call(self) -> None:
        try:
            while not self._stopped.wait(self._pause_seconds):
                start = time.perf_counter()
                self._operation()
                self._latencies.append(time.perf_counter() - start)
        except Exception as failure:
            self._failure = failure


def main(address: str, table_name: str, row_count: int) -> None:
    """Runs commands until the input ends."""
    choice = random.Random(_SEED)
    with rowlock.connect(address, timeout=60) as client:
        table = client.table(table_name)

        def get() -> None:
            row = row_key(choice.randrange(row_count))
            if not table.row(row):
                raise LookupError(f"table {table_name!r} has no row {row!r}")

        calls = PacedCalls(get, _THINK_SECONDS)

        def begin() -> Answer:
            calls.begin()
            return {}

        def end() -> Answer:
            return {"ms": [round(seconds * 1000, 3) for seconds in calls.end()]}

        serve({"begin": begin, "end": end})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
