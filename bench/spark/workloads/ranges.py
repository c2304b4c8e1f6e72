"""One percent of a table's keys, by options and by a filter: how many bytes leave the server for it."""

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
# Computing is counted in such steps, and a small run may take less than one.
_TICK_SECONDS = 0.01


def ranges(stage: Stage) -> Mapping[str, Measurement]:
    """The bytes of a range divided by those of the whole table, counted by a relay between server and Spark.

    What the server computed for each stands beside them: it would be as much, if it read everything.
    """
    part = stage.rows.part(_PERCENT)
    with Relay() as relay, running_server(stage.loaded_data, advertise=relay.address) as (server, _):
        relay.begin(server.address)
        reader = table_reader(stage.spark, relay.address, LOADED)

        def by_option() -> DataFrame:
            return table_reader(stage.spark, relay.address, LOADED).options(start=part.start, stop=part.stop).load()

        def by_filter() -> DataFrame:
            given = f"key >= '{part.start}' and key < '{part.stop}'"
            return table_reader(stage.spark, relay.address, LOADED).option("filter", given).load()

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
    """Of (bytes, CPU seconds) of the whole table and of the part, in each round."""
    return Measurement(
        Spread.of([part[0] / whole[0] for whole, part in pairs]),
        {
            "MB of the whole table": Spread.of([whole[0] / 1e6 for whole, _ in pairs]),
            "MB of the range": Spread.of([part[0] / 1e6 for _, part in pairs]),
            "ratio of the server's CPU": Spread.of([part[1] / max(whole[1], _TICK_SECONDS) for whole, part in pairs]),
        },
    )
