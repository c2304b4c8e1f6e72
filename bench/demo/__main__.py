"""`make demo`: the main job on real data, from an empty folder to verified results.

    python -m bench.demo [--flights N] [--without-spark] [--picture PATH]

Exits 0 if every comparison held; otherwise prints the differences and exits 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pyarrow as pa
import rowlock
from rich.console import Console

from bench.bench import temporary_folder
from bench.demo.account import Account
from bench.demo.flights import evenly, read_flights, sorted_by_key
from bench.demo.stage import CALL_SECONDS, Stage, Stopwatch
from bench.demo.steps import STEPS
from bench.processes import exit_on_sigterm, start_rowlock

# Of fewer flights too few were late to have something to correct.
SPARK_FLIGHTS_MIN = 100
PICTURE = Path("build/demo.png")


def arguments(given: list[str]) -> argparse.Namespace:
    """Parses the command line; exits with a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="The main job, on the flights of 2013.")
    parser.add_argument("--flights", type=int, metavar="N", help="use N flights, spread over the year (default all)")
    parser.add_argument("--without-spark", action="store_true", help="skip the steps that need Spark")
    parser.add_argument(
        "--picture", type=Path, metavar="PATH", default=PICTURE, help="file for the chart (default %(default)s)"
    )
    parsed = parser.parse_args(given)
    least = 1 if parsed.without_spark else SPARK_FLIGHTS_MIN
    if parsed.flights is not None and parsed.flights < least:
        parser.error(f"--flights must be at least {least}")
    return parsed


def source(count: int | None) -> pa.Table:
    """Returns the flights in key order, with an empty column for the writer that corrected each."""
    flights = read_flights()
    flights = sorted_by_key(flights if count is None else evenly(flights, count))
    return flights.append_column("corrected_by", pa.nulls(len(flights), pa.string()))


def main(given: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = arguments(given)
    account = Account(Console())
    total = Stopwatch()
    account.step("Read the flights and start a server on an empty folder")
    watch = Stopwatch()
    flights = source(options.flights)
    account.say(f"{len(flights):,} flights of 2013 read in {watch.seconds:.1f} s")
    with temporary_folder("demo") as folder:
        server = start_rowlock(folder / "data")
        account.say(f"server ready after {server.ready_seconds:.2f} s")
        stage = Stage(folder / "data", account, server, rowlock.connect(server.address, timeout=CALL_SECONDS), flights)
        try:
            for title, step in STEPS:
                account.step(title)
                step(stage)
            if not options.without_spark:
                # Imported here, because each process of a group imports this module too and needs no Spark.
                from bench.demo.with_spark import with_spark

                with_spark(stage, flights, options.flights, folder, options.picture)
        finally:
            stage.close()
    account.close(total.seconds)
    return 1 if account.differences else 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
