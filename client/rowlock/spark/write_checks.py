"""What only a task of a writing job can tell, by the properties that Spark gives it; asked before anything is written.

A table of the catalog. saveAsTable, writeTo(...).create() and CREATE TABLE ... AS SELECT make an entry in Spark's
catalog, and write as append does, whatever the mode: neither the mode nor the entry's name comes to Python. The entry
can't be read afterwards, because Spark keeps no options for it. Such a write is a query inside of another one, as is
one of a streaming query, which is named. When its first task fails, Spark removes the entry.

Letters' case. Whether the session tells names apart by it is known to tasks alone.
"""

from __future__ import annotations

from pyspark import TaskContext

from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.spark.row_forms import RowForm

_QUERY, _OUTERMOST_QUERY = "spark.sql.execution.id", "spark.sql.execution.root.id"
_STREAMING_QUERY = "sql.streaming.queryId"
_CASE_SENSITIVE = "spark.sql.caseSensitive"


def check_job(context: TaskContext, form: RowForm) -> None:
    """Raises InvalidArgumentError for a job that makes a table of the catalog, MappingError for names that differ."""
    query, outermost = context.getLocalProperty(_QUERY), context.getLocalProperty(_OUTERMOST_QUERY)
    if query != outermost and context.getLocalProperty(_STREAMING_QUERY) is None:
        raise InvalidArgumentError(
            "rowlock makes no tables of Spark's catalog, as saveAsTable, writeTo(...).create() and CREATE TABLE ... AS "
            "SELECT do: Spark keeps no options for them, so that they can't be read, and does not hand over the mode. "
            "Write by .mode('append').save() with the option create, or INSERT INTO a temporary view. Nothing was "
            "written"
        )
    if form.names_that_differ and (context.getLocalProperty(_CASE_SENSITIVE) or "").lower() == "true":
        raise MappingError(
            f"the mapping has other letters for the DataFrame's {', '.join(form.names_that_differ)}, and "
            f"{_CASE_SENSITIVE} is true; rename them. Nothing was written"
        )
