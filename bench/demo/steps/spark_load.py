"""Spark writes the flights of the CSV file into a table, and reads them back."""

from __future__ import annotations

from bench.demo.frames import COLUMNS, delays_by_hour, flights_of_table, unequal, write_flights
from bench.demo.spark_state import SparkState
from bench.demo.state import Stopwatch


def spark_load(state: SparkState) -> None:
    """Creates and fills the table, and lets Spark compare every value."""
    watch = Stopwatch()
    write_flights(state.flights, state.address)
    state.output.line(watch.stop().rate(state.flight_count, "flights written from CSV"))
    state.state.rates["Spark writes, from CSV"] = watch.per_second(state.flight_count)

    found = flights_of_table(state.spark, state.address)
    watch = Stopwatch()
    found.write.format("noop").mode("overwrite").save()
    state.output.line(watch.stop().rate(state.flight_count, "flights read"))
    state.state.rates["Spark reads"] = watch.per_second(state.flight_count)

    surplus = [row.asDict() for row in unequal(found, state.flights).limit(3).collect()]
    claim = f"all {state.flight_count * len(COLUMNS):,} values that Spark reads equal those of the CSV file"
    state.output.compare(claim, surplus, [])
    state.before = delays_by_hour(state.flights)
