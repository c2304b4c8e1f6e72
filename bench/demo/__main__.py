"""`make demo`: the main job on real data, from an empty folder to proof.

    python -m bench.demo [--flights N] [--without-spark] [--picture PATH]

Exits 0 only if every comparison held, else says what differed and exits 1.
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

# Of fewer flights too few came late, and there is nothing to correct.
SPARK_FLIGHTS_MIN = 100
PICTURE = Path("build/demo.png")


def arguments(given: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="The main job, on the flights of 2013.")
    parser.add_argument("--flights", type=int, metavar="N", help="only so many, spread over the year (default all)")
    parser.add_argument("--without-spark", action="store_true", help="end before the steps that need Spark")
    parser.add_argument("--picture", type=Path, metavar="PATH", default=PICTURE, help="the PNG (default %(default)s)")
    parsed = parser.parse_args(given)
    least = 1 if parsed.without_spark else SPARK_FLIGHTS_MIN
    if parsed.flights is not None and parsed.flights < least:
        parser.error(f"--flights must be at least {least}")
    return parsed


def source(count: int | None) -> pa.Table:
    """The flights in the order of their keys, with a column for who corrected them: nobody yet."""
    flights = read_flights()
    flights = sorted_by_key(flights if count is None else evenly(flights, count))
    return flights.append_column("corrected_by", pa.nulls(len(flights), pa.string()))


def main(given: list[str]) -> int:
    """The command; its exit code."""
    asked = arguments(given)
    account = Account(Console())
    whole = Stopwatch()
    account.step("Read the flights and start a server on an empty folder")
    watch = Stopwatch()
    flights = source(asked.flights)
    account.say(f"{len(flights):,} flights of 2013 read in {watch.seconds:.1f} s")
    with temporary_folder("demo") as folder:
        server = start_rowlock(folder / "data")
        account.say(f"server ready after {server.ready_seconds:.2f} s")
        stage = Stage(folder / "data", account, server, rowlock.connect(server.address, timeout=CALL_SECONDS), flights)
        try:
            for title, step in STEPS:
                account.step(title)
                step(stage)
            if not asked.without_spark:
                # Imported here: each process of a group imports this module too, and does without Spark.
                from bench.demo.with_spark import with_spark

                with_spark(stage, flights, asked.flights, folder, asked.picture)
        finally:
            stage.close()
    account.close(whole.seconds)
    return 1 if account.differences else 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
