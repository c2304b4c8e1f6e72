"""Which PySpark rowlock works with, and what is said to one that is too old."""

from __future__ import annotations

from importlib import import_module

from rowlock.errors import RowlockError

OLDEST = (4, 2)


class PySparkTooOldError(RowlockError):
    """PySpark has no Python data sources of the kind that rowlock needs."""


def check_pyspark(version: str | None = None) -> None:
    """Raises PySparkTooOldError for PySpark older than OLDEST, and ImportError without one. version: as installed."""
    found = str(import_module("pyspark").__version__) if version is None else version
    numbers = tuple(int(word) for word in found.split(".")[:2] if word.isdigit())
    if numbers < OLDEST:
        raise PySparkTooOldError(
            f"rowlock works with PySpark {OLDEST[0]}.{OLDEST[1]} and later 4.x versions, and this is PySpark {found}; "
            "pip install 'rowlock[spark]' installs a fitting one, on a cluster it is the cluster's own"
        )
