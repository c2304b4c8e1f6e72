"""Sinks that are broken on purpose: the campaigns must find them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rowlock.spark.connections import client_of
from rowlock.spark.source import RowlockSource
from rowlock.spark.writer import RowlockWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

TIMESTAMP_OF_EACH_TASK = "rowlock_timestamp_of_each_task"


class _TaskStampingWriter(RowlockWriter):
    """Each attempt of a task takes a timestamp of its own, so a repeated one is newer than what came between."""

    # As RowlockWriter has it.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        options = self._plan.options
        now_ms = client_of(options.server, options.timeout_s).server_info().now_ms
        self._plan = replace(self._plan, timestamp=now_ms)
        return super().write(iterator)


class _TaskStampingSource(RowlockSource):
    @classmethod
    def name(cls) -> str:
        return TIMESTAMP_OF_EACH_TASK

    def writer(self, schema: StructType, overwrite: bool) -> RowlockWriter:
        return _TaskStampingWriter(self.options, schema, overwrite)


def register(spark: SparkSession) -> None:
    """Makes them known to Spark by their names."""
    spark.dataSource.register(_TaskStampingSource)
