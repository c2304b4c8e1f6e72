r"""Reads and writes CSV and Parquet files as Arrow batches of a mapping's columns.

In CSV the first line names the columns; null is an unquoted empty field, an empty value a quoted one; BINARY columns
are written with \xNN escapes, because CSV is text. Files are read and written batch by batch.
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
from rowlock._codec.encodings import timestamps_of_text
from rowlock._codec.escapes import escaped
from rowlock.cli.arguments import ArgumentError, bytes_of
from rowlock.cli.csv_faults import NoKeyError, first_fault
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, TimestampColumn

FileColumn = MappedColumn | TimestampColumn

SEPARATOR_DEFAULT = ","
# CSV field separators, and how to write each in a shell. None of them occurs in numbers and times.
SEPARATORS = {",": ",", ";": "';'", "|": "'|'", "\t": r"'\t'"}
_SEPARATOR_NAMES = {",": "a comma", ";": "a semicolon", "|": "a bar", "\t": "a tab"}
# Rows of a Parquet file that are in memory at a time.
_BATCH_ROWS = 50_000
# Block size for CSV. Arrow accepts no longer row. Memory use is several times that.
_CSV_BLOCK_BYTES_MIN = 1 << 20
_CSV_BLOCK_BYTES_MAX = 48 << 20
# Python's csv module accepts no longer field.
_HEADING_CHARACTERS_MAX = 128 << 10
_PARSE_ERRORS = (pa.ArrowException, ArgumentError, MappingError, NoKeyError)


class Batches:
    """Batches of a file with exactly the mapping's columns, and the progress of reading them."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], total: int, unit: str, position: Callable[[], int] | None = None
    ) -> None:
        self.total = total
        self.unit = unit
        self._batches = batches
        self._position = position
        self._reported = 0
        self._rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._rows += batch.num_rows
            yield batch

    def advanced(self) -> int:
        """Returns how much of `total` was read since the last call."""
        reached = self._rows if self._position is None else self._position()
        delta, self._reported = reached - self._reported, reached
        return delta


@contextlib.contextmanager
def reader(
    path: Path,
    kind: str,
    mapping: Mapping,
    nulls: Sequence[str],
    separator: str = SEPARATOR_DEFAULT,
    *,
    is_partial: bool = False,
) -> Iterator[Batches]:
    """Yields the file's batches. Raises ArgumentError if the file lacks a column or can't be parsed.

    For CSV: nulls are the texts that mean null besides an empty field; separator is the field separator. is_partial:
    the file may lack value columns. It may always lack the mapping's timestamp column.
    """
    if not path.is_file():
        raise ArgumentError(f"{path} is not a regular file" if path.exists() else f"there is no file {path}")
    try:
        if kind == "csv":
            heading, hint = _heading(path, mapping, separator)
            columns = _columns_of(path, mapping, heading, hint, is_partial=is_partial)
            with pa.OSFile(str(path), "rb") as file:
                found = _csv_batches(path, file, columns, nulls, separator)
                yield Batches(found, path.stat().st_size, "bytes", file.tell)
            return
        with pa_parquet.ParquetFile(path) as parquet:
            columns = _columns_of(path, mapping, parquet.schema_arrow.names, is_partial=is_partial)
            names = [column.name for column in columns]
            found = parquet.iter_batches(_BATCH_ROWS, columns=names)
            yield Batches(_in_order(found, names), parquet.metadata.num_rows, "rows")
    except pa.ArrowException as error:
        raise ArgumentError(f"{path} can't be read as {kind} with this mapping: {error}") from error


@contextlib.contextmanager
def writer(
    path: Path, kind: str, mapping: Mapping, separator: str = SEPARATOR_DEFAULT
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yields a function that writes a batch. The file is complete when the block ends without an error."""
    if kind == "parquet":
        with pa_parquet.ParquetWriter(path, mapping.schema, compression="zstd") as parquet:
            yield parquet.write_batch
        return
    schema = pa.schema([_as_text(field) for field in mapping.schema])
    with pa_csv.CSVWriter(str(path), schema, write_options=pa_csv.WriteOptions(delimiter=separator)) as file:
        yield lambda batch: file.write_batch(_with_escapes(batch, schema))


def _csv_batches(
    path: Path, file: pa.NativeFile, columns: Sequence[FileColumn], nulls: Sequence[str], separator: str
) -> Iterator[pa.RecordBatch]:
    """Yields the batches. Raises ArgumentError with line and column for a value that Arrow can't parse."""

    def parse_error(data: bytes, columns: Sequence[FileColumn]) -> Exception | None:
        try:
            for _ in _parsed(pa.BufferReader(data), columns, nulls, separator):
                pass
        except _PARSE_ERRORS as error:
            return error
        return None

    try:
        yield from _parsed(file, columns, nulls, separator)
    except _PARSE_ERRORS as error:
        found = first_fault(path, columns, separator, nulls, parse_error, 2 * _CSV_BLOCK_BYTES_MAX)
        raise ArgumentError(f"{path} can't be read as csv with this mapping: {found or error}") from error


def _parsed(
    file: pa.NativeFile, columns: Sequence[FileColumn], nulls: Sequence[str], separator: str
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([(column.name, column.arrow) for column in columns])
    text_schema = pa.schema([_as_read(field) for field in schema])
    options = pa_csv.ConvertOptions(
        column_types=text_schema,
        include_columns=text_schema.names,
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # Arrow requires that a row lies within two consecutive blocks.
    read = pa_csv.ReadOptions(block_size=max(_CSV_BLOCK_BYTES_MIN, min(_CSV_BLOCK_BYTES_MAX, file.size())))
    parse = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    # The stubs don't list pyarrow's own files; other threads would read a Python file, under the GIL.
    with pa_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=options) as batches:  # type: ignore[arg-type]
        for batch in batches:
            for column in columns:
                if isinstance(column, MappedColumn) and column.is_key and batch.column(column.name).null_count:
                    raise NoKeyError(f"column {column.name!r} is the key, and is null in some row")
                if pa.types.is_decimal(column.arrow):
                    # Arrow counts the digits of the text, without the zeros that the scale adds.
                    batch.column(column.name).validate(full=True)
            yield _from_text(batch, schema)


def _heading(path: Path, mapping: Mapping, separator: str) -> tuple[list[str], str]:
    """Returns the names in the first line of a CSV file, and a hint if it seems to have another separator."""
    names = {column.name for column in mapping.keys}
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        line = file.readline(_HEADING_CHARACTERS_MAX)
        file.seek(0)
        try:
            heading = next(csv.reader(file, delimiter=separator), [])
        except csv.Error as error:
            raise ArgumentError(f"{path} has a first line that is not valid csv: {error}") from error
    hint = ""
    for other, written in SEPARATORS.items():
        fields = next(csv.reader([line], delimiter=other), [])
        if len(fields) > len(heading) and names <= set(fields):
            hint = f". Its separator seems to be {_SEPARATOR_NAMES[other]}: give --separator {written}"
    return heading, hint


def _columns_of(
    path: Path, mapping: Mapping, present: Sequence[str], hint: str = "", *, is_partial: bool
) -> list[FileColumn]:
    """Returns the columns to read. Raises ArgumentError for one that is missing, or that the file has twice."""
    chosen: list[FileColumn] = list(mapping.columns)
    if is_partial:
        chosen = [column for column in mapping.columns if column.is_key or column.name in present]
    if mapping.timestamp is not None and mapping.timestamp.name in present:
        chosen.append(mapping.timestamp)
    names = [column.name for column in chosen]
    missing = [name for name in names if name not in present]
    if missing:
        raise ArgumentError(
            f"{path} has no column {missing[0]!r}, which the mapping names; "
            + (f"its columns are {', '.join(map(_printable, present))}{hint}" if present else "it has no columns")
        )
    twice = [name for name in names if present.count(name) > 1]
    if twice:
        raise ArgumentError(f"{path} has the column {twice[0]!r} twice, so the mapping is ambiguous")
    if len(chosen) == len(mapping.keys) and mapping.values:
        known = ", ".join(column.name for column in mapping.values)
        raise ArgumentError(f"{path} has no column of the mapping besides the key; those are {known}{hint}")
    return chosen


def _printable(name: str) -> str:
    """The name of a column for a message. A file that is not CSV may have control characters there."""
    return name if name.replace("\t", " ").isprintable() else repr(name)


def _in_order(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(list(names))


def _as_text(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of any type
    return field.with_type(pa.string()) if pa.types.is_binary(field.type) else field


def _as_read(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of any type
    """Returns the type to parse as. Timestamps are text too: Arrow would reject those without a zone."""
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
