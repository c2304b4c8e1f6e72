"""Spark writes the flights of the CSV file into a table, and reads them back."""

from __future__ import annotations

from bench.demo.frames import COLUMNS, delays_by_hour, flights_of_table, unequal, write_flights
from bench.demo.spark_stage import SparkStage
from bench.demo.stage import Stopwatch


def spark_load(stage: SparkStage) -> None:
    """Writes the table, reads it, and compares every value with the CSV file, in Spark."""
    watch = Stopwatch()
    write_flights(stage.flights, stage.address)
    stage.account.say(watch.stop().rate(stage.flight_count, "flights written from CSV"))
    stage.stage.rates["Spark writes, from CSV"] = watch.per_second(stage.flight_count)

    found = flights_of_table(stage.spark, stage.address)
    watch = Stopwatch()
    found.write.format("noop").mode("overwrite").save()
    stage.account.say(watch.stop().rate(stage.flight_count, "flights read"))
    stage.stage.rates["Spark reads"] = watch.per_second(stage.flight_count)

    surplus = [row.asDict() for row in unequal(found, stage.flights).limit(3).collect()]
    claim = f"all {stage.flight_count * len(COLUMNS):,} values that Spark reads are those of the CSV file"
    stage.account.compare(claim, surplus, [])
    stage.before = delays_by_hour(stage.flights)
