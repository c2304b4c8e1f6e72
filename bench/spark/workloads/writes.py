"""A write job at fsync, against the same job writing Parquet; both read the rows from the same files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import rowlock

from bench.measure import Measurement
from bench.spark import usage
from bench.spark.rows import write_parquet, write_table
from bench.spark.stage import Stage, check_cell_count, create_table, running_server, settle
from bench.spark.usage import Usage

_TABLE = "written"


def writes(stage: Stage) -> Mapping[str, Measurement]:
    """Measures the jobs in turns; the remaining work of one is done before the next begins."""
    found: list[tuple[Usage, Usage]] = []
    with running_server(stage.fresh_path("written")) as (server, client):
        create_table(client, _TABLE)
        meter = stage.meter(server)
        for number in range(stage.warm_up_rounds + stage.rounds):
            if number % 2:
                into_table = job_into_table(stage, meter, client, server.address, _TABLE)
                into_files = job_into_files(stage, meter)
            else:
                into_files = job_into_files(stage, meter)
                into_table = job_into_table(stage, meter, client, server.address, _TABLE)
            if number >= stage.warm_up_rounds:
                found.append((into_table, into_files))
    ours, baseline = [pair[0] for pair in found], [pair[1] for pair in found]
    details = {**usage.details("rowlock", ours), **usage.details("Parquet", baseline)}
    return {"write-wall": Measurement(usage.ratio(ours, baseline, lambda used: used.wall), details)}


def job_into_table(stage: Stage, meter: usage.Meter, client: rowlock.Client, server: str, table: str) -> Usage:
    """Measures the job that puts all rows into an empty table, and empties the table again."""
    settle()
    used = meter.usage(lambda: write_table(stage.rows.frame(stage.spark), server, table))
    client.flush(table)
    check_cell_count(client, table, stage.row_count)
    client.truncate_table(table)
    return used


def job_into_files(stage: Stage, meter: usage.Meter) -> Usage:
    """Measures the job that writes all rows as Parquet, and removes the files again."""
    settle()
    folder = stage.fresh_path("written.parquet")
    used = meter.usage(lambda: write_parquet(stage.rows.frame(stage.spark), folder))
    shutil.rmtree(folder)
    return used
