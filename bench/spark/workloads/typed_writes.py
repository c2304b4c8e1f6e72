"""Write jobs of typed trips at fsync, against the same job writing Parquet and against a sink that only counts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import rowlock

from bench.measure import Measurement, Spread
from bench.processes import ServerProcess
from bench.spark import usage
from bench.spark.rows import read_all, write_parquet
from bench.spark.stage import Stage, running_server, settle
from bench.spark.trip_files import TABLE, create_trips_table, parquet_bytes, store_bytes, store_cells
from bench.spark.trips import Layout, trip_reader, write_trips
from bench.spark.usage import Usage

# The default on a machine with enough of it.
_MEMORY_MIB = 2048


@dataclass(frozen=True, slots=True)
class Written:
    """The cost of a job, what the flush after it costs the server, and the bytes on disk after both."""

    job: Usage
    flush_cpu: float = 0.0
    disk_bytes: int = 0

    @property
    def all_cpu(self) -> float:
        return self.job.all_cpu + self.flush_cpu


def typed_writes(stage: Stage, layout: Layout) -> Mapping[str, Measurement]:
    """Measures the jobs in turns; the remaining work of one is done before the next begins."""
    # Imports PySpark.
    from bench.spark.floors import count_rows

    settings = [f"memory={_MEMORY_MIB}MiB"]
    with running_server(stage.fresh_path("typed-writes"), settings=settings) as (server, client):
        create_trips_table(client, TABLE, layout)
        meter = stage.meter(server)

        def into_sink() -> Written:
            settle()
            return Written(meter.usage(lambda: count_rows(stage.trips.frame())))

        measured = usage.turns(
            {
                "rowlock": lambda: _into_table(stage, server, client, layout),
                "Parquet": lambda: _into_files(stage, meter),
                "sink": into_sink,
            },
            stage.rounds,
            stage.warm_up_rounds,
        )
        # The peak is that of a server that has served a read too.
        write_trips(stage.trips.frame(), server.address, TABLE, layout)
        read_all(trip_reader(stage.spark, server.address, TABLE, layout).load())
        peak_mib = server.peak_resident_mib()
    return _figures(f"typed-{layout.name}", measured, peak_mib)


def _into_table(stage: Stage, server: ServerProcess, client: rowlock.Client, layout: Layout) -> Written:
    """Measures the job that puts all trips into an empty table, and empties the table again."""
    settle()
    meter = stage.meter(server)
    job = meter.usage(lambda: write_trips(stage.trips.frame(), server.address, TABLE, layout))
    flush = meter.usage(lambda: client.flush(TABLE))
    found = store_cells(client, TABLE)
    assert found == stage.trips.cell_count, f"{found} cells were written, not {stage.trips.cell_count}"
    written = Written(job, flush.server_cpu, store_bytes(client, TABLE))
    client.truncate_table(TABLE)
    return written


def _into_files(stage: Stage, meter: usage.Meter) -> Written:
    """Measures the job that writes all trips as Parquet, and removes the files again."""
    settle()
    folder = stage.fresh_path("trips.parquet")
    job = meter.usage(lambda: write_parquet(stage.trips.frame(), folder))
    written = Written(job, disk_bytes=parquet_bytes(folder))
    shutil.rmtree(folder)
    return written


def _figures(name: str, measured: Mapping[str, Sequence[Written]], peak_mib: float) -> Mapping[str, Measurement]:
    ours, parquet, sink = measured["rowlock"], measured["Parquet"], measured["sink"]
    jobs = {name: [written.job for written in found] for name, found in measured.items()}
    pairs = list(zip(ours, parquet, strict=True))
    return {
        f"{name}-write-wall": Measurement(
            usage.ratio(jobs["rowlock"], jobs["Parquet"], lambda used: used.wall),
            {
                "a counting sink against Parquet": usage.ratio(jobs["sink"], jobs["Parquet"], lambda used: used.wall),
                **usage.details("rowlock", jobs["rowlock"]),
                **usage.details("Parquet", jobs["Parquet"]),
                "counting sink, s": Spread.of([written.job.wall for written in sink]),
            },
        ),
        f"{name}-write-cpu": Measurement(
            Spread.of([mine.job.all_cpu / theirs.all_cpu for mine, theirs in pairs]),
            {
                "with the flush": Spread.of([mine.all_cpu / theirs.all_cpu for mine, theirs in pairs]),
                "CPU s of the flush": Spread.of([mine.flush_cpu for mine in ours]),
            },
        ),
        f"{name}-disk": Measurement(
            Spread.of([mine.disk_bytes / theirs.disk_bytes for mine, theirs in pairs]),
            {
                "MB of store files": Spread.of([mine.disk_bytes / 1e6 for mine in ours]),
                "MB of Parquet": Spread.of([theirs.disk_bytes / 1e6 for theirs in parquet]),
            },
        ),
        f"{name}-memory": Measurement(
            Spread.of([peak_mib / _MEMORY_MIB]), {"MiB resident at most": Spread.of([peak_mib])}
        ),
    }
