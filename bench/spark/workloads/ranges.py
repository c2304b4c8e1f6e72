"""Reads of one percent of a table's keys, by options and by a filter: the bytes that the server sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.measure import Measurement, Spread
from bench.spark.relay import Relay
from bench.spark.rows import read_all, table_reader
from bench.spark.stage import LOADED, Stage, running_server
from bench.spark.usage import Trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PERCENT = 1.0


def ranges(stage: Stage) -> Mapping[str, Measurement]:
    """Measures the bytes of a range divided by those of the whole table, counted by a relay between server and Spark.

    The details have the ratio of the server's CPU too, which would be 1 if the server read the whole table.
    """
    part = stage.rows.part(_PERCENT)
    with Relay() as relay, running_server(stage.loaded_data, advertise=relay.address) as (server, _):
        relay.begin(server.address)
        reader = table_reader(stage.spark, relay.address, LOADED)

        def by_option() -> DataFrame:
            return table_reader(stage.spark, relay.address, LOADED).options(start=part.start, stop=part.stop).load()

        def by_filter() -> DataFrame:
            condition = f"key >= '{part.start}' and key < '{part.stop}'"
            return table_reader(stage.spark, relay.address, LOADED).option("filter", condition).load()

        for read in (by_option, by_filter):
            found = read().count()
            assert found == part.row_count, f"{found} rows were read, not {part.row_count}"

        def cost(frame: DataFrame) -> tuple[int, float]:
            sent = relay.sent_bytes
            with Trees(server.pid) as trees:
                read_all(frame)
            return relay.sent_bytes - sent, trees.seconds[0]

        rounds = [(cost(reader.load()), cost(by_option()), cost(by_filter())) for _ in range(stage.rounds)]
    return {
        "range-by-option": _measurement([(whole, part) for whole, part, _ in rounds]),
        "range-by-filter": _measurement([(whole, part) for whole, _, part in rounds]),
    }


def _measurement(pairs: list[tuple[tuple[int, float], tuple[int, float]]]) -> Measurement:
    """Returns the measurement from (bytes, CPU seconds) of the whole table and of the part, in each round."""
    return Measurement(
        Spread.of([part[0] / whole[0] for whole, part in pairs]),
        {
            "MB of the whole table": Spread.of([whole[0] / 1e6 for whole, _ in pairs]),
            "MB of the range": Spread.of([part[0] / 1e6 for _, part in pairs]),
            "ratio of the server's CPU": Spread.of([part[1] / whole[1] for whole, part in pairs]),
        },
    )
