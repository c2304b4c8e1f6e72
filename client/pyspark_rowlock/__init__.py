"""Registers `format("rowlock")`: PySpark imports every top-level module whose name starts with pyspark_.

An error here would break the lookup of every data source, so this module imports nothing that may be missing. It
imports rowlock's own modules at the first use of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
else:
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:
        # No PySpark, or a version without Python data sources: then nothing imports this module to find one.
        DataSource = object

if TYPE_CHECKING or DataSource is not object:

    class DefaultSource(DataSource):
        """The format "rowlock". Its constructor returns a rowlock.spark.source.RowlockSource.

        Raises an error that names the required version if PySpark is too old.
        """

        @classmethod
        def name(cls) -> str:
            return "rowlock"

        # Any: pickle calls it without arguments.
        def __new__(cls, *arguments: Any, **options: Any) -> DefaultSource:
            if cls is not DefaultSource:
                return super().__new__(cls)
            from rowlock.spark.versions import check_pyspark

            check_pyspark()
            from rowlock.spark.source import RowlockSource

            return super().__new__(RowlockSource)
