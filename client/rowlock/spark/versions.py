"""Checks the version of PySpark."""

from __future__ import annotations

from importlib import import_module

from rowlock.errors import RowlockError

OLDEST = (4, 2)


class PySparkTooOldError(RowlockError):
    """PySpark lacks the Python data source API that rowlock needs."""


def check_pyspark(version: str | None = None) -> None:
    """Raises PySparkTooOldError for a PySpark older than OLDEST, and ImportError without one.

    version: by default the installed one.
    """
    found = str(import_module("pyspark").__version__) if version is None else version
    numbers = tuple(int(word) for word in found.split(".")[:2] if word.isdigit())
    if numbers < OLDEST:
        raise PySparkTooOldError(
            f"rowlock needs PySpark {OLDEST[0]}.{OLDEST[1]} or a later 4.x version, and this is PySpark {found}; "
            "pip install 'rowlock[spark]' installs a supported one; on a cluster, upgrade the cluster's"
        )
