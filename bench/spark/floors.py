"""What Spark's Python data sources cost by themselves: a source of prepared Arrow batches, and a sink that counts.

No Python source can be faster, so these floors show how much of a figure is rowlock's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NAME = "rowlock_bench_floor"
_BATCH_ROWS = 16_384


def prepare_batches(parquet: Path, folder: Path, schema: StructType) -> None:
    """Writes each Parquet file of a folder as a file of uncompressed Arrow batches of the schema, into a new folder."""
    folder.mkdir()
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    for path in sorted(parquet.glob("*.parquet")):
        rows = pq.read_table(path).cast(arrow_schema)
        with pa.ipc.new_file(str(folder / f"{path.stem}.arrow"), arrow_schema) as writer:
            writer.write_table(rows, max_chunksize=_BATCH_ROWS)


def read_batches(spark: SparkSession, folder: Path, schema: StructType | str) -> DataFrame:
    """Returns a DataFrame of the prepared batches' columns that the schema names, one partition a file."""
    spark.dataSource.register(FloorSource)
    return spark.read.format(_NAME).schema(schema).option("folder", str(folder)).load()


def count_rows(frame: DataFrame) -> None:
    """Passes all rows to Python workers, which count them."""
    frame.sparkSession.dataSource.register(FloorSource)
    frame.write.format(_NAME).mode("append").save()


class FloorSource(DataSource):
    """Prepared batches to read, and a sink that only counts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = Path(options.get("folder", ""))

    @classmethod
    def name(cls) -> str:
        return _NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        return _MappedReader(self._folder, schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _CountingWriter()


@dataclass
class _File(InputPartition):
    path: Path


class _MappedReader(DataSourceReader):
    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._names = names

    def partitions(self) -> list[InputPartition]:
        return [_File(path) for path in sorted(self._folder.glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File), partition
        with pa.memory_map(str(partition.path)) as file:
            schema = pa.ipc.open_file(file).schema
            chosen = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in self._names])
            batches = pa.ipc.open_file(file, options=chosen)
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number).select(self._names)


@dataclass
class _Counted(WriterCommitMessage):
    row_count: int


class _CountingWriter(DataSourceArrowWriter):
    # PySpark declares rows for this method in one class and batches in another.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return _Counted(sum(batch.num_rows for batch in iterator))
