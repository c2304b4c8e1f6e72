"""The trips as files, made at first use: as Parquet, as prepared Arrow batches, and as data folders of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import rowlock

from bench.processes import start_rowlock
from bench.spark.rows import write_parquet
from bench.spark.trips import Layout, trips, write_trips
from bench.targets.typed_rows import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TABLE = "trips"


@dataclass
class TripFiles:
    """Trips 0 to trip_count, in files below the folder."""

    folder: Path
    spark: SparkSession
    trip_count: int
    _loaded: dict[str, Path] = field(default_factory=dict)

    @cached_property
    def parquet(self) -> Path:
        """The trips as Spark writes them with its defaults: the baseline, and the input of write jobs."""
        path = self.folder / "trips.parquet"
        write_parquet(trips(self.spark, self.trip_count), path)
        return path

    def frame(self) -> DataFrame:
        """Returns a DataFrame of the Parquet files."""
        return self.spark.read.parquet(str(self.parquet))

    @cached_property
    def schema(self) -> StructType:
        return self.frame().schema

    @cached_property
    def arrow_batches(self) -> Path:
        """The trips as Arrow batches that a Python data source only yields."""
        # Imports PySpark.
        from bench.spark.floors import prepare_batches

        path = self.folder / "trips.arrow"
        prepare_batches(self.parquet, path, self.schema)
        return path

    @cached_property
    def cell_count(self) -> int:
        """The number of values that are not null, keys aside."""
        [counts] = self.frame().selectExpr(*(f"count({name})" for name in COLUMNS)).collect()
        return sum(counts)

    def loaded(self, layout: Layout) -> Path:
        """Returns a data folder with the trips in store files of TABLE, written by a job of Spark and flushed."""
        if layout.name not in self._loaded:
            data = self.folder / f"trips-{layout.name}"
            with start_rowlock(data) as server:
                with rowlock.connect(server.address, timeout=600) as client:
                    create_trips_table(client, TABLE, layout)
                    write_trips(self.frame(), server.address, TABLE, layout)
                    client.flush(TABLE)
                    found = store_cells(client, TABLE)
                    assert found == self.cell_count, f"{found} cells were written, not {self.cell_count}"
                server.stop()
            self._loaded[layout.name] = data
        return self._loaded[layout.name]


def create_trips_table(client: rowlock.Client, name: str, layout: Layout, versions: int = 1) -> None:
    """Creates a table with the layout's families, at fsync."""
    client.create_table(name, {family: rowlock.Family(versions=versions) for family in layout.families})


def store_cells(client: rowlock.Client, table: str) -> int:
    """Returns the number of cells in the table's store files."""
    return sum(region.store_file_cells for region in client.describe(table).regions)


def store_bytes(client: rowlock.Client, table: str) -> int:
    """Returns the bytes of the table's store files on disk."""
    return sum(region.store_file_bytes for region in client.describe(table).regions)


def parquet_bytes(folder: Path) -> int:
    """Returns the bytes of a folder of Parquet files."""
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))
