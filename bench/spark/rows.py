"""The rows of all figures: a text key and ten columns of 100 random bytes, as Parquet files in key order.

There are as many files as Spark would make parts. Each has one row group and no dictionary, which distinct values would
only make larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import rowlock

from bench.targets import cell_tables
from bench.targets.messages import FAMILY, row_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_ROWS_A_FILE = 125_000
SCHEMA = "key string, " + ", ".join(f"{name} binary" for name in cell_tables.column_names())


def mapping_text(column_count: int = cell_tables.COLUMN_COUNT) -> str:
    """Returns the mapping of the key and of the first `column_count` columns."""
    columns = [f"{name} BINARY {FAMILY.decode()}:{name}" for name in cell_tables.column_names()[:column_count]]
    return ", ".join(["key STRING :key", *columns])


@dataclass(frozen=True, slots=True)
class Part:
    """The rows with keys in [start, stop)."""

    start: str
    stop: str
    row_count: int


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows 0 to row_count in a folder of Parquet files."""

    folder: Path
    row_count: int

    @classmethod
    def made_in(cls, folder: Path, row_count: int, file_row_count: int = _ROWS_A_FILE) -> ParquetRows:
        """Writes the files and returns them."""
        folder.mkdir()
        for number, first in enumerate(range(0, row_count, file_row_count)):
            count = min(file_row_count, row_count - first)
            rows = cell_tables.wide_rows_in_order(first, count, seed=number)
            pq.write_table(
                rows, folder / f"{number:05d}.parquet", compression="none", use_dictionary=False, row_group_size=count
            )
        return cls(folder, row_count)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns a DataFrame that reads the files."""
        return spark.read.schema(SCHEMA).parquet(str(self.folder))

    def files(self) -> list[Path]:
        """Returns the files, in key order."""
        return sorted(self.folder.glob("*.parquet"))

    def put_into(self, table: rowlock.Table[bytes]) -> None:
        """Puts all rows by put_arrow, in key order."""
        for path in self.files():
            table.put_arrow(pq.read_table(path), rowlock.Mapping(mapping_text()))

    def part(self, percent: float) -> Part:
        """Returns this percentage of the rows, from their middle on."""
        first, count = self.row_count // 2, max(1, int(self.row_count * percent / 100))
        return Part(row_key(first).decode(), row_key(first + count).decode(), count)


def table_reader(
    spark: SparkSession, server: str, table: str, column_count: int = cell_tables.COLUMN_COUNT
) -> DataFrameReader:
    """Returns a reader of the table's first `column_count` columns, to which options can be added."""
    reader = spark.read.format("rowlock").option("server", server).option("table", table)
    return reader.option("mapping", mapping_text(column_count))


def read_all(frame: DataFrame) -> None:
    """Computes every row and column, and discards them."""
    frame.write.format("noop").mode("overwrite").save()


def write_parquet(frame: DataFrame, folder: Path) -> None:
    """Writes the rows to files in a new folder."""
    frame.write.parquet(str(folder))


def write_table(frame: DataFrame, server: str, table: str) -> None:
    """Writes the rows into the table, at its durability."""
    writer = frame.write.format("rowlock").mode("append").option("server", server).option("table", table)
    writer.option("mapping", mapping_text()).save()
