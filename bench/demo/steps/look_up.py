"""Looks up single flights by key, and all flights of a day by key prefix."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc

from bench.demo import tables
from bench.demo.comparison import differences
from bench.demo.flights import ACTUAL_COLUMNS, KEY_COLUMNS, PLAN_COLUMNS, keys_of
from bench.demo.state import DemoState, Stopwatch

_KEYS = 1000
_DAYS = ("2013-01-01", "2013-07-04", "2013-12-24")


def look_up(state: DemoState) -> None:
    """Compares cells byte by byte, which also checks the mapping's encoding."""
    _by_key(state)
    _by_prefix(state)


def _by_key(state: DemoState) -> None:
    flights = state.client.table(tables.FLIGHTS)
    random_numbers = random.Random(2013).choices(range(len(state.expected)), k=_KEYS)
    chosen = state.expected.take(pa.array(random_numbers, pa.int64()))
    keys, wanted = keys_of(chosen), chosen.to_pylist()
    watch = Stopwatch()
    found = [flights.row(key) for key in keys]
    state.output.line(watch.rate(_KEYS, "flights by key"))
    state.output.compare("every flight has the source's values", found, [cells_of(f) for f in wanted])
    absent = flights.row(b"2014-01-01T00:00:00Z")
    state.output.compare("a nonexistent flight is absent", absent, {})


def _by_prefix(state: DemoState) -> None:
    flights = state.client.table(tables.FLIGHTS)
    watch = Stopwatch()
    found = [flights.scan(prefix=day).to_arrow(tables.flights_mapping()) for day in _DAYS]
    state.output.line(watch.rate(sum(map(len, found)), f"flights by the prefixes {', '.join(_DAYS)}"))
    for day, flights_found in zip(_DAYS, found, strict=True):
        wanted = state.expected.filter(pc.starts_with(state.expected["time_hour"], pattern=day))
        differing = differences(flights_found, wanted)
        state.output.compare(f"{day}: {len(wanted)} flights, in key order, and no others", differing, [])


def cells_of(flight: dict[str, str | int | None]) -> dict[bytes, bytes]:
    """Returns the expected cells of a flight: text as UTF-8, numbers as HBase encodes them, none for None."""
    assert all(flight[name] is not None for name in KEY_COLUMNS), f"a flight without a key: {flight}"
    cells = {}
    for family, names in (("plan", PLAN_COLUMNS), ("actual", ACTUAL_COLUMNS)):
        for name in names:
            value = flight[name]
            if value is not None:
                stored = tables.number_bytes(value) if isinstance(value, int) else value.encode()
                cells[f"{family}:{name}".encode()] = stored
    return cells
