"""A write job at os, which is the durability of HBase through Thrift, against happybase's batch put."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from bench.measure import Measurement, Spread
from bench.spark.hbase import HBasePeer, write_plain_rows
from bench.spark.stage import Stage, create_table, running_server
from bench.spark.workloads.writes import job_into_table

_TABLE = "written"
# HBase takes a minute for a million rows.
_HBASE_ROWS_MAX = 100_000
# HBase's Java compiles for minutes after a start; a server that has run for long needs fewer puts.
_HBASE_WARM_UP_PUTS = 4


def against_hbase(stage: Stage, hbase: HBasePeer) -> Mapping[str, Measurement]:
    """Measures rows a second of the job, including its start and planning, against one batch put of its first rows."""
    plain = stage.fresh_path("rows.plain")
    write_plain_rows(stage.rows.files()[0], plain, _HBASE_ROWS_MAX)
    rates: list[tuple[float, float]] = []
    with running_server(stage.fresh_path("written")) as (server, client), hbase.writer(plain) as writer:

        def put() -> float:
            return cast(float, writer.call("put")["rows_a_second"])

        create_table(client, _TABLE, durability="os")
        meter = stage.meter(server)
        for _ in range(_HBASE_WARM_UP_PUTS):
            put()
        for number in range(stage.warm_up_rounds + stage.rounds):
            used = job_into_table(stage, meter, client, server.address, _TABLE)
            theirs = put()
            if number >= stage.warm_up_rounds:
                rates.append((stage.row_count / used.wall, theirs))
    return {
        "write-against-hbase": Measurement(
            Spread.of([mine / theirs for mine, theirs in rates]),
            {
                "rows/s by a job at os": Spread.of([mine for mine, _ in rates]),
                "rows/s by happybase's batch put": Spread.of([theirs for _, theirs in rates]),
            },
        )
    }
