"""Loads all flights as Arrow: each column of the source becomes a column of cells, and null becomes no cell."""

from __future__ import annotations

from bench.demo import tables
from bench.demo.stage import Stage, Stopwatch

# Small enough for a smooth progress bar, large enough for bulk speed.
_CHUNK_ROWS = 20_000


def load(stage: Stage) -> None:
    """Creates the table and puts every flight of `stage.expected` into it."""
    stage.client.create_table(tables.FLIGHTS, tables.FLIGHTS_FAMILIES)
    flights = stage.client.table(tables.FLIGHTS)
    mapping = tables.flights_mapping()
    total = len(stage.expected)
    watch = Stopwatch()
    with stage.account.progress("loading", total) as bar:
        for start in range(0, total, _CHUNK_ROWS):
            chunk = stage.expected.slice(start, _CHUNK_ROWS)
            flights.put_arrow(chunk, mapping)
            bar.reach(start + len(chunk))
    watch.stop()
    stage.rates["Python loads: put_arrow"] = watch.per_second(total)
    cell_count = sum(total - stage.expected[name].null_count for name in stage.expected.column_names)
    stage.account.say(watch.rate(total, "flights") + f"; {cell_count:,} values, each synced to disk")
