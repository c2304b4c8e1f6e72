"""A process that gets rows of a table at a steady rate: `python -m bench.spark.point_reader ADDRESS TABLE ROW_COUNT`.

`begin` makes it start, `end` stop and answer how long each get took, in milliseconds. Gets are due every few
milliseconds, and one that had to wait for the one before it counts from when it was due: a server that stands still for
a while is not asked less, and does not look better, for it.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

import rowlock

from bench.spark.attendant import Answer, serve
from bench.targets.messages import row_key

GETS_A_SECOND = 200
_SEED = 7


class PacedCalls:
    """Calls an operation at a steady rate between begin and end, in a thread of its own."""

    def __init__(self, operation: Callable[[], object], calls_a_second: float) -> None:
        self._operation = operation
        self._pause = 1 / calls_a_second
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
        """Stops; the seconds from when each call was due until it was done. Raises what a call raised."""
        assert self._thread is not None, "it was not begun"
        self._stopped.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        return self._taken

    def _call(self) -> None:
        due = time.perf_counter()
        try:
            while not self._stopped.wait(max(0.0, due - time.perf_counter())):
                self._operation()
                self._taken.append(time.perf_counter() - due)
                due += self._pause
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

        calls = PacedCalls(get, GETS_A_SECOND)

        def begin() -> Answer:
            calls.begin()
            return {}

        def end() -> Answer:
            return {"ms": [round(seconds * 1000, 3) for seconds in calls.end()]}

        serve({"begin": begin, "end": end})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
