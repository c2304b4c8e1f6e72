"""Spark joins the flights with planes and weather, while writers correct delays in the same table.

A DataFrame sees one moment. The corrections that it shows are those made until then. The join of the CSV files with
exactly these corrections must equal another query of the same DataFrame. After the writers have ended, their journals
show whether it could have been one moment, and the whole table is compared, value by value.
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
from bench.demo.spark_stage import SparkStage
from bench.demo.stage import Stopwatch
from bench.demo.writers import Writers

_READS = 3


@dataclass(frozen=True, slots=True)
class Read:
    """One read: how many corrections of each writer it saw, and when it began and ended."""

    counts: Sequence[int]
    begun: int
    ended: int


def spark_join(stage: SparkStage) -> None:
    """Joins and compares, during the writes and after them."""
    watch = Stopwatch()
    with Writers(stage.address, stage.rounds) as writers:
        reads = []
        for _ in range(_READS):
            reads.append(read(stage))
            writers.check()
        journals = writers.stop()
    made = [len(journal.acknowledged) for journal in journals]
    stage.account.say(watch.rate(sum(made), f"corrections by {' and '.join(own.writer for own in stage.rounds)}"))
    consistent = [found for found in reads if found is not None]
    moments = [one_moment(journals, found.counts, found.begun, found.ended) for found in consistent]
    stage.account.compare(f"each of the {_READS} reads saw one moment over all writers", moments, [True] * _READS)
    compare_all(stage, made)


def read(stage: SparkStage) -> Read | None:
    """Reads one DataFrame twice and compares; returns None if the corrections that it shows never existed together."""
    begun = time.monotonic_ns()
    found = flights_of_table(stage.spark, stage.address)
    seen = seen_corrections(found, stage.rounds)
    ended = time.monotonic_ns()
    counts = [seen_count(own, seen[own.writer]) for own in stage.rounds]
    if None in counts:
        stage.account.differ(f"Spark saw corrections that are not the first ones of each writer: {counts}")
        return None
    known = [count for count in counts if count is not None]
    watch = Stopwatch()
    table = joined(found, stage.planes, stage.weather)
    delays = delays_by_maker_and_sight(table).collect()
    stage.account.say(watch.rate(stage.flight_count, "flights joined with planes and weather"))
    expected = delays_by_maker_and_sight(joined(after(stage, known), stage.planes, stage.weather)).collect()
    claim = f"all {len(delays)} sums are those of the CSV files and the first {_listed(known)} corrections"
    stage.account.compare(claim, delays, expected)
    return Read(known, begun, ended)


def compare_all(stage: SparkStage, made: Sequence[int]) -> None:
    """Compares the whole table after the writers have ended, when every correction is acknowledged."""
    found = flights_of_table(stage.spark, stage.address)
    table = joined(found, stage.planes, stage.weather)
    expected = joined(after(stage, made), stage.planes, stage.weather)
    surplus = [row.asDict() for row in unequal(table, expected).limit(3).collect()]
    values = stage.flight_count * len(expected.columns)
    claim = f"all {values:,} joined values are those of the CSV files and all {_listed(made)} corrections"
    stage.account.compare(claim, surplus, [])
    stage.after = delays_by_hour(found)


def after(stage: SparkStage, counts: Sequence[int]) -> DataFrame:
    """Returns the flights of the CSV file after these numbers of corrections of each writer."""
    corrected: dict[bytes, Corrected] = {}
    for own, count in zip(stage.rounds, counts, strict=True):
        corrected |= own.first(count)
    return with_corrections(stage.flights, corrected)


def seen_corrections(flights: DataFrame, rounds: Sequence[Rounds]) -> Mapping[str, dict[bytes, Corrected]]:
    """Returns the corrections of each writer that the DataFrame shows, by row."""
    columns = ("time_hour", "carrier", "flight", "arr_delay", "corrected_by", "correction")
    shown: pa.Table = flights.where("corrected_by is not null or correction is not null").select(*columns).toArrow()
    seen: dict[str, dict[bytes, Corrected]] = {own.writer: {} for own in rounds}
    for row, flight in zip(keys_of(shown), shown.to_pylist(), strict=True):
        by = flight["corrected_by"]
        seen.setdefault(by, {})[row] = Corrected(flight["arr_delay"], by, flight["correction"])
    return seen


def _listed(counts: Sequence[int]) -> str:
    return " and ".join(f"{count:,}" for count in counts)
