"""The sink: writes a DataFrame into a table for `df.write.format("rowlock").mode("append")`, or replaces its rows.

1. The driver makes a WritePlan (write_plan.py). Spark pickles it, inside the writer, for every task.
2. Each task writes its rows in logged bulk batches (write_task.py), which are durable when it returns.
3. To append there is no commit step: readers see a job's rows batch by batch, and a failed job is not rolled back.
   Running it again writes the same rows with newer timestamps.
4. In mode overwrite the tasks stage their batches, and the commit replaces all rows of the table (overwrite.py).

Spark may retry tasks and run a task twice at a time. All attempts write with the plan's timestamps, so each row ends up
as if it was written once. Of rows with the same key the last one in a task's input wins, even if a retry dies half-way.
A retry may get its input in another order, and tasks have no order among them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rowlock.errors import MappingError, RowlockError, UnknownOutcomeError
from rowlock.spark.connections import client_of
from rowlock.spark.overwrite import abort_job, commit_job
from rowlock.spark.worker_process import exclude_modules
from rowlock.spark.write_checks import check_job
from rowlock.spark.write_options import write_options
from rowlock.spark.write_plan import write_plan
from rowlock.spark.write_task import WriteFailedError, Written, write_task

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("rowlock.spark")


@dataclass
class PartWritten(WriterCommitMessage):
    """The result of one task, sent to the driver."""

    part: int
    written: Written


class RowlockWriter(DataSourceArrowWriter):
    """Created on the driver, pickled to the tasks. Raises RowlockError for errors that are known before the job."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._plan = write_plan(write_options(options), _arrow_schema(schema), overwrites=overwrite)
        exclude_modules()

    # PySpark declares rows for this method in one class and batches in another.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Writes the rows of a task. Raises WriteFailedError, and the errors of check_job before it writes anything."""
        context = TaskContext.get()
        part = 0
        if context is not None:
            check_job(context, self._plan.form)
            part = context.partitionId()
        try:
            return PartWritten(part, write_task(self._plan, iterator, f"partition {part}"))
        finally:
            exclude_modules()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Makes the staged rows replace all others, if the job overwrites; logs the result. On the driver.

        All rows are durable by then. Raises WriteFailedError if they can't replace the others.
        """
        written = [message.written for message in messages if isinstance(message, PartWritten)]
        try:
            self._replace_rows(written)
        finally:
            exclude_modules()
        _log.info(
            "%s %d rows, %d cells to table %r, from timestamp %d on",
            "wrote" if self._plan.job is None else "replaced all rows: wrote",
            sum(part.row_count for part in written),
            sum(part.cell_count for part in written),
            self._plan.options.table,
            self._plan.timestamp,
        )

    def _replace_rows(self, written: Sequence[Written]) -> None:
        options, job = self._plan.options, self._plan.job
        if job is None:
            return
        try:
            staged = {number for part in written for number in part.staged_batches}
            commit_job(client_of(options.server, options.timeout_s), job, options.timeout_s, staged)
        except UnknownOutcomeError as error:
            raise WriteFailedError(
                f"whether the rows of table {options.table!r} were replaced is unknown: {error}", table=options.table
            ) from None
        except RowlockError as error:
            raise WriteFailedError(
                f"the rows of table {options.table!r} were not replaced, the table stays as it was: {error}",
                table=options.table,
            ) from None

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Logs the failure of the job, on the driver. A partition without a message may have written rows too.

        If the job overwrites, ends its bulk write; the table stays as it was.
        """
        options, job = self._plan.options, self._plan.job
        if job is not None:
            try:
                abort_job(client_of(options.server, options.timeout_s), job, options.timeout_s)
            finally:
                exclude_modules()
            _log.warning("the job failed, so the rows of table %r were not replaced", options.table)
            return
        finished = sum(isinstance(message, PartWritten) for message in messages)
        _log.warning(
            "the job failed after it wrote %d of its %d partitions completely to table %r; the rows that it wrote, "
            "also of other partitions, stay, from timestamp %d on. Running the job again writes the same rows with "
            "newer timestamps",
            finished,
            len(messages),
            self._plan.options.table,
            self._plan.timestamp,
        )


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the schema of the tasks' batches. Raises MappingError for a column whose type Arrow does not have."""
    import pyarrow as pa

    fields: list[pa.Field[pa.DataType]] = []
    for field in schema:
        try:
            fields.extend(to_arrow_schema(StructType([field]), timezone="UTC"))
        except (PySparkException, ValueError):
            raise MappingError(
                f"the column {field.name!r} is {field.dataType.simpleString()} in the DataFrame, a type that no cell "
                "can hold: cast it, for example to string, or leave it out (drop)"
            ) from None
    return pa.schema(fields)
