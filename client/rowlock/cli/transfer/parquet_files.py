"""Reads and writes Parquet files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer.batches import Content, Read
from rowlock.cli.transfer.columns import CELL_COLUMNS, FileColumns, columns_among, missing_value
from rowlock.cli.transfer.sources import Source

# Rows of a file that are in memory at a time.
_BATCH_ROWS = 50_000


@contextlib.contextmanager
def parquet_content(source: Source, wanted: FileColumns) -> Iterator[Content]:
    """Yields the rows of a file, by the columns' names, with the types of the file.

    Raises ArgumentError if it lacks a column; ArrowException if it is damaged, now or when it is read.
    """
    with pa_parquet.ParquetFile(source.path) as parquet:
        columns = columns_among(source.name, wanted, parquet.schema_arrow.names)
        reads = _reads(parquet, columns, source.name, checks_nulls=wanted is CELL_COLUMNS)
        yield Content(reads, parquet.metadata.num_rows, "rows")


@contextlib.contextmanager
def parquet_writer(file: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yields a function that writes a batch of the schema."""
    with pa_parquet.ParquetWriter(file, schema, compression="zstd") as parquet:
        yield parquet.write_batch


def _reads(parquet: pa_parquet.ParquetFile, columns: FileColumns, name: str, *, checks_nulls: bool) -> Iterator[Read]:
    """checks_nulls: cells must be checked here, because put_arrow takes a null value for a deletion."""
    rows = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns.names):
        for column in columns.columns if checks_nulls else ():
            array = batch.column(column.name)
            if column.name in columns.required and array.null_count:
                number = rows + array.is_null().index(True).as_py()
                raise ArgumentError(f"{name}: row {number}, column {column.name!r}: {missing_value(column, 'it')}")
        rows += batch.num_rows
        yield Read(batch.select(columns.names), rows)
