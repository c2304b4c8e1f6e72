"""A process that scans a table to Arrow again and again, as long as it is asked to.

    python -m bench.targets.scanning ADDRESS TABLE SECONDS

At each command `scan` it scans for SECONDS, at least once, and answers its cells a second; side_process.py has the
protocol.
"""

from __future__ import annotations

import sys
import time

import rowlock

from bench.side_process import Answer, serve


def main(address: str, table: str, seconds: float) -> None:
    """Answers commands until the input ends."""
    with rowlock.connect(address, timeout=600) as client:

        def scan() -> Answer:
            cells = 0
            now = start = time.perf_counter()
            while not cells or now < start + seconds:
                cells += len(client.table(table).scan().to_arrow())
                now = time.perf_counter()
            return {"cells_a_second": cells / (now - start)}

        serve({"scan": scan})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
