"""A process that gets one row after the other: `python -m bench.spark.point_reader ADDRESS TABLE ROW_COUNT`.

`begin` makes it start, `end` stop and answer how long each get took, in milliseconds. It waits for each answer and then
a little, as a program does that works on what it got. Tried: gets that are due at a steady rate, whatever the answers.
Two cores that Spark keeps busy are behind a modest rate already, also while Spark writes Parquet, and from then on the
length of the queue is measured and not what a get takes.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

import rowlock

from bench.spark.side_process import Answer, serve
from bench.targets.messages import row_key

_THINK_SECONDS = 0.005
_SEED = 7


class PacedCalls:
    """Calls an operation again and again between begin and end, with a pause after each, in a thread of its own."""

    def __init__(self, operation: Callable[[], object], pause_seconds: float) -> None:
        self._operation = operation
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._taken: list[float] = []

    def begin(self) -> None:
        """Starts calling."""
        assert self._thread is None, "it was begun twice"
        self._stopped.clear()
        self._taken, self._failure = [], None
        self._thread = threading.Thread(target=self._call)
        self._thread.start()

    def end(self) -> list[float]:
        """Stops; the seconds that each call took. Raises what a call raised."""
        assert self._thread is not None, "it was not begun"
        self._stopped.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        return self._taken

    def _call(self) -> None:
        try:
            while not self._stopped.wait(self._pause_seconds):
                start = time.perf_counter()
                self._operation()
                self._taken.append(time.perf_counter() - start)
        except Exception as failure:
            self._failure = failure


def main(address: str, table_name: str, row_count: int) -> None:
    """Answers the questions until there are no more."""
    choice = random.Random(_SEED)
    with rowlock.connect(address, timeout=60) as client:
        table = client.table(table_name)

        def get() -> None:
            row = row_key(choice.randrange(row_count))
            if not table.row(row):
                raise LookupError(f"row {row!r} is not there")

        calls = PacedCalls(get, _THINK_SECONDS)

        def begin() -> Answer:
            calls.begin()
            return {}

        def end() -> Answer:
            return {"ms": [round(seconds * 1000, 3) for seconds in calls.end()]}

        serve({"begin": begin, "end": end})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
