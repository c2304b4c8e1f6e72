"""DataFrames whose Spark plans show the table and the server's filters.

For a Python source, Spark's plans print the columns and the name of the format, and that name is fixed before Spark
calls the source. So each such DataFrame gets its own format: rowlock's, registered under a name that contains the table
and the options that select rows.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rowlock.spark.configuration import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME_CHARACTERS_MAX = 200
# The options that select rows. No others: plans go into logs and histories.
_SHOWN = ("start", "stop", "prefix", "where", "filter", "rows")

# Spark warns about a name that is registered twice.
_registered: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def load(
    spark: SparkSession, table: str, *, schema: StructType | str | None = None, **options: str | float
) -> DataFrame:
    """Does `spark.read.format("rowlock").options(...).load(table)`, with plans that show the table and the conditions.

        late = rowlock.spark.load(spark, "flights", server="db:7460", mapping=mapping, filter="delay > 15")
        late.explain()              # BatchScan rowlock flights, filter delay > 15[id#0, delay#1] (Python)

    Spark's web UI shows the same. Raises the errors of configure() and of load().
    """
    check_session(spark)
    name = plan_name(table, options)
    _register(spark, name)
    reader = spark.read.format(name).options(**options)
    return (reader if schema is None else reader.schema(schema)).load(table)


def plan_name(table: str, options: Dict[str, str | float]) -> str:
    """Returns the name of the format in plans: one line of at most NAME_CHARACTERS_MAX characters."""
    given = {name.lower(): value for name, value in options.items()}
    conditions = [f"{name} {given[name]}" for name in _SHOWN if name in given]
    text = " ".join(", ".join([f"rowlock {table}", *conditions]).split())
    return text if len(text) <= NAME_CHARACTERS_MAX else text[: NAME_CHARACTERS_MAX - 1] + "…"


def _register(spark: SparkSession, name: str) -> None:
    from rowlock.spark.source import RowlockSource

    names = _registered.setdefault(spark, set())
    if name in names:
        return

    class NamedSource(RowlockSource):
        """rowlock's format under another name."""

        @classmethod
        def name(cls) -> str:
            return name

    spark.dataSource.register(NamedSource)
    names.add(name)
