r"""CSV and Parquet files as batches of a mapping's columns, both ways.

In CSV the first line names the columns; null is an unquoted empty field, an empty value a quoted one; BINARY columns
are written with \xNN escapes, because CSV is text. A file is read and written batch by batch.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError, bytes_of
from rowlock.encodings import timestamps_of_text
from rowlock.escapes import escaped

# Rows of a Parquet file that are held at once.
_BATCH_ROWS = 50_000
# What of a CSV file is read at once: Arrow takes no row that is longer. Memory is several times that.
_CSV_BLOCK_BYTES_MIN = 1 << 20
_CSV_BLOCK_BYTES_MAX = 48 << 20


class Batches:
    """Batches of a file with exactly the mapping's columns, and how far reading them has come."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], total: int, unit: str, position: Callable[[], int] | None = None
    ) -> None:
        self.total = total
        self.unit = unit
        self._batches = batches
        self._position = position
        self._told = 0
        self._rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._rows += batch.num_rows
            yield batch

    def advanced(self) -> int:
        """How much of `total` was read since this was last asked."""
        reached = self._rows if self._position is None else self._position()
        delta, self._told = reached - self._told, reached
        return delta


@contextlib.contextmanager
def reader(path: Path, kind: str, mapping: Mapping, nulls: Sequence[str]) -> Iterator[Batches]:
    """The file's batches. Raises ArgumentError when it lacks a column or can't be read as what it should be."""
    if not path.is_file():
        raise ArgumentError(f"{path} is no regular file" if path.exists() else f"there is no file {path}")
    names = [column.name for column in mapping.columns]
    try:
        if kind == "csv":
            _check_heading(path, names)
            with pa.OSFile(str(path), "rb") as file:
                yield Batches(_csv_batches(file, mapping, nulls), path.stat().st_size, "bytes", file.tell)
            return
        with pa_parquet.ParquetFile(path) as parquet:
            _check_columns(path, names, parquet.schema_arrow.names)
            found = parquet.iter_batches(_BATCH_ROWS, columns=names)
            yield Batches(_in_order(found, names), parquet.metadata.num_rows, "rows")
    except pa.ArrowException as error:
        raise ArgumentError(f"{path} can't be read as {kind} with this mapping: {error}") from error


@contextlib.contextmanager
def writer(path: Path, kind: str, mapping: Mapping) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Gives what takes the batches; the file is whole when the block has ended without an error."""
    if kind == "parquet":
        with pa_parquet.ParquetWriter(path, mapping.schema, compression="zstd") as parquet:
            yield parquet.write_batch
        return
    schema = pa.schema([_as_text(field) for field in mapping.schema])
    with pa_csv.CSVWriter(str(path), schema) as file:
        yield lambda batch: file.write_batch(_with_escapes(batch, schema))


def _csv_batches(file: pa.NativeFile, mapping: Mapping, nulls: Sequence[str]) -> Iterator[pa.RecordBatch]:
    text_schema = pa.schema([_as_read(field) for field in mapping.schema])
    options = pa_csv.ConvertOptions(
        column_types=text_schema,
        include_columns=text_schema.names,
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # A row must lie within two blocks that follow one another.
    read = pa_csv.ReadOptions(block_size=max(_CSV_BLOCK_BYTES_MIN, min(_CSV_BLOCK_BYTES_MAX, file.size())))
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    # The stubs don't know that it takes pyarrow's own files; Python's would be read by other threads, under the GIL.
    with pa_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=options) as batches:  # type: ignore[arg-type]
        for batch in batches:
            yield _from_text(batch, mapping.schema)


def _check_heading(path: Path, names: Sequence[str]) -> None:
    """Raises ArgumentError when the first line of a CSV file does not name every column once."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        heading = next(csv.reader(file), [])
    _check_columns(path, names, heading)


def _check_columns(path: Path, names: Sequence[str], present: Sequence[str]) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise ArgumentError(
            f"{path} has no column {missing[0]!r}, which the mapping names; it has {', '.join(present) or 'none'}"
        )
    twice = [name for name in names if present.count(name) > 1]
    if twice:
        raise ArgumentError(f"{path} has the column {twice[0]!r} twice, so it is not known which the mapping names")


def _in_order(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(list(names))


def _as_text(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of whatever type
    return field.with_type(pa.string()) if pa.types.is_binary(field.type) else field


def _as_read(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of whatever type
    """Timestamps too are read as text: Arrow would take none without a zone."""
    return field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else _as_text(field)


def _with_escapes(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([None if value is None else escaped(value) for value in column.to_pylist()], pa.string())
            if pa.types.is_binary(column.type)
            else column
            for column in batch.columns
        ],
        schema=schema,
    )


def _from_text(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([None if value is None else bytes_of(value) for value in column.to_pylist()], pa.binary())
            if pa.types.is_binary(field.type)
            else timestamps_of_text(column)
            if pa.types.is_timestamp(field.type)
            else column
            for column, field in zip(batch.columns, schema, strict=True)
        ],
        schema=pa.schema([field.with_nullable(True) for field in schema]),
    )
