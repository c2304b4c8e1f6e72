"""Checks that only a task of a write job can make, from its Spark properties, before it writes anything.

Catalog tables. saveAsTable, writeTo(...).create() and CREATE TABLE ... AS SELECT make an entry in Spark's catalog, and
write as append does in every mode: Spark passes neither the mode nor the entry's name to Python. The entry can't be
read afterwards, because Spark keeps no options for it. Such a write is a nested query; so is a write of a streaming
query, which has a property of its own. When the first task fails, Spark removes the entry.

Letter case. Only tasks know whether the session compares names case-sensitively.
"""

from __future__ import annotations

from pyspark import TaskContext

from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.spark.row_forms import RowForm

_QUERY, _OUTERMOST_QUERY = "spark.sql.execution.id", "spark.sql.execution.root.id"
_STREAMING_QUERY = "sql.streaming.queryId"
_CASE_SENSITIVE = "spark.sql.caseSensitive"


def check_job(context: TaskContext, form: RowForm) -> None:
    """Raises InvalidArgumentError for a job that makes a catalog table, MappingError for names that differ in case."""
    query, outermost = context.getLocalProperty(_QUERY), context.getLocalProperty(_OUTERMOST_QUERY)
    if query != outermost and context.getLocalProperty(_STREAMING_QUERY) is None:
        raise InvalidArgumentError(
            "rowlock can't create tables in Spark's catalog, as saveAsTable, writeTo(...).create() and CREATE TABLE "
            "... AS SELECT do: Spark keeps no options for them, so they can't be read, and does not pass the mode. "
            "Write with .mode('append').save() and the option create, or INSERT INTO a temporary view. Nothing was "
            "written"
        )
    if form.names_that_differ and (context.getLocalProperty(_CASE_SENSITIVE) or "").lower() == "true":
        raise MappingError(
            f"the DataFrame's columns {', '.join(form.names_that_differ)} differ from the mapping in letter case, and "
            f"{_CASE_SENSITIVE} is true; rename them. Nothing was written"
        )
