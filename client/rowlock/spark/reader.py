"""Reads a DataFrame: plans on the driver, reads Arrow batches in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from rowlock._codec.arrow_buffers import int64_array
from rowlock._codec.row_form import FormColumn
from rowlock.client import Client
from rowlock.errors import MappingError, RowlockError
from rowlock.spark.connections import client_of, patience_s
from rowlock.spark.decoding import rows_of_cells, rows_of_form
from rowlock.spark.explanations import explained
from rowlock.spark.frame import Frame, Source
from rowlock.spark.latest import query_of_task, snapshot_of_query
from rowlock.spark.options import ReadOptions
from rowlock.spark.planning import ScanPartition, split_ranges
from rowlock.spark.pushdown import Rows
from rowlock.spark.snapshots import SnapshotRef, open_snapshot
from rowlock.spark.worker_process import exclude_modules, keep_freed_memory
from rowlock.table import Table


@dataclass(frozen=True, slots=True)
class Reading:
    """The plan of a read. With snapshot=latest each query derives its own snapshot from this one, see latest.py."""

    options: ReadOptions
    frame: Frame
    rows: Rows
    snapshot: SnapshotRef

    @property
    def columns(self) -> list[bytes] | None:
        """The columns of the scans, which determine the rows; None reads every row."""
        return self.frame.cell_columns if self.options.is_mapped_only else None

    @property
    def patience_s(self) -> float:
        """How long to wait for an unreachable server, on the driver or in this task."""
        return patience_s(self.options.timeout_s)

    @property
    def client(self) -> Client:
        return client_of(self.options.server, self.patience_s)

    @property
    def table(self) -> Table[bytes]:
        return self.client.table(self.options.table)

    def open_snapshot(self, ref: SnapshotRef) -> None:
        """Creates or renews the snapshot on the server. Raises the errors of snapshots.open_snapshot."""
        open_snapshot(self.client, self.options.table, ref, self.patience_s)

    def explained(self, error: RowlockError) -> RowlockError:
        return explained(error, self.options.server, self.options.table, self.patience_s, self.options.snapshot_mode)


class RowlockReader(DataSourceReader):
    """Reads a table. Pickled to the tasks, so it holds no connection.

    PySpark uses one reader for every query of a DataFrame, so it has no pushFilters and no state of a query.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        """Splits the table, and opens the snapshot unless each query has its own. Runs on the driver.

        Spark reuses the partitions for later queries of the DataFrame: the ranges are only split points.
        """
        options = self._reading.options
        try:
            if not options.is_latest and not options.is_of_named_snapshot:
                self._reading.open_snapshot(self._reading.snapshot)
            parts = split_ranges(
                self._reading.table, self._reading.rows.ranges, self._reading.columns, options.part_bytes
            )
        except RowlockError as error:
            raise self._reading.explained(error) from None
        exclude_modules()
        return [ScanPartition(ranges, self._reading.snapshot.snapshot_id) for ranges in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields Arrow batches of the DataFrame's schema, in a task. Closing it early closes the scan on the server."""
        assert isinstance(partition, ScanPartition), partition
        if partition.ranges:
            keep_freed_memory()
            try:
                yield from self._batches(partition, with_keys=False)
            except MappingError as error:
                raise self._with_row(error, partition) from None
            except RowlockError as error:
                raise self._reading.explained(error) from None
            finally:
                exclude_modules()

    def _with_row(self, error: MappingError, partition: ScanPartition) -> RowlockError:
        """Returns the error of a value with the name of its row, for which the rows' keys are read again if needed."""
        if error.row is None:
            try:
                for _ in self._batches(partition, with_keys=True):
                    pass
            except MappingError as with_row:
                error = with_row
        return self._reading.explained(error)

    def _batches(self, partition: ScanPartition, *, with_keys: bool) -> Iterator[pa.RecordBatch]:
        """Yields the batches. `with_keys`: reads the rows' keys also if no column needs them."""
        options, frame = self._reading.options, self._reading.frame
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        with self._reading.table.scan(
            ranges=partition.ranges,
            columns=self._reading.columns,
            where=self._reading.rows.where,
            batch_bytes=options.batch_bytes,
            snapshot=self._snapshot_id(partition),
            busy_timeout=options.busy_timeout_s,
        ) as scan:
            if frame.has_cells:
                for cells in scan.to_batches():
                    yield rows_of_cells(cells, frame, schema)
            elif frame.is_count:
                count = sum(batch.num_rows for batch in scan.form_batches([], with_keys=False))
                yield pa.RecordBatch.from_arrays([int64_array(np.array([count]))], schema=schema)
            else:
                for batch in scan.form_batches(form_columns(frame), with_keys=with_keys or frame.has_keys):
                    yield rows_of_form(batch, frame, schema, options.malformed_is_null)

    def _snapshot_id(self, partition: ScanPartition) -> bytes | None:
        """Returns the id of the snapshot to read, that of this task's query if each has its own; it is opened then."""
        if self._reading.options.is_of_named_snapshot:
            return None
        if not self._reading.options.is_latest:
            return partition.snapshot_id
        ref = snapshot_of_query(self._reading.client, self._reading.snapshot, query_of_task())
        self._reading.open_snapshot(ref)
        return ref.snapshot_id


def form_columns(frame: Frame) -> list[FormColumn]:
    """Returns the columns of a scan in row form besides the key, in the frame's order."""
    return [
        FormColumn(column.mapped.family, column.mapped.qualifier, column.source is Source.TIMESTAMP)
        for column in frame.columns
        if column.mapped is not None and column.source in (Source.VALUE, Source.TIMESTAMP)
    ]
