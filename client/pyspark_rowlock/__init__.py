"""Where PySpark finds the format "rowlock" by itself."""

from rowlock.spark.source import RowlockSource as DefaultSource

__all__ = ["DefaultSource"]
