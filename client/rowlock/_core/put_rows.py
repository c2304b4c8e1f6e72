"""Puts of a batch: rows that can be sent as columns, and the choice of those that are.

A row can be sent as columns if all that the batch does to it is puts with one timestamp, or none, and no call names a
column twice. A request for many rows is sent so when that is faster: `are_faster_as_columns` decides. Both ways give
the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import TIMESTAMP_MAX, Name, Value, encoded_value, parse_cell_key
from rowlock.changes import Change, Put

Column = tuple[bytes, bytes]

# With fewer rows or values, mutations are as fast: measured for rows of 1 and of 10 columns.
ROWS_MIN = 32
VALUES_MIN = 64
# A row of few columns among very many would be mostly nulls: at least one value in this many places.
PLACES_PER_VALUE_MAX = 4
# Bounds of one request, below the protocol's; the other rows follow in the next.
ROWS_MAX = 10_000
COLUMNS_MAX = 500
VALUES_MAX = 500_000
REQUEST_BYTES_MAX = 8 * 1024 * 1024
# A server's memory for each row of a large request, as bytes of the request: it counts 1,200, and 5 for a byte.
SERVER_ROW_BYTES = 240
# A row of more bytes gains nothing.
ROW_BYTES_MAX = 64 * 1024
# A cell's bytes in a mutation beside its names and its value, and a row's beside its key and its cells.
_CELL_BYTES = 11
_ROW_BYTES = 8
_BYTES = {bytes}
# Of a row whose names are remembered: a thousand longer ones would take much memory.
_NAMES_CACHED_MAX = 100


class _Shape(NamedTuple):
    """The columns of a row, each once, and about their bytes in a mutation without values."""

    columns: tuple[Column, ...]
    byte_count: int


class PutRow:
    """One row's puts: the values of distinct columns, with one timestamp. `sequence`, `age_ms`: as in RowMutation."""

    __slots__ = ("age_ms", "byte_count", "columns", "row", "sequence", "timestamp", "values")

    def __init__(self, row: bytes, shape: _Shape, values: tuple[bytes, ...], timestamp: int | None) -> None:
        self.row = row
        self.columns = shape.columns
        self.values = values
        self.timestamp = timestamp
        self.byte_count = _ROW_BYTES + len(row) + shape.byte_count + sum(map(len, values))
        self.sequence = 0
        self.age_ms = 0

    def then(self, later: PutRow) -> PutRow | None:
        """Returns this put of a row and a later one as one; None if their timestamps differ, or if both are too large.

        One change of a row has one timestamp for all puts without one, so the later value of a column hides the other.
        """
        if self.timestamp != later.timestamp or self.byte_count + later.byte_count > ROW_BYTES_MAX:
            return None  # A server that takes values of 64 KiB refuses none of the others, hidden or not.
        if self.columns is later.columns:
            return later
        if len(self.columns) + len(later.columns) > _NAMES_CACHED_MAX:
            return None  # Else a row of many puts would take time in proportion to their square.
        values = dict(zip(self.columns, self.values, strict=True))
        values.update(zip(later.columns, later.values, strict=True))
        columns = self.columns if len(values) == len(self.columns) else tuple(values)
        return PutRow(self.row, _shape_of(columns), tuple(values.values()), self.timestamp)

    def mutation(self) -> region_pb2.RowMutation:
        """Returns the row as a mutation."""
        mutation = region_pb2.RowMutation(row=self.row, sequence=self.sequence, age_ms=self.age_ms)
        add, timestamp = mutation.changes.add, self.timestamp
        for (family, qualifier), value in zip(self.columns, self.values, strict=True):
            put = add().put
            put.family, put.qualifier, put.value = family, qualifier, value
            if timestamp is not None:
                put.timestamp = timestamp
        return mutation


# What a batch does to one row.
Line = PutRow | region_pb2.RowMutation


def put_row(row: bytes, names: tuple[Name, ...], values: Iterable[Value], timestamp: int | None) -> PutRow | None:
    """Returns the puts of these columns, at least one; None if a column occurs twice. The timestamp was checked.

    Raises InvalidArgumentError for a malformed column, TypeError for a value that is neither bytes nor str.
    """
    shape = _shape(names) if len(names) <= _NAMES_CACHED_MAX else _shape.__wrapped__(names)
    if shape is None:
        return None
    encoded = tuple(values)
    if set(map(type, encoded)) != _BYTES:
        encoded = tuple([encoded_value(value) for value in encoded])
    return PutRow(row, shape, encoded, timestamp)  # type: ignore[arg-type]  # all are bytes


def put_row_of(row: bytes, changes: Sequence[Change]) -> PutRow | None:
    """Returns these changes as puts of distinct columns with one timestamp; None if they are not such."""
    if not changes or not all(type(change) is Put for change in changes):
        return None
    puts: list[Put] = [change for change in changes if isinstance(change, Put)]
    timestamp = puts[0].timestamp
    for put in puts:
        if type(put.column) not in (bytes, str) or type(put.value) is not bytes or put.timestamp != timestamp:
            return None
    if timestamp is not None and (type(timestamp) is not int or not 0 <= timestamp <= TIMESTAMP_MAX):
        return None
    values = [put.value for put in puts if isinstance(put.value, bytes)]
    return put_row(row, tuple([put.column for put in puts]), values, timestamp)


@lru_cache(maxsize=1024)
def _shape(names: tuple[Name, ...]) -> _Shape | None:
    columns = tuple([parse_cell_key(name) for name in names])
    if len(set(columns)) < len(columns):
        return None
    return _shape_of(columns) if len(columns) <= _NAMES_CACHED_MAX else _shape_of.__wrapped__(columns)


@lru_cache(maxsize=1024)
def _shape_of(columns: tuple[Column, ...]) -> _Shape:
    return _Shape(columns, sum([_CELL_BYTES + len(family) + len(qualifier) for family, qualifier in columns]))


def are_faster_as_columns(row_count: int, column_count: int, value_count: int) -> bool:
    """Returns whether rows with this many values in this many distinct columns are sent faster as columns."""
    return (
        row_count >= ROWS_MIN
        and value_count >= VALUES_MIN
        and column_count <= COLUMNS_MAX
        and row_count * column_count <= min(VALUES_MAX, PLACES_PER_VALUE_MAX * value_count)
    )


def columns_of(rows: Iterable[PutRow]) -> tuple[Column, ...]:
    """Returns the columns of the rows, each once, in the order in which they occur."""
    # Rows with the same columns in the same order share their tuple.
    distinct = {id(row.columns): row.columns for row in rows}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    return tuple(dict.fromkeys(column for columns in distinct.values() for column in columns))


def chosen_rows(lines: Iterable[Line], bytes_max: int = REQUEST_BYTES_MAX) -> list[PutRow]:
    """Returns the rows of one request in columns; empty if they are sent faster as mutations.

    bytes_max: of its message, with SERVER_ROW_BYTES for each row; about.

    Only rows that were not sent before: a repeated row is sent as a mutation, which has its age.
    """
    chosen: list[PutRow] = []
    byte_count = value_count = 0
    for line in lines:
        if type(line) is PutRow and not line.age_ms and line.byte_count <= ROW_BYTES_MAX:
            chosen.append(line)
            byte_count += line.byte_count
            value_count += len(line.values)
            if (
                byte_count > REQUEST_BYTES_MAX
                or byte_count + SERVER_ROW_BYTES * len(chosen) > bytes_max
                or len(chosen) == ROWS_MAX
                or value_count > VALUES_MAX
            ):
                break
    return chosen if are_faster_as_columns(len(chosen), len(columns_of(chosen)), value_count) else []


def fitting_lines(lines: Sequence[Line], bytes_max: int) -> Sequence[Line]:
    """Returns the first lines, at least one, that fit in one message of mutations; bytes_max: as in chosen_rows."""
    byte_count = 0
    for place, line in enumerate(lines):
        byte_count += SERVER_ROW_BYTES + (line.byte_count if isinstance(line, PutRow) else line.ByteSize())
        if byte_count > bytes_max and place:
            return lines[:place]
    return lines
