"""A process that overwrites a table, flushes it and compacts it, as long as it is asked to.

    python -m bench.targets.churn ADDRESS TABLE ROW_COUNT SECONDS

At each command `churn` it works for SECONDS and answers how many flushes and compactions it made; side_process.py has
the protocol. It is a process of its own, so that its work is not done by the client whose latency is measured.
"""

from __future__ import annotations

import sys
import time

import rowlock

from bench.side_process import Answer, serve
from bench.targets import cell_tables
from bench.workloads.bulk import mapping

# Of the table, in each round: enough for a flush and a compaction that take longer than many calls.
_PART = 10


def main(address: str, table: str, row_count: int, seconds: float) -> None:
    """Answers commands until the input ends."""
    rows = cell_tables.wide_rows(row_count).slice(0, max(1, row_count // _PART))
    with rowlock.connect(address, timeout=600) as client:

        def churn() -> Answer:
            rounds = 0
            stop = time.perf_counter() + seconds
            while not rounds or time.perf_counter() < stop:
                client.table(table).put_arrow(rows, mapping())
                client.flush(table)
                client.compact(table, major=True, wait=True)
                rounds += 1
            return {"rounds": rounds}

        serve({"churn": churn})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
