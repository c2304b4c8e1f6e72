"""Where PySpark finds `format("rowlock")` by itself: it imports every top-level module whose name begins with pyspark_.

An error here would be met by whoever looks up any data source, so nothing is imported that may be missing: rowlock's
own modules come with the first use of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
else:
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:
        # No PySpark, or one without Python data sources: then nobody looks here for one.
        DataSource = object

if TYPE_CHECKING or DataSource is not object:

    class DefaultSource(DataSource):
        """The format "rowlock". Making one gives rowlock.spark.source.RowlockSource, or says which PySpark it needs."""

        @classmethod
        def name(cls) -> str:
            return "rowlock"

        # Any: pickle makes one without arguments.
        def __new__(cls, *given: Any, **named: Any) -> DefaultSource:
            if cls is not DefaultSource:
                return super().__new__(cls)
            from rowlock.spark.versions import check_pyspark

            check_pyspark()
            from rowlock.spark.source import RowlockSource

            return super().__new__(RowlockSource)
