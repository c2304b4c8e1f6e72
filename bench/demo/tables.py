"""The tables of the demo, their columns, and the mapping between columns and cells.

`flights` has a row for each flight, `counts` one for each carrier with a counter for each airport. `spark_flights` has
the flights as Spark wrote them; the writer and number of a correction are in a family of their own.
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

SPARK_FLIGHTS = "spark_flights"

ARRIVAL_DELAY = "actual:arr_delay"
CORRECTED_BY = "actual:corrected_by"
FIXED_BY = "fix:by"
FIX_NUMBER = "fix:number"

SQL_NAMES = {pa.string(): "STRING", pa.int32(): "INT"}


def flights_mapping() -> rowlock.Mapping:
    """Returns the mapping of all columns of the source, and of the writer that corrected the delay."""
    return rowlock.Mapping(", ".join([*_source_columns(), f"corrected_by STRING {CORRECTED_BY}"]))


def spark_mapping() -> str:
    """Returns the mapping of all columns of the source, and of the writer and number of the delay's correction."""
    return ", ".join([*_source_columns(), f"corrected_by STRING {FIXED_BY}", f"correction INT {FIX_NUMBER}"])


def _source_columns() -> list[str]:
    keys = [f"{name} {SQL_NAMES[COLUMN_TYPES[name]]} :key" for name in KEY_COLUMNS]
    plan = [f"{name} {SQL_NAMES[COLUMN_TYPES[name]]} plan:{name}" for name in PLAN_COLUMNS]
    actual = [f"{name} {SQL_NAMES[COLUMN_TYPES[name]]} actual:{name}" for name in ACTUAL_COLUMNS]
    return [*keys, *plan, *actual]


def number_bytes(number: int) -> bytes:
    """Returns a number as the mapping writes an INT: 4 bytes, big-endian, like HBase's Bytes.toBytes(int)."""
    return struct.pack(">i", number)


def number_of(stored: bytes) -> int:
    """Returns the number of an INT's bytes."""
    number: int = struct.unpack(">i", stored)[0]
    return number
