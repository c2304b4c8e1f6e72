"""Scans the table to Arrow, and compares each value with the source and its corrections."""

from __future__ import annotations

from bench.demo import tables
from bench.demo.comparison import differences
from bench.demo.state import DemoState, Stopwatch


def prove(state: DemoState) -> None:
    """Compares every value and the order of the rows."""
    flights = state.client.table(tables.FLIGHTS)
    watch = Stopwatch()
    found = flights.scan().to_arrow(tables.flights_mapping())
    watch.stop()
    state.rates["Python reads: scan to Arrow"] = watch.per_second(len(found))
    state.output.line(watch.rate(len(found), "flights scanned to Arrow"))
    differing = differences(found, state.expected)
    for difference in differing:
        state.output.failed(difference)
    if not differing:
        values = len(found) * found.num_columns
        state.output.passed(f"all {values:,} values, including nulls, equal the source with the corrections")
