"""What the groups of figures share: the session, the rows, and a server that has them in its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import rowlock

from bench.processes import ServerProcess, start_rowlock
from bench.spark.rows import ParquetRows, write_parquet
from bench.spark.session import java_pid
from bench.spark.usage import Meter
from bench.targets import cell_tables
from bench.targets.messages import FAMILY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED = "loaded"


@dataclass
class Stage:
    """One run in a folder of its own. Rounds that warm up Java and the caches are not counted."""

    folder: Path
    spark: SparkSession
    row_count: int
    rounds: int
    warm_up_rounds: int = 1
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @cached_property
    def rows(self) -> ParquetRows:
        """The rows in Parquet files, made when they are first asked for."""
        return ParquetRows.made_in(self.folder / "rows.parquet", self.row_count)

    @cached_property
    def parquet_of_spark(self) -> Path:
        """The same rows as Spark itself writes them, with its defaults: what reading from rowlock is compared to."""
        folder = self.folder / "rows-of-spark.parquet"
        write_parquet(self.rows.frame(self.spark), folder)
        return folder

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
        """A path where nothing is."""
        return self.folder / f"{next(self._numbers)}-{name}"

    def meter(self, server: ServerProcess) -> Meter:
        """Measures this session's jobs beside that server."""
        return Meter(java_pid(self.spark), server.pid)


@contextmanager
def running_server(data: Path, advertise: str | None = None) -> Iterator[tuple[ServerProcess, rowlock.Client]]:
    """A server by its command on that data folder, and a client, for the time of the block."""
    words = () if advertise is None else ("--advertise", advertise)
    with start_rowlock(data, *words) as server, rowlock.connect(server.address, timeout=600) as client:
        yield server, client


def create_table(client: rowlock.Client, name: str, durability: rowlock.Durability = "fsync") -> None:
    """A table for the rows, in the place of one that is there."""
    if client.exists(name):
        client.drop_table(name)
    client.create_table(name, {FAMILY.decode(): rowlock.Family()}, durability=durability)


def check_cell_count(client: rowlock.Client, table: str, row_count: int) -> None:
    """Asserts that a flushed table has that many rows' cells in its files, so that nothing passes by being left out."""
    found = sum(region.store_file_cells for region in client.describe(table).regions)
    expected = row_count * cell_tables.COLUMN_COUNT
    assert found == expected, f"table {table!r} has {found} cells, not {expected}"


def settle() -> None:
    """Writes to the disk what jobs before have left to be written, so that the next does not wait for it."""
    os.sync()
