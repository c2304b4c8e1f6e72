"""`make demo`: rowlock on real data, from an empty folder to a comparison of every value.

    python -m bench.demo [--flights N] [--without-spark] [--picture PATH]

Exits with 0 if every comparison passed; otherwise prints the differences and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pyarrow as pa
import rowlock
from rich.console import Console

from bench.bench import temporary_folder
from bench.demo.flights import evenly, read_flights, sorted_by_key
from bench.demo.output import Output
from bench.demo.state import CALL_SECONDS, DemoState, Stopwatch
from bench.demo.steps import STEPS
from bench.processes import exit_on_sigterm, start_rowlock

# With fewer flights too few are late, and there is nothing to correct.
SPARK_FLIGHTS_MIN = 100
PICTURE = Path("build/demo.png")
# Of all flights, measured on two virtual cores of a busy machine.
MINUTES, MINUTES_WITHOUT_SPARK = "4 to 6", "2 to 3"


def arguments(given: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.demo", description="Demonstrates rowlock on the flights from New York City in 2013."
    )
    parser.add_argument(
        "--flights", type=int, metavar="N", help="use only N flights, spread over the year (default: all)"
    )
    parser.add_argument("--without-spark", action="store_true", help="skip the steps that need Spark")
    parser.add_argument(
        "--picture", type=Path, metavar="PATH", default=PICTURE, help="where to write the PNG (default: %(default)s)"
    )
    parsed = parser.parse_args(given)
    minimum = 1 if parsed.without_spark else SPARK_FLIGHTS_MIN
    if parsed.flights is not None and parsed.flights < minimum:
        parser.error(f"--flights must be at least {minimum}")
    return parsed


def introduction(options: argparse.Namespace) -> str:
    """Returns what the demo is about to do, and how long it takes."""
    parts = (
        "loads the flights from New York City in 2013, lets writers compete, kills the server, and compares every value"
    )
    if not options.without_spark:
        parts += "; then it writes and joins them with Spark"
    if options.flights is not None:
        return f"The demo {parts}."
    minutes = MINUTES_WITHOUT_SPARK if options.without_spark else MINUTES
    return f"The demo {parts}. It takes {minutes} minutes on two busy cores."


def source(count: int | None) -> pa.Table:
    """Returns the flights in key order, with an empty column for the writer that corrects a flight."""
    flights = read_flights()
    flights = sorted_by_key(flights if count is None else evenly(flights, count))
    return flights.append_column("corrected_by", pa.nulls(len(flights), pa.string()))


def main(given: list[str]) -> int:
    """Runs the demo. Returns the exit code."""
    options = arguments(given)
    output = Output(Console())
    output.introduction(introduction(options))
    total = Stopwatch()
    output.step("Read the flights and start a server on an empty folder")
    watch = Stopwatch()
    flights = source(options.flights)
    output.line(f"{len(flights):,} flights of 2013 read in {watch.seconds:.1f} s")
    with temporary_folder("demo") as folder:
        server = start_rowlock(folder / "data")
        output.line(f"server ready after {server.ready_seconds:.2f} s")
        state = DemoState(
            folder / "data", output, server, rowlock.connect(server.address, timeout=CALL_SECONDS), flights
        )
        try:
            for title, step in STEPS:
                output.step(title)
                step(state)
            if not options.without_spark:
                # Imported here, because each worker process imports this module too, and does not need Spark.
                from bench.demo.with_spark import with_spark

                with_spark(state, flights, options.flights, folder, options.picture)
        finally:
            state.close()
    output.close(total.seconds)
    return 1 if output.differences else 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
