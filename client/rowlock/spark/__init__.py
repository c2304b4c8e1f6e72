"""Spark's side of rowlock: what a PySpark program calls beside `spark.read.format("rowlock")`.

Importing this needs no PySpark, so that it can be prepared for.
"""

from __future__ import annotations

from rowlock.spark.environment import prepare_environment

__all__ = ["prepare_environment"]
