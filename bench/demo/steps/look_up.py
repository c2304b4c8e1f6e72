"""Looks up single flights by key, and all flights of a day by prefix."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc

from bench.demo import tables
from bench.demo.comparison import differences
from bench.demo.flights import ACTUAL_COLUMNS, KEY_COLUMNS, PLAN_COLUMNS, keys_of
from bench.demo.stage import Stage, Stopwatch

_KEYS = 1000
_DAYS = ("2013-01-01", "2013-07-04", "2013-12-24")


def look_up(stage: Stage) -> None:
    """Looks flights up, and compares cells byte by byte, so that the mapping's encoding is checked too."""
    _by_key(stage)
    _by_prefix(stage)


def _by_key(stage: Stage) -> None:
    flights = stage.client.table(tables.FLIGHTS)
    random_numbers = random.Random(2013).choices(range(len(stage.expected)), k=_KEYS)
    chosen = stage.expected.take(pa.array(random_numbers, pa.int64()))
    keys, wanted = keys_of(chosen), chosen.to_pylist()
    watch = Stopwatch()
    found = [flights.row(key) for key in keys]
    stage.account.say(watch.rate(_KEYS, "flights by key"))
    stage.account.compare("every flight looked up has the source's values", found, [cells_of(f) for f in wanted])
    absent = flights.row(b"2014-01-01T00:00:00Z")
    stage.account.compare("a flight that does not exist is absent", absent, {})


def _by_prefix(stage: Stage) -> None:
    flights = stage.client.table(tables.FLIGHTS)
    watch = Stopwatch()
    found = [flights.scan(prefix=day).to_arrow(tables.flights_mapping()) for day in _DAYS]
    stage.account.say(watch.rate(sum(map(len, found)), f"flights by the prefixes {', '.join(_DAYS)}"))
    for day, flights_found in zip(_DAYS, found, strict=True):
        wanted = stage.expected.filter(pc.starts_with(stage.expected["time_hour"], pattern=day))
        differing = differences(flights_found, wanted)
        stage.account.compare(f"{day}: {len(wanted)} flights, in key order, and no others", differing, [])


def cells_of(flight: dict[str, str | int | None]) -> dict[bytes, bytes]:
    """Returns the expected cells of a flight: text as UTF-8, numbers as HBase writes them, no cell for None."""
    assert all(flight[name] is not None for name in KEY_COLUMNS), f"a flight without a key: {flight}"
    cells = {}
    for family, names in (("plan", PLAN_COLUMNS), ("actual", ACTUAL_COLUMNS)):
        for name in names:
            value = flight[name]
            if value is not None:
                stored = tables.number_bytes(value) if isinstance(value, int) else value.encode()
                cells[f"{family}:{name}".encode()] = stored
    return cells
