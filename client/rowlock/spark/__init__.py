"""Spark's side of rowlock: what a PySpark program calls beside `spark.read.format("rowlock")`.

Importing this needs no PySpark, so that it can be prepared for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rowlock.spark.configuration import configure
from rowlock.spark.environment import prepare_environment

if TYPE_CHECKING:
    from rowlock.spark.checking import check
    from rowlock.spark.loading import load
    from rowlock.spark.read_points import HeldSnapshot, snapshot
    from rowlock.spark.report import Report

__all__ = ["HeldSnapshot", "Report", "check", "configure", "load", "prepare_environment", "snapshot"]

# What needs Arrow, gRPC or PySpark is imported at its first use, from these modules.
_LATER = {
    "HeldSnapshot": "read_points",
    "Report": "report",
    "check": "checking",
    "load": "loading",
    "snapshot": "read_points",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"rowlock.spark.{_LATER[name]}"), name)
    raise AttributeError(f"module 'rowlock.spark' has no attribute {name!r}")
