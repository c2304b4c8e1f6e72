r"""Reads and writes CSV as Arrow batches.

The first line names the columns; null is an unquoted empty field, an empty value a quoted one; BINARY columns are
written with \xNN escapes, because CSV is text.

Arrow parses a file block by block, and gives one batch for each. A row must lie within two consecutive blocks, and
about thirty blocks are in memory. So blocks are small at first. When a row does not fit, the file is parsed again from
its beginning, with larger blocks, and the rows that were yielded already are dropped.

Arrow closes an open quote silently at the end of a file. So it reads one more line there, which has a field too many.
If it does not report that line as invalid, the line is within quotes, and so is the end of the file.
"""

from __future__ import annotations

import contextlib
import csv
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from rowlock_proto.shown_names import escaped

from rowlock._codec.arrow_buffers import Array, names_array
from rowlock._codec.encodings import timestamps_of_text
from rowlock.cli.arguments import ArgumentError, bytes_of
from rowlock.cli.transfer.batches import Content, Read
from rowlock.cli.transfer.columns import FileColumns, TooLargeError, columns_among
from rowlock.cli.transfer.csv_faults import NoValueError, first_fault
from rowlock.cli.transfer.formats import SEPARATORS
from rowlock.cli.transfer.sources import COMPRESSION_ERRORS, Source
from rowlock.errors import MappingError

_SEPARATOR_NAMES = {",": "a comma", ";": "a semicolon", "|": "a bar", "\t": "a tab"}
# Arrow accepts no row that is longer than two blocks.
_BLOCK_BYTES_MIN = 1 << 20
_BLOCK_BYTES_MAX = 48 << 20
# How Arrow's error begins for a row that does not lie within two blocks.
_STRADDLES = "straddling object"
# Python's csv module accepts no longer field.
_HEADING_CHARACTERS_MAX = 128 << 10
# OSError: Arrow's for a compressed file that is damaged.
_PARSE_ERRORS = (pa.ArrowException, OSError, ArgumentError, MappingError, NoValueError)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How CSV is read. nulls: texts that mean null besides an empty field. separator: of fields."""

    nulls: Sequence[str]
    separator: str


class _LastLine:
    """The line that is added at the end of a file with this number of columns. For one parse."""

    def __init__(self, column_count: int, separator: str) -> None:
        self._text = secrets.token_hex(8) + column_count * separator
        self._is_added = False
        self.is_reported = False  # as a row with a wrong number of fields

    def added(self, data: pa.Buffer) -> pa.Buffer:
        """Returns the data; at the file's end, where it is empty, the line, but only once. For Arrow's threads."""
        if data.size or self._is_added:
            return data
        self._is_added = True
        return pa.py_buffer(f"\n{self._text}\n".encode())

    def judge(self, row: pa_csv.InvalidRow) -> Literal["skip", "error"]:
        """Returns what Arrow is to do with a row whose number of fields is wrong. For Arrow's threads."""
        if row.text != self._text:
            return "error"
        self.is_reported = True
        return "skip"


@contextlib.contextmanager
def _without_reports_of_undecodable_rows() -> Iterator[None]:
    """Returns a context without lines on standard error about rows that are not UTF-8, for which `judge` is not called.

    pyarrow decodes a row for it, and takes an exception of that for "error", which is right.
    """
    usual = sys.unraisablehook

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        is_of_judge = isinstance(getattr(unraisable.object, "__self__", None), _LastLine)
        if not (is_of_judge and isinstance(unraisable.exc_value, UnicodeDecodeError)):
            usual(unraisable)

    sys.unraisablehook = report
    try:
        yield
    finally:
        if sys.unraisablehook is report:
            sys.unraisablehook = usual


def csv_content(source: Source, wanted: FileColumns, dialect: Dialect) -> Content:
    """Returns the rows of a file. Raises ArgumentError if it lacks a column.

    Reading raises ArgumentError with line and column for a value that can't be parsed.
    """
    heading, hint = _heading(source, wanted, dialect.separator)
    columns = columns_among(source.name, wanted, heading, hint)
    reads = _reads(source, columns, dialect, len(heading))
    # How much a compressed file has is not known before its end.
    return Content(reads, None, "rows") if source.is_compressed else Content(reads, source.byte_count, "bytes")


@contextlib.contextmanager
def csv_writer(file: IO[bytes], schema: pa.Schema, separator: str) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yields a function that writes a batch of the schema."""
    text_schema = pa.schema([_as_text(field) for field in schema])
    with pa_csv.CSVWriter(file, text_schema, write_options=pa_csv.WriteOptions(delimiter=separator)) as writer:
        yield lambda batch: writer.write_batch(_with_escapes(batch, text_schema))


def _reads(source: Source, columns: FileColumns, dialect: Dialect, column_count: int) -> Iterator[Read]:
    """Yields the batches, each with the position in bytes, or of a compressed file in rows."""

    def parse_error(data: bytes, columns: FileColumns) -> Exception | None:
        try:
            block_bytes = max(_BLOCK_BYTES_MIN, len(data))
            last_line = _LastLine(column_count, dialect.separator)
            for batch in _parsed(pa.BufferReader(data), columns, dialect, block_bytes, last_line):
                _converted(batch, columns)
        except MemoryError:
            raise
        except _PARSE_ERRORS as error:
            return error
        return None

    rows = reached = 0
    try:
        for batch, position in _in_growing_blocks(source, columns, dialect, column_count):
            rows += batch.num_rows
            reached = max(reached, min(position, source.byte_count))
            yield Read(_converted(batch, columns), rows if source.is_compressed else reached)
    except MemoryError:  # Arrow's, too: the file may be good.
        raise
    except _PARSE_ERRORS as error:
        found = first_fault(source, columns, dialect.separator, dialect.nulls, parse_error, 2 * _BLOCK_BYTES_MAX)
        raise ArgumentError(f"{source.name} can't be read as csv with this mapping: {found or error}") from error


def _in_growing_blocks(
    source: Source, columns: FileColumns, dialect: Dialect, column_count: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields every row once, in batches that are not converted, with the bytes of the blocks up to each batch's."""
    delivered = 0
    block_bytes = _BLOCK_BYTES_MIN
    while True:
        parsed = 0
        try:
            last_line = _LastLine(column_count, dialect.separator)
            with source.open_arrow() as file:
                batches = _parsed(file, columns, dialect, block_bytes, last_line)
                for number, batch in enumerate(batches, start=1):
                    # Rows are counted, because lines can't be: Arrow skips empty ones.
                    fresh = batch.slice(min(batch.num_rows, max(0, delivered - parsed)))
                    parsed += batch.num_rows
                    if fresh.num_rows:
                        delivered = parsed
                        yield fresh, number * block_bytes
            return
        except pa.ArrowInvalid as error:
            if not str(error).startswith(_STRADDLES) or block_bytes == _BLOCK_BYTES_MAX:
                raise
        block_bytes = min(_BLOCK_BYTES_MAX, 2 * block_bytes)


def _parsed(
    file: pa.NativeFile, columns: FileColumns, dialect: Dialect, block_bytes: int, last_line: _LastLine
) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file, one for each block; bytes and timestamps are text.

    Raises ArgumentError instead of the last one if the file ends within quotes.
    """
    text_schema = pa.schema([_as_read(field) for field in columns.schema])
    options = pa_csv.ConvertOptions(
        column_types=text_schema,
        include_columns=text_schema.names,
        null_values=["", *dialect.nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    read = pa_csv.ReadOptions(block_size=block_bytes)
    parse = pa_csv.ParseOptions(
        delimiter=dialect.separator, newlines_in_values=True, invalid_row_handler=last_line.judge
    )
    # Arrow's threads read and parse, and run only `added` and `judge` in Python. The stubs don't list its own files.
    with_last_line = pa.TransformInputStream(file, last_line.added)
    with (
        _without_reports_of_undecodable_rows(),
        pa_csv.open_csv(with_last_line, read_options=read, parse_options=parse, convert_options=options) as batches,  # type: ignore[arg-type]
    ):
        held: pa.RecordBatch | None = None
        for batch in batches:
            if held is not None:
                yield held
            held = batch
        if not last_line.is_reported:
            raise ArgumentError("a quote is not closed, so the last row extends to the end of the file")
        if held is not None:
            yield held


def _converted(batch: pa.RecordBatch, columns: FileColumns) -> pa.RecordBatch:
    """Returns the batch with the columns' types. Raises NoValueError for a null in a column that requires values."""
    for column in columns.columns:
        array = batch.column(column.name)
        if column.name in columns.required and array.null_count:
            raise NoValueError(f"column {column.name!r} is null in some row")
        if pa.types.is_decimal(column.arrow):
            # Arrow counts the digits of the text, without the zeros that the scale adds.
            array.validate(full=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([None if value is None else bytes_of(value) for value in column.to_pylist()], pa.binary())
            if pa.types.is_binary(field.type)
            else timestamps_of_text(column)
            if pa.types.is_timestamp(field.type)
            else _floats(column)
            if pa.types.is_float32(field.type)
            else column
            for column, field in zip(batch.columns, columns.schema, strict=True)
        ],
        schema=columns.schema,
    )


def _heading(source: Source, wanted: FileColumns, separator: str) -> tuple[list[str], str]:
    """Returns the names in the first line, and a hint if it seems to have another separator."""
    try:
        with source.open_text("utf-8-sig") as file:
            line = file.readline(_HEADING_CHARACTERS_MAX)
        with source.open_text("utf-8-sig") as file:
            heading = next(csv.reader(file, delimiter=separator), [])
    except csv.Error as error:
        raise ArgumentError(f"{source.name} has a first line that is not valid csv: {error}") from error
    except COMPRESSION_ERRORS as error:
        raise ArgumentError(f"{source.name} can't be read: {error}") from error
    if "\0" in line:
        raise ArgumentError(f"{source.name} is not UTF-8, and perhaps UTF-16; convert it first, for example with iconv")
    hint = ""
    for other, written in SEPARATORS.items():
        fields = next(csv.reader([line], delimiter=other), [])
        if len(fields) > len(heading) and wanted.required <= set(fields):
            hint = f". Its separator seems to be {_SEPARATOR_NAMES[other]}: give --separator {written}"
    return heading, hint


def _as_text(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of any type
    return field.with_type(pa.string()) if pa.types.is_binary(field.type) else field


def _as_read(field: pa.Field[Any]) -> pa.Field[Any]:  # Any: a field of any type
    """Returns the type to parse as. Timestamps are text too: Arrow would reject those without a zone.

    FLOAT is parsed as DOUBLE: as FLOAT, 1e300 would be infinite.
    """
    if pa.types.is_float32(field.type):
        return field.with_type(pa.float64())
    return field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else _as_text(field)


def _floats(doubles: Array) -> Array:
    """Returns numbers as FLOAT. Raises TooLargeError for one that only a DOUBLE can hold."""
    floats = doubles.cast(pa.float32())
    if pc.any(pc.not_equal(pc.is_inf(floats), pc.is_inf(doubles))).as_py():
        raise TooLargeError("a number", "FLOAT")
    return floats


def _with_escapes_of(column: Array) -> Array:
    texts = [None if value is None else escaped(value).encode() for value in column.to_pylist()]
    return names_array(texts).cast(pa.string())


def _with_escapes(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_with_escapes_of(column) if pa.types.is_binary(column.type) else column for column in batch.columns],
        schema=schema,
    )
