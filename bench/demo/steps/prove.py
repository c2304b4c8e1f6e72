"""Scans the whole table as Arrow, and compares each value with the source and its corrections."""

from __future__ import annotations

from bench.demo import tables
from bench.demo.comparison import differences
from bench.demo.stage import Stage, Stopwatch


def prove(stage: Stage) -> None:
    """Compares every value, and the order of the rows."""
    flights = stage.client.table(tables.FLIGHTS)
    watch = Stopwatch()
    found = flights.scan().to_arrow(tables.flights_mapping())
    watch.stop()
    stage.rates["Python reads: scan to Arrow"] = watch.per_second(len(found))
    stage.account.say(watch.rate(len(found), "flights scanned to Arrow"))
    differing = differences(found, stage.expected)
    for difference in differing:
        stage.account.differ(difference)
    if not differing:
        values = len(found) * found.num_columns
        stage.account.hold(f"all {values:,} values, including missing ones, equal the source with its corrections")
