"""Spark joins the flights with planes and weather, while writers correct delays in the same table.

A DataFrame reads one snapshot. A first query finds the corrections that the snapshot contains. A second query of the
same DataFrame must equal the same join of the CSV files with exactly these corrections. When the writers have stopped,
their journals show whether all corrections can be of one read point, and the table is compared value by value.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from bench.demo.corrections import Corrected, Rounds, one_moment, seen_count
from bench.demo.flights import keys_of
from bench.demo.frames import (
    delays_by_hour,
    delays_by_maker_and_sight,
    flights_of_table,
    joined,
    unequal,
    with_corrections,
)
from bench.demo.spark_state import SparkState
from bench.demo.state import Stopwatch
from bench.demo.writers import Writers

_READS = 3


@dataclass(frozen=True, slots=True)
class Read:
    """One read: how many corrections of each writer it saw, and the times before and after."""

    counts: Sequence[int]
    begun: int
    ended: int


def spark_join(state: SparkState) -> None:
    """Joins and compares, during the writes and after them."""
    watch = Stopwatch()
    with Writers(state.address, state.rounds) as writers:
        reads = []
        for _ in range(_READS):
            reads.append(read(state))
            writers.check()
        journals = writers.stop()
    counts = [len(journal.acknowledged) for journal in journals]
    state.output.line(watch.rate(sum(counts), f"corrections by {' and '.join(own.writer for own in state.rounds)}"))
    consistent = [found for found in reads if found is not None]
    moments = [one_moment(journals, found.counts, found.begun, found.ended) for found in consistent]
    state.output.compare(f"each of the {_READS} reads saw one read point of all writers", moments, [True] * _READS)
    compare_all(state, counts)


def read(state: SparkState) -> Read | None:
    """Reads one DataFrame twice. Returns None if the corrections that it shows are impossible."""
    begun = time.monotonic_ns()
    found = flights_of_table(state.spark, state.address)
    seen = seen_corrections(found, state.rounds)
    ended = time.monotonic_ns()
    counts = [seen_count(own, seen[own.writer]) for own in state.rounds]
    if None in counts:
        state.output.failed(f"Spark read corrections that are not the first ones of each writer: {counts}")
        return None
    known = [count for count in counts if count is not None]
    watch = Stopwatch()
    table = joined(found, state.planes, state.weather)
    delays = delays_by_maker_and_sight(table).collect()
    state.output.line(watch.rate(state.flight_count, "flights joined with planes and weather"))
    expected = delays_by_maker_and_sight(joined(after(state, known), state.planes, state.weather)).collect()
    claim = f"all {len(delays)} sums equal those of the CSV files with the first {_listed(known)} corrections"
    state.output.compare(claim, delays, expected)
    return Read(known, begun, ended)


def compare_all(state: SparkState, counts: Sequence[int]) -> None:
    """Compares all values. The writers have stopped, and every correction was acknowledged."""
    found = flights_of_table(state.spark, state.address)
    table = joined(found, state.planes, state.weather)
    expected = joined(after(state, counts), state.planes, state.weather)
    surplus = [row.asDict() for row in unequal(table, expected).limit(3).collect()]
    values = state.flight_count * len(expected.columns)
    claim = f"all {values:,} joined values equal those of the CSV files with all {_listed(counts)} corrections"
    state.output.compare(claim, surplus, [])
    state.after = delays_by_hour(found)


def after(state: SparkState, counts: Sequence[int]) -> DataFrame:
    """Returns the flights of the CSV file after the first `counts` corrections of each writer."""
    corrected: dict[bytes, Corrected] = {}
    for own, count in zip(state.rounds, counts, strict=True):
        corrected |= own.first(count)
    return with_corrections(state.flights, corrected)


def seen_corrections(flights: DataFrame, rounds: Sequence[Rounds]) -> Mapping[str, dict[bytes, Corrected]]:
    """Returns each writer's corrections in the DataFrame, by row."""
    columns = ("time_hour", "carrier", "flight", "arr_delay", "corrected_by", "correction")
    shown: pa.Table = flights.where("corrected_by is not null or correction is not null").select(*columns).toArrow()
    seen: dict[str, dict[bytes, Corrected]] = {own.writer: {} for own in rounds}
    for row, flight in zip(keys_of(shown), shown.to_pylist(), strict=True):
        by = flight["corrected_by"]
        seen.setdefault(by, {})[row] = Corrected(flight["arr_delay"], by, flight["correction"])
    return seen


def _listed(counts: Sequence[int]) -> str:
    return " and ".join(f"{count:,}" for count in counts)
