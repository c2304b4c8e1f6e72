"""The Spark connector: functions that a PySpark program calls besides `spark.read.format("rowlock")`.

Importing this package does not import PySpark, so that prepare_environment() can run before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rowlock.spark.configuration import configure
from rowlock.spark.environment import prepare_environment

if TYPE_CHECKING:
    from rowlock.spark.checking import check
    from rowlock.spark.counting import count
    from rowlock.spark.loading import load
    from rowlock.spark.report import Place, Report
    from rowlock.spark.snapshots import HeldSnapshot, snapshot

__all__ = ["HeldSnapshot", "Place", "Report", "check", "configure", "count", "load", "prepare_environment", "snapshot"]

# These names need Arrow, gRPC or PySpark; they are imported from these modules on first use.
_LAZY_MODULES = {
    "HeldSnapshot": "snapshots",
    "Place": "report",
    "Report": "report",
    "check": "checking",
    "count": "counting",
    "load": "loading",
    "snapshot": "snapshots",
}


def __getattr__(name: str) -> object:
    if name in _LAZY_MODULES:
        return getattr(import_module(f"rowlock.spark.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'rowlock.spark' has no attribute {name!r}")
