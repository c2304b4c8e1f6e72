"""Formats that are broken on purpose: the campaigns must detect them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from rowlock.spark.connections import client_of
from rowlock.spark.options import ReadOptions, read_options
from rowlock.spark.planning import ScanPartition
from rowlock.spark.reader import RowlockReader
from rowlock.spark.snapshots import new_snapshot_ref, open_snapshot
from rowlock.spark.source import RowlockSource
from rowlock.spark.writer import RowlockWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

TIMESTAMP_OF_EACH_TASK = "rowlock_timestamp_of_each_task"
MOMENT_OF_EACH_TASK = "rowlock_moment_of_each_task"
ANY_SNAPSHOT = "rowlock_any_snapshot"


class _TaskStampingWriter(RowlockWriter):
    """Stamps each attempt of a task separately, so that a retry is newer than the writes in between."""

    # As RowlockWriter has it.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        options = self._plan.options
        now_ms = client_of(options.server, options.timeout_s).server_info(options.table).now_ms
        self._plan = replace(self._plan, timestamp=now_ms)
        return super().write(iterator)


class _TaskStampingSource(RowlockSource):
    @classmethod
    def name(cls) -> str:
        return TIMESTAMP_OF_EACH_TASK

    def writer(self, schema: StructType, overwrite: bool) -> RowlockWriter:
        return _TaskStampingWriter(self.options, schema, overwrite)


class _TaskMomentReader(DataSourceReader):
    """Each task reads what the table holds when it begins."""

    def __init__(self, usual: RowlockReader, options: ReadOptions) -> None:
        self._usual = usual
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return self._usual.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ScanPartition), partition
        options = self._options
        client = client_of(options.server, options.timeout_s)
        own = new_snapshot_ref(client)
        open_snapshot(client, options.table, own, options.timeout_s)
        return self._usual.read(ScanPartition(partition.ranges, own.snapshot_id))


class _TaskMomentSource(RowlockSource):
    @classmethod
    def name(cls) -> str:
        return MOMENT_OF_EACH_TASK

    def reader(self, schema: StructType) -> DataSourceReader:
        usual = super().reader(schema)
        assert isinstance(usual, RowlockReader), usual
        options = read_options(self.options)
        return usual if options.is_of_named_snapshot else _TaskMomentReader(usual, options)


class _AnySnapshotSource(RowlockSource):
    """Reads the table as it is, whatever snapshot is to be read."""

    @classmethod
    def name(cls) -> str:
        return ANY_SNAPSHOT

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name != "snapshot"})


def register(spark: SparkSession) -> None:
    """Registers the broken formats with Spark."""
    spark.dataSource.register(_TaskStampingSource)
    spark.dataSource.register(_TaskMomentSource)
    spark.dataSource.register(_AnySnapshotSource)
