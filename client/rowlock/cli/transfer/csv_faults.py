"""Finds the line, the column and the value at which a CSV file can't be parsed, by reading the file again.

Arrow reports what is wrong, but not where. So Python splits the file into records, and Arrow parses them in blocks,
then halves of the block that it rejects, then each column of one record: Arrow alone decides what is valid. The time
is proportional to the size of the file before the fault; memory holds a block of records.
"""

from __future__ import annotations

import contextlib
import csv
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeAlias

import pyarrow as pa
from rowlock_proto.shown_names import escaped

from rowlock._codec.escapes import typed
from rowlock.cli.quantities import count_text
from rowlock.cli.transfer.columns import FileColumn, FileColumns, TooLargeError, missing_value
from rowlock.cli.transfer.sources import COMPRESSION_ERRORS, Source
from rowlock.cli.value_forms import form_of

# How much Arrow parses at a time.
_BLOCK_BYTES = 1 << 20
_SHOWN_CHARACTERS = 100
# Texts that commonly mean null, in lower case and without blanks around them.
_LIKE_NULL = ("", "''", '""', "-", "n/a", "na", "nan", "none", "null", r"\n")
_LINE_END = re.compile(r"\r\n|\r|\n")
# Returns the error of parsing these bytes of a file, heading and records, as these columns; None if they are valid.
Parse: TypeAlias = Callable[[bytes, FileColumns], Exception | None]


@dataclass(frozen=True, slots=True)
class _Record:
    """A line, or several if a quoted field has line ends. Each character of `fields` is a byte."""

    line: int
    raw: bytes
    fields: Sequence[str]


class NoValueError(ValueError):
    """A row has a null in a column that requires values."""


class _TooLongError(Exception):
    """The record that begins in `line` is longer than Arrow accepts."""

    def __init__(self, line: int) -> None:
        self.line = line


def first_fault(
    source: Source,
    columns: FileColumns,
    separator: str,
    nulls: Sequence[str],
    parse_error: Parse,
    record_bytes_max: int,
) -> str | None:
    """Returns the place and the fault of the first invalid record; None if each record is valid by itself.

    Lines count from 1, as in editors. A record of more than `record_bytes_max` is a fault.
    """
    with _long_fields(), source.open_text("latin-1") as file:
        records = _records(file, separator, record_bytes_max)
        try:
            heading = next(records, None)
            if heading is None:
                return None
            for block in _blocks(records):
                record = _first_invalid(block, lambda part: parse_error(heading.raw + _raw(part), columns) is not None)
                if record is not None:
                    if _is_open(record, separator):
                        return f"line {record.line}: a quote is not closed, so the row extends to the end of the file"
                    return _description(heading, record, columns, nulls, parse_error)
        except _TooLongError as error:
            return (
                f"the row that begins in line {error.line} is longer than {record_bytes_max >> 20} MiB; "
                "is a closing quote missing?"
            )
        except (csv.Error, *COMPRESSION_ERRORS):
            # Of a compressed file that is damaged the error of the parser says more.
            return None
    return None


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _records(file: TextIO, separator: str, bytes_max: int) -> Iterator[_Record]:
    """Yields the file's records without empty lines, which Arrow skips too."""
    raw: list[str] = []
    ended = 0

    def lines() -> Iterator[str]:
        size = 0
        while line := file.readline(bytes_max + 1):
            size = size + len(line) if raw else len(line)
            if size > bytes_max:
                raise _TooLongError(ended + 1)
            raw.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=separator)
    for fields in reader:
        if fields:
            yield _Record(ended + 1, "".join(raw).encode("latin-1"), fields)
        ended = reader.line_num
        raw.clear()


def _is_open(record: _Record, separator: str) -> bool:
    """Returns whether the file ends within a quoted field of the record: whether that takes in a further line."""
    further = "further line"
    *_, last = csv.reader([record.raw.decode("latin-1"), "\n", further], delimiter=separator)
    return last != [further]


def _blocks(records: Iterator[_Record]) -> Iterator[list[_Record]]:
    block: list[_Record] = []
    size = 0
    try:
        for record in records:
            block.append(record)
            size += len(record.raw)
            if size >= _BLOCK_BYTES:
                yield block
                block, size = [], 0
    except _TooLongError:
        # The records before it may be invalid as well.
        yield block
        raise
    yield block


def _raw(records: Sequence[_Record]) -> bytes:
    return b"".join(record.raw for record in records)


def _first_invalid(block: Sequence[_Record], is_invalid: Callable[[Sequence[_Record]], bool]) -> _Record | None:
    if not block or not is_invalid(block):
        return None
    start, stop = 0, len(block)
    while stop - start > 1:
        middle = (start + stop) // 2
        if is_invalid(block[start:middle]):
            stop = middle
        else:
            start = middle
    return block[start] if is_invalid(block[start:stop]) else None


def _description(
    heading: _Record,
    record: _Record,
    columns: FileColumns,
    nulls: Sequence[str],
    parse_error: Parse,
) -> str | None:
    names = [_bytes(name).decode("utf-8-sig", "replace") for name in heading.fields]
    if len(record.fields) != len(names):
        last = record.line + len(_LINE_END.findall(record.raw.decode("latin-1").rstrip("\r\n")))
        extent = f", and extends to line {last}: is a closing quote missing?" if last > record.line else ""
        found = count_text(len(record.fields), "field")
        return f"line {record.line} has {found}, but the heading has {len(names)}{extent}"
    for column in columns.columns:
        error = parse_error(heading.raw + record.raw, columns.only([column]))
        if error is not None:
            place = names.index(column.name)
            line = record.line + sum(len(_LINE_END.findall(field)) for field in record.fields[:place])
            problem = _problem(column, _bytes(record.fields[place]), nulls, error)
            return f"line {line}, column {typed(column.name)}: {problem}"
    return None


def _bytes(field: str) -> bytes:
    return field.encode("latin-1")


def _problem(column: FileColumn, value: bytes, nulls: Sequence[str], error: Exception) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"'{escaped(value)[:_SHOWN_CHARACTERS]}' is not UTF-8; convert the file first, for example with iconv"
    shown = typed(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
    if isinstance(error, NoValueError):
        return missing_value(column, shown)
    if pa.types.is_binary(column.arrow):
        return str(error)
    kind = column.type_text
    if isinstance(error, TooLargeError):
        return f"{shown} is too large for a {kind}"
    if not text or text in nulls:
        return f"{shown} is quoted, so it is a value and not a null, and it is not a valid {kind}"
    hint = f"; if it means null, give --null {shlex.quote(text)}" if text.strip().lower() in _LIKE_NULL else ""
    return f"{shown} is not a valid {kind}; write {form_of(column.type)}{hint}"
