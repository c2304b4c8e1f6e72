r"""Reads and writes JSON lines: one object a line, {name: value}.

Numbers and booleans are JSON's; text is a string; BINARY is a string with \xNN escapes, as in CSV; decimals, dates and
times are strings, and so are NaN and infinities. Null is the same as no value. This is what `scan --json` prints of
typed rows.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock._codec.arrow_buffers import Array
from rowlock._codec.escapes import typed
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer.batches import Content, Read
from rowlock.cli.transfer.columns import FileColumn, FileColumns, TooLargeError, missing_value, other_column
from rowlock.cli.transfer.sources import COMPRESSION_ERRORS, Source
from rowlock.cli.typed_text import json_of, value_of
from rowlock.cli.value_forms import form_of

# Lines that are in memory at a time, in bytes.
_BLOCK_BYTES = 1 << 20
_LINE_BYTES_MAX = 96 << 20
_SHOWN_CHARACTERS = 100
_BOM = b"\xef\xbb\xbf"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# The types of Python that Arrow converts without loss, or refuses. Others are converted value by value.
_AS_THEY_ARE: dict[str, set[type]] = {
    "string": {str},
    "boolean": {bool},
    "float": {float},
    "double": {float},
    **{name: {int} for name in _INTEGERS},
}
# What Arrow raises for a value that does not fit its type.
_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the file, which count from 1, and its object."""

    number: int
    values: dict[str, Any]


def json_content(source: Source, wanted: FileColumns) -> Content:
    """Returns the rows of a file. Reading raises ArgumentError with line and column for what can't be parsed.

    An object need not have all columns, so a name that is not a column's is refused, unless wanted.ignores_others.
    """
    found = [*wanted.columns, *([] if wanted.optional is None else [wanted.optional])]
    reads = _reads(source, wanted.only(found))
    # How much a compressed file has is not known before its end.
    return Content(reads, None, "rows") if source.is_compressed else Content(reads, source.byte_count, "bytes")


@contextlib.contextmanager
def json_writer(file: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yields a function that writes a batch of the schema."""
    names = schema.names

    def write(batch: pa.RecordBatch) -> None:
        try:
            columns = [list(map(json_of, column.to_pylist())) for column in batch.columns]
        except (OverflowError, ValueError) as error:  # Python has the years 1 to 9999.
            raise ArgumentError(f"a date or time can't be written as JSON ({error}); export csv or parquet") from error
        lines = (
            json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
            for values in zip(*columns, strict=True)
        )
        file.write("".join(f"{line}\n" for line in lines).encode())

    yield write


def _reads(source: Source, columns: FileColumns) -> Iterator[Read]:
    rows = 0
    try:
        for lines, position in _blocks(source, columns):
            rows += len(lines)
            yield Read(_batch(lines, columns, source.name), rows if source.is_compressed else position)
    except COMPRESSION_ERRORS as error:
        raise ArgumentError(f"{source.name} can't be read: {error}") from error


def _blocks(source: Source, columns: FileColumns) -> Iterator[tuple[list[_Line], int]]:
    """Yields lines with objects, some at a time, with the position in bytes after them."""
    parse = _parser(columns)
    block: list[_Line] = []
    number = position = block_bytes = 0
    with source.open() as file:
        while line := file.readline(_LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > _LINE_BYTES_MAX:
                raise ArgumentError(f"{source.name}: line {number} is longer than {_LINE_BYTES_MAX >> 20} MiB")
            position += len(line)
            block_bytes += len(line)
            text = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
            if text:
                block.append(_Line(number, _object(text, parse, f"{source.name}: line {number}")))
            if block_bytes >= _BLOCK_BYTES and block:
                yield block, position
                block, block_bytes = [], 0
    if block:
        yield block, position


def _parser(columns: FileColumns) -> Callable[[str], object]:
    """Returns a parser of JSON. Decimals are exact, if a column has them."""
    is_exact = any(pa.types.is_decimal(column.arrow) for column in columns.columns)
    return json.JSONDecoder(parse_float=Decimal if is_exact else _float).decode


def _float(text: str) -> float | Decimal:
    """Returns a number of JSON; one that is too large for a float as it is, so that its column refuses it."""
    number = float(text)
    return Decimal(text) if math.isinf(number) else number


def _object(line: bytes, parse: Callable[[str], object], place: str) -> dict[str, Any]:
    try:
        found = parse(line.decode())
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{place}, byte {error.start + 1} is not UTF-8; convert the file first, for example with iconv"
        ) from error
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f'{place}, character {error.colno}: {error.msg}; each line must be a JSON object like {{"name": value}}'
        ) from error
    except RecursionError as error:
        raise ArgumentError(f"{place} is nested too deeply; each line must be an object of plain values") from error
    if not isinstance(found, dict):
        raise ArgumentError(f'{place} is not a JSON object; each line must be one, like {{"name": value}}')
    return found


def _batch(lines: Sequence[_Line], columns: FileColumns, name: str) -> pa.RecordBatch:
    if not columns.ignores_others:
        _check_names(lines, columns, name)
    try:
        arrays = [
            _array(column, [line.values.get(column.name) for line in lines], columns) for column in columns.columns
        ]
    except _CONVERSION_ERRORS as error:
        raise ArgumentError(f"{name}: {_fault(lines, columns) or error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=columns.schema)


def _check_names(lines: Sequence[_Line], columns: FileColumns, name: str) -> None:
    """Raises ArgumentError for a name that is not a column's."""
    known = frozenset(columns.names)
    for line in lines:
        if not known.issuperset(line.values):
            other = next(each for each in line.values if each not in known)
            raise ArgumentError(f"{name}: line {line.number} has {other_column(other, columns, line.values)}")


def _array(column: FileColumn, values: Sequence[Any], columns: FileColumns) -> Array:
    """Returns the values as a column. Raises one of _CONVERSION_ERRORS if one of them is invalid."""
    kinds = set(map(type, values))
    if type(None) in kinds and column.name in columns.required:
        raise ArgumentError(missing_value(column, "null"))
    kinds.discard(type(None))
    if not kinds <= _AS_THEY_ARE.get(column.type, set()):
        values = [None if value is None else _value(column, value) for value in values]
    array = pa.array(values, column.arrow)
    if column.type == "float" and pc.is_inf(array).to_pylist().count(True) != sum(map(_is_infinite, values)):
        raise TooLargeError("a number", "FLOAT")
    return array


def _value(column: FileColumn, value: object) -> object:
    """Returns a value of JSON as one that Arrow converts to the column's type. Raises ArgumentError."""
    if isinstance(value, str):
        return value if column.type == "string" else value_of(column, value)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if column.type in ("float", "double") and isinstance(value, int | float | Decimal) and is_number:
        number = float(value)
        if math.isinf(number) and isinstance(value, Decimal):
            raise TooLargeError(value, column.type_text)
        if isinstance(value, int) and number != value:
            raise ArgumentError(f"a DOUBLE can't hold {value} exactly")
        return number
    if column.type == "decimal" and is_number and not isinstance(value, float):
        return value
    if (column.type in _INTEGERS and type(value) is int) or (column.type == "boolean" and isinstance(value, bool)):
        return value
    raise ArgumentError(f"it is not a {column.type_text}")


def _is_infinite(value: object) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _fault(lines: Sequence[_Line], columns: FileColumns) -> str | None:
    """Returns the place and the fault of the first invalid value; None if each one is valid by itself."""
    for line in lines:
        for column in columns.columns:
            value = line.values.get(column.name)
            try:
                _array(column, [value], columns)
            except _CONVERSION_ERRORS as error:
                return f"line {line.number}, column {typed(column.name)}: {_problem(column, value, error)}"
    return None


def _problem(column: FileColumn, value: object, error: Exception) -> str:
    if value is None:
        return missing_value(column, "null")
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    if column.type == "binary" and isinstance(value, str):
        return str(error)
    if isinstance(error, TooLargeError):
        return f"{shown} is too large for a {column.type_text}"
    return (
        f"{shown} is not a valid {column.type_text}; write {_FORMS.get(column.type) or form_of(column.type)}, or null"
    )


_FORMS = {
    "string": "a JSON string",
    "binary": r"a JSON string with \\xNN for bytes",
    "decimal": 'a number that fits, as 1.50 or "1.50"',
    "date": 'a day, as "2013-01-31"',
    "timestamp": 'a time, as "2013-01-31T05:00:00Z"',
}
