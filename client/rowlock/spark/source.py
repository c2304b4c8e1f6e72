"""The format "rowlock": what Spark asks for a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from rowlock.spark.writer import RowlockWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class RowlockSource(DataSource):
    """One DataFrame's, or one job's."""

    @classmethod
    def name(cls) -> str:
        return "rowlock"

    def writer(self, schema: StructType, overwrite: bool) -> RowlockWriter:
        return RowlockWriter(self.options, schema, overwrite)
