"""Reading a DataFrame: planning on the driver, Arrow batches in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from rowlock._codec.row_form import FormColumn
from rowlock.client import Client
from rowlock.errors import RowlockError
from rowlock.spark.connections import client_of, patience_s
from rowlock.spark.decoding import rows_of_cells, rows_of_form
from rowlock.spark.explanations import explained
from rowlock.spark.frame import Frame, Source
from rowlock.spark.latest import point_of_query, query_of_task
from rowlock.spark.options import ReadOptions
from rowlock.spark.planning import ScanPartition, cut
from rowlock.spark.pushdown import Rows
from rowlock.spark.read_points import ReadPoint, opened
from rowlock.table import Table


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read. With snapshot=latest the point is where each query's own begins, see latest.py."""

    options: ReadOptions
    frame: Frame
    rows: Rows
    point: ReadPoint

    @property
    def columns(self) -> list[bytes] | None:
        """What a scan asks for, so that it answers the rows that are wanted; None: every row."""
        return self.frame.cell_columns if self.options.is_mapped_only else None

    @property
    def patience_s(self) -> float:
        """How long a server that is away is waited for, here or in this task."""
        return patience_s(self.options.timeout_s)

    @property
    def client(self) -> Client:
        return client_of(self.options.server, self.patience_s)

    @property
    def table(self) -> Table[bytes]:
        return self.client.table(self.options.table)

    def opened(self, point: ReadPoint) -> None:
        """Makes or renews the snapshot of the point on the server; raises as read_points.opened does."""
        opened(self.client, self.options.table, point, self.patience_s)

    def explained(self, error: RowlockError) -> RowlockError:
        return explained(error, self.options.server, self.options.table, self.patience_s, self.options.moment)


class RowlockReader(DataSourceReader):
    """It is pickled to the tasks, so it holds no connection.

    PySpark uses it for every query of a DataFrame, so it knows nothing of any of them: it has no pushFilters.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        """Cuts the table, and opens the read point unless each query has its own; on the driver.

        Spark keeps what it gives for later queries of the DataFrame: the ranges are only where to cut.
        """
        options = self._reading.options
        try:
            if not options.is_latest:
                self._reading.opened(self._reading.point)
            parts = cut(self._reading.table, self._reading.rows.ranges, self._reading.columns, options.part_bytes)
        except RowlockError as error:
            raise self._reading.explained(error) from None
        return [ScanPartition(ranges, self._reading.point.snapshot_id) for ranges in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the DataFrame's schema; in a task. What the server holds is freed when it is left early."""
        assert isinstance(partition, ScanPartition), partition
        if partition.ranges:
            try:
                yield from self._batches(partition)
            except RowlockError as error:
                raise self._reading.explained(error) from None

    def _batches(self, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        options, frame = self._reading.options, self._reading.frame
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        with self._reading.table.scan(
            ranges=partition.ranges,
            columns=self._reading.columns,
            where=self._reading.rows.where,
            batch_bytes=options.batch_bytes,
            snapshot=self._latest_id() if options.is_latest else partition.snapshot_id,
            busy_timeout=options.busy_timeout_s,
        ) as scan:
            if frame.has_cells:
                for cells in scan.to_batches():
                    yield rows_of_cells(cells, frame, schema)
            else:
                for batch in scan.form_batches(form_columns(frame)):
                    yield rows_of_form(batch, frame, schema, options.malformed_is_null)

    def _latest_id(self) -> bytes:
        """Of the moment of this task's query; its snapshot is there afterwards."""
        point = point_of_query(self._reading.client, self._reading.point, query_of_task())
        self._reading.opened(point)
        return point.snapshot_id


def form_columns(frame: Frame) -> list[FormColumn]:
    """What a scan in row form answers beside the key, in the frame's order."""
    return [
        FormColumn(column.mapped.family, column.mapped.qualifier, column.source is Source.TIMESTAMP)
        for column in frame.columns
        if column.mapped is not None and column.source in (Source.VALUE, Source.TIMESTAMP)
    ]
