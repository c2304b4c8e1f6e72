"""Gets during a job that writes into their server, and during the same job writing Parquet."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

from bench.measure import Measurement, Spread, percentile
from bench.side_process import SideProcess
from bench.spark import usage
from bench.spark.stage import LOADED, Stage, create_table, running_server
from bench.spark.usage import Job
from bench.spark.workloads.writes import job_into_files, job_into_table

_TABLE = "written"


def gets_during_writes(stage: Stage) -> Mapping[str, Measurement]:
    """Measures the 99th percentile of gets from a table in files, while a job writes another table or Parquet.

    The reader is a separate process, and does the same in both cases.
    """
    latencies: list[tuple[list[float], list[float]]] = []
    with running_server(stage.loaded_data) as (server, client):
        create_table(client, _TABLE)
        command = [sys.executable, "-m", "bench.spark.point_reader", server.address, LOADED, str(stage.row_count)]
        with SideProcess(command) as reader:
            meter = _WatchedMeter(stage.meter(server), reader)

            def gets_during_table_writes() -> list[float]:
                job_into_table(stage, meter, client, server.address, _TABLE)
                return meter.latencies_ms

            def gets_during_file_writes() -> list[float]:
                job_into_files(stage, meter)
                return meter.latencies_ms

            for number in range(stage.warm_up_rounds + stage.rounds):
                if number % 2:
                    ours, baseline = gets_during_table_writes(), gets_during_file_writes()
                else:
                    baseline, ours = gets_during_file_writes(), gets_during_table_writes()
                if number >= stage.warm_up_rounds:
                    latencies.append((ours, baseline))
    p99s = [(percentile(mine, 99), percentile(theirs, 99)) for mine, theirs in latencies]
    return {
        "get-while-writing": Measurement(
            Spread.of([mine / theirs for mine, theirs in p99s]),
            {
                "ms beside a job into rowlock": Spread.of([mine for mine, _ in p99s]),
                "ms beside a job into Parquet": Spread.of([theirs for _, theirs in p99s]),
                "median ms beside rowlock": Spread.of([percentile(mine, 50) for mine, _ in latencies]),
                "median ms beside Parquet": Spread.of([percentile(theirs, 50) for _, theirs in latencies]),
            },
        )
    }


class _WatchedMeter(usage.Meter):
    """A meter with a reader that gets rows only while a job is measured."""

    def __init__(self, meter: usage.Meter, reader: SideProcess) -> None:
        self._meter = meter
        self._reader = reader
        self.latencies_ms: list[float] = []

    def usage(self, job: Job) -> usage.Usage:
        self._reader.call("begin")
        used = self._meter.usage(job)
        self.latencies_ms = cast("list[float]", self._reader.call("end")["ms"])
        return used
