"""Generates typed rows in the shape of taxi trips as an Arrow table, in key order: a text key and fifteen columns.

Distances and durations are skewed, most passengers ride alone, few zones have most trips, and 4 % of the trips have no
number of passengers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import rowlock

from bench.targets.cell_tables import ArrowArray

KEY = "trip"
# The columns in order, each with its type in a mapping. Spark's types have the same names.
COLUMNS: Mapping[str, str] = {
    "pickup": "TIMESTAMP",
    "dropoff": "TIMESTAMP",
    "day": "DATE",
    "pickup_zone": "INT",
    "dropoff_zone": "INT",
    "distance": "DOUBLE",
    "meter": "BIGINT",
    "taxi": "STRING",
    "vendor": "SMALLINT",
    "passengers": "INT",
    "is_shared": "BOOLEAN",
    "payment": "STRING",
    "fare": "DECIMAL(10,2)",
    "tip": "DOUBLE",
    "total": "DECIMAL(10,2)",
}
FIRST_SECOND = 1_704_067_200  # 2024-01-01
DAYS = 90
_CARS = 13_587
_PAYMENTS = ["card", "cash", "free", "dispute"]
_TIME = pa.timestamp("us", tz="UTC")

_Numbers = npt.NDArray[np.int64]


def mapping(family: str = "f") -> rowlock.Mapping:
    """Returns the mapping of all columns to cells of one family."""
    columns = [f"{name} {kind} {family}:{name}" for name, kind in COLUMNS.items()]
    return rowlock.Mapping(", ".join([f"{KEY} STRING :key", *columns]))


def trip_key(number: int) -> str:
    """Returns the key of a row; keys sort as the numbers do, and rows by the time of their start."""
    return f"{number:010d}"


def typed_rows(row_count: int, seed: int = 1) -> pa.Table:
    """Returns rows 0 to row_count, with the columns KEY and COLUMNS."""
    random = np.random.default_rng(seed)
    numbers = np.arange(row_count)
    started = FIRST_SECOND + numbers * DAYS * 86_400 // max(1, row_count) + random.integers(0, 600, row_count)
    distance = np.round(0.3 + random.exponential(2.2, row_count), 2)
    seconds = (60 + distance * 220 * random.uniform(0.6, 1.4, row_count)).astype(np.int64)
    cars = random.integers(0, _CARS, row_count)
    paid = np.searchsorted([0.7, 0.95, 0.99], random.random(row_count), side="right")
    price = np.round(3 + 2.5 * distance, 1)
    tip = np.where(paid == 0, np.round(0.4 * price * random.random(row_count), 2), 0.0)
    passengers = random.choice([1, 2, 3, 4, 5, 6], row_count, p=[0.72, 0.14, 0.05, 0.04, 0.03, 0.02])
    columns: dict[str, ArrowArray] = {
        "pickup": pa.array(started * 1_000_000, _TIME),
        "dropoff": pa.array((started + seconds) * 1_000_000, _TIME),
        "day": pa.array((started // 86_400).astype(np.int32), pa.date32()),
        "pickup_zone": pa.array((1 + 264 * random.random(row_count) ** 2.2).astype(np.int32)),
        "dropoff_zone": pa.array((1 + 264 * random.random(row_count) ** 1.6).astype(np.int32)),
        "distance": pa.array(distance),
        "meter": pa.array(cars * 1_000_000 + numbers % 1_000_000),
        "taxi": pa.array([f"T{car:05d}" for car in range(_CARS)]).take(pa.array(cars, pa.int64())),
        "vendor": pa.array(np.where(random.random(row_count) < 0.36, 1, 2).astype(np.int16)),
        "passengers": pa.array(passengers.astype(np.int32), mask=random.random(row_count) < 0.04),
        "is_shared": pa.array(random.random(row_count) < 0.01),
        "payment": pa.array(_PAYMENTS).take(pa.array(paid, pa.int64())),
        "fare": _decimals(price),
        "tip": pa.array(tip),
        "total": _decimals(price + tip + 0.5),
    }
    return pa.table({KEY: _keys(numbers), **{name: columns[name] for name in COLUMNS}})


def _keys(numbers: _Numbers) -> ArrowArray:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), len(trip_key(0)), "0")


def _decimals(values: npt.NDArray[np.float64]) -> ArrowArray:
    """Returns values that are not negative as decimals with two places."""
    halves = np.zeros((len(values), 2), np.int64)
    halves[:, 0] = np.round(values * 100)
    return pa.Array.from_buffers(pa.decimal128(10, 2), len(values), [None, pa.py_buffer(halves.tobytes())])
