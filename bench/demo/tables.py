"""How the flights are rows: two tables, their columns, and the mapping between columns and cells.

`flights` has a row for each flight, `counts` one for each carrier with a counter for each airport.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import rowlock

from bench.demo.flights import ACTUAL_COLUMNS, COLUMN_TYPES, KEY_COLUMNS, PLAN_COLUMNS

FLIGHTS = "flights"
FLIGHTS_FAMILIES = {"plan": rowlock.Family(), "actual": rowlock.Family()}
COUNTS = "counts"
COUNTS_FAMILIES = {"from": rowlock.Family(), "to": rowlock.Family()}

ARRIVAL_DELAY = "actual:arr_delay"
CORRECTED_BY = "actual:corrected_by"

_SQL_NAMES = {pa.string(): "STRING", pa.int32(): "INT"}


def flights_mapping() -> rowlock.Mapping:
    """All columns of the source, and who corrected the flight's delay."""
    keys = [f"{name} {_SQL_NAMES[COLUMN_TYPES[name]]} :key" for name in KEY_COLUMNS]
    plan = [f"{name} {_SQL_NAMES[COLUMN_TYPES[name]]} plan:{name}" for name in PLAN_COLUMNS]
    actual = [f"{name} {_SQL_NAMES[COLUMN_TYPES[name]]} actual:{name}" for name in ACTUAL_COLUMNS]
    return rowlock.Mapping(", ".join([*keys, *plan, *actual, f"corrected_by STRING {CORRECTED_BY}"]))


def number_bytes(number: int) -> bytes:
    """A number as the mapping writes an INT: 4 bytes, big-endian, as HBase's Bytes.toBytes(int) does."""
    return struct.pack(">i", number)


def number_of(stored: bytes) -> int:
    """The number of an INT's bytes."""
    number: int = struct.unpack(">i", stored)[0]
    return number
