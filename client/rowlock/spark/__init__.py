"""Spark's side of rowlock: what a PySpark program calls beside `spark.read.format("rowlock")`.

Importing this needs no PySpark, so that it can be prepared for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.spark.configuration import configure
from rowlock.spark.environment import prepare_environment

if TYPE_CHECKING:
    from rowlock.spark.read_points import HeldSnapshot, snapshot

__all__ = ["HeldSnapshot", "configure", "prepare_environment", "snapshot"]


def __getattr__(name: str) -> object:
    """Imports what needs Arrow and gRPC at its first use."""
    if name in ("HeldSnapshot", "snapshot"):
        from rowlock.spark import read_points

        return getattr(read_points, name)
    raise AttributeError(f"module 'rowlock.spark' has no attribute {name!r}")
