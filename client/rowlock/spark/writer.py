"""The sink: a DataFrame written into a table by `df.write.format("rowlock").mode("append")`.

1. The driver makes a WritePlan (write_plan.py) and Spark pickles it, inside the writer, for every task.
2. Each task writes its part by logged bulk batches (write_task.py), durable when it answers.
3. There is no step after that: a job's rows are seen as they come, batch by batch, and nothing is taken back when it
   fails. Running it again writes the same rows with newer timestamps.

Tasks may be repeated and may run twice at a time; since all write with the plan's timestamps, each row comes out as if
it had been written once. Of rows with the same key the last of a task's input wins, also if an attempt that repeats it
dies half-way; a repeated task may be given its input in another order, and between tasks there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from rowlock.errors import InvalidArgumentError
from rowlock.spark.write_checks import check_job
from rowlock.spark.write_options import write_options
from rowlock.spark.write_plan import write_plan
from rowlock.spark.write_task import Written, write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger("rowlock.spark")


@dataclass
class PartWritten(WriterCommitMessage):
    """What one task tells the driver."""

    part: int
    written: Written


class RowlockWriter(DataSourceArrowWriter):
    """Made on the driver, pickled to the tasks. Raises RowlockError for whatever can be refused before the job."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgumentError(
                "rowlock can't overwrite: that would have to replace all rows of the table in one step, which it "
                "has no means for yet. Empty the table first (client.truncate_table, 'rowlock truncate TABLE'), then "
                "write with .mode('append'), or INSERT INTO"
            )
        self._plan = write_plan(write_options(options), to_arrow_schema(schema, timezone="UTC"))

    # PySpark's own class declares rows for this method in one place and batches in the other.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Runs in a task. Raises WriteFailedError, and what check_job does before anything is written."""
        context = TaskContext.get()
        part = 0
        if context is not None:
            check_job(context, self._plan.form)
            part = context.partitionId()
        return PartWritten(part, write_task(self._plan, iterator, f"partition {part}"))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Runs on the driver after all tasks; all is written and durable by then."""
        written = [message.written for message in messages if isinstance(message, PartWritten)]
        _log.info(
            "%d rows, %d cells were written into %r from timestamp %d on",
            sum(part.row_count for part in written),
            sum(part.cell_count for part in written),
            self._plan.options.table,
            self._plan.timestamp,
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Runs on the driver when the job has failed. A part without a message may have written rows all the same."""
        finished = sum(isinstance(message, PartWritten) for message in messages)
        _log.warning(
            "the job failed after %d of its %d parts were written whole into %r; what was written, of other parts too, "
            "stays, from timestamp %d on. Running the job again writes the same rows with newer timestamps",
            finished,
            len(messages),
            self._plan.options.table,
            self._plan.timestamp,
        )
