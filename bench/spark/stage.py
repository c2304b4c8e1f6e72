"""The shared set-up of the groups of figures: the session, the rows, and a data folder with the rows in store files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import rowlock

from bench.processes import ServerProcess, start_rowlock
from bench.spark.rows import ParquetRows, write_parquet
from bench.spark.session import java_pid
from bench.spark.trip_files import TripFiles
from bench.spark.usage import Meter
from bench.targets import cell_tables
from bench.targets.messages import FAMILY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED = "loaded"


@dataclass
class Stage:
    """One run, with its folder. Rounds that warm up Java and the caches are not counted."""

    folder: Path
    spark: SparkSession
    row_count: int
    trip_count: int
    rounds: int
    warm_up_rounds: int = 1
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @cached_property
    def rows(self) -> ParquetRows:
        """The rows in Parquet files, written at first use."""
        return ParquetRows.made_in(self.folder / "rows.parquet", self.row_count)

    @cached_property
    def parquet_of_spark(self) -> Path:
        """The rows as Spark writes them with its defaults: the baseline of reads from rowlock."""
        folder = self.folder / "rows-of-spark.parquet"
        write_parquet(self.rows.frame(self.spark), folder)
        return folder

    @cached_property
    def arrow_batches(self) -> Path:
        """The same rows as uncompressed Arrow batches, for the floor of reads."""
        # Imports PySpark.
        from bench.spark.floors import prepare_batches

        folder = self.folder / "rows.arrow"
        prepare_batches(self.parquet_of_spark, folder, self.rows.frame(self.spark).schema)
        return folder

    @cached_property
    def trips(self) -> TripFiles:
        """The typed rows."""
        return TripFiles(self.folder, self.spark, self.trip_count)

    @cached_property
    def loaded_data(self) -> Path:
        """A server's data folder with all rows in store files, in the order of their keys, in the table LOADED."""
        data = self.folder / "loaded"
        with start_rowlock(data) as server:
            with rowlock.connect(server.address, timeout=600) as client:
                create_table(client, LOADED)
                self.rows.put_into(client.table(LOADED))
                client.flush(LOADED)
                check_cell_count(client, LOADED, self.row_count)
            server.stop()
        return data

    def fresh_path(self, name: str) -> Path:
        """Returns a path that does not exist."""
        return self.folder / f"{next(self._numbers)}-{name}"

    def meter(self, server: ServerProcess) -> Meter:
        """Returns a meter of this session's jobs and that server."""
        return Meter(java_pid(self.spark), server.pid)


@contextmanager
def running_server(
    data: Path, advertise: str | None = None, settings: Sequence[str] = ()
) -> Iterator[tuple[ServerProcess, rowlock.Client]]:
    """Runs a server by its command on the data folder, with a client, until exit; `settings` are --config."""
    words = [] if advertise is None else ["--advertise", advertise]
    words += [word for setting in settings for word in ("--config", setting)]
    with start_rowlock(data, *words) as server, rowlock.connect(server.address, timeout=600) as client:
        yield server, client


def create_table(client: rowlock.Client, name: str, durability: rowlock.Durability = "fsync") -> None:
    """Creates a table for the rows, replacing an existing one."""
    if client.exists(name):
        client.drop_table(name)
    client.create_table(name, {FAMILY.decode(): rowlock.Family()}, durability=durability)


def check_cell_count(client: rowlock.Client, table: str, row_count: int) -> None:
    """Asserts that a flushed table has the cells of that many rows in its files, so that no row was skipped."""
    found = sum(region.store_file_cells for region in client.describe(table).regions)
    expected = row_count * cell_tables.COLUMN_COUNT
    assert found == expected, f"table {table!r} has {found} cells, not {expected}"


def settle() -> None:
    """Writes dirty pages of earlier jobs to the disk, so that the next job does not wait for them."""
    os.sync()
