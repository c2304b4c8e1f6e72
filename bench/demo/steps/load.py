"""Loads all flights as Arrow: each source column becomes cells of one column, and null writes no cell."""

from __future__ import annotations

from bench.demo import tables
from bench.demo.state import DemoState, Stopwatch

# Small enough for a progress bar that moves, large enough for the speed of bulk loads.
_CHUNK_ROWS = 20_000


def load(state: DemoState) -> None:
    """Creates the table and puts every flight of `state.expected` into it."""
    state.client.create_table(tables.FLIGHTS, tables.FLIGHTS_FAMILIES)
    flights = state.client.table(tables.FLIGHTS)
    mapping = tables.flights_mapping()
    total = len(state.expected)
    watch = Stopwatch()
    with state.output.progress("loading", total) as bar:
        for start in range(0, total, _CHUNK_ROWS):
            chunk = state.expected.slice(start, _CHUNK_ROWS)
            flights.put_arrow(chunk, mapping)
            bar.reach(start + len(chunk))
    watch.stop()
    state.rates["Python loads: put_arrow"] = watch.per_second(total)
    cell_count = sum(total - state.expected[name].null_count for name in state.expected.column_names)
    state.output.line(watch.rate(total, "flights") + f"; {cell_count:,} values, all synced to disk")
