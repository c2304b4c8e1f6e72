"""Encodes and decodes typed rows of the point API, one row at a time, by a mapping. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import types_pb2

from rowlock._codec.arrow_buffers import Array, one_array
from rowlock._codec.columns import TIMESTAMP_MAX, listed
from rowlock._codec.key_scalars import Key, KeyCodec
from rowlock._codec.python_values import is_missing, value_check
from rowlock._codec.scalars import ScalarCodec, date_of, micros_of, scalar_codec, time_of
from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.mapping import MappedColumn
from rowlock.mapping import Mapping as RowMapping

# The type of a row: a TypedDict, or dict[str, Any].
Row = TypeVar("Row", bound=Mapping[str, Any])
# Any: values of the columns' types.
TypedData = Mapping[str, Any]

_MICROS_PER_MILLI = 1000


@dataclass(frozen=True, slots=True)
class TypedCell:
    """A column of cells: its place in the mapping, b"family:qualifier", and the codec of its values.

    shown_row: formats a row for a message.
    """

    mapped: MappedColumn
    target: bytes
    scalar: ScalarCodec
    shown_row: Callable[[bytes], str] = row_text

    def encode(self, value: object) -> bytes:
        """Returns a value's bytes. Raises TypeError and MappingError that name the column."""
        name, kind = self.mapped.name, self.mapped.type_text
        try:
            return self.scalar.encode(value)
        except TypeError as error:
            advice = "; an absent cell is None" if is_missing(value) else ""
            raise TypeError(f"the column {name!r} is {kind} and {error}{advice}") from None
        except MappingError as error:
            raise MappingError(
                f"the column {name!r} can't be {value!r:.100}: {error}",
                family=self.mapped.family,
                qualifier=self.mapped.qualifier,
            ) from error

    def decode(self, data: bytes, row: bytes) -> Any:
        """Returns the value of a cell's bytes. Raises MappingError that names row and column."""
        try:
            return self.scalar.decode(data)
        except MappingError as error:
            mapped = self.mapped
            raise MappingError(
                f"{self.target.decode(errors='backslashreplace')} of row {self.shown_row(row)} can't be read as "
                f"{mapped.type_text} {mapped.encoding}: {error}",
                row=row,
                family=mapped.family,
                qualifier=mapped.qualifier,
            ) from error


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """The cells to put, by column, the columns to delete, and the timestamp of both; None: the server's clock."""

    puts: dict[bytes, bytes]
    deletes: list[bytes]
    timestamp: int | None


class RowCodec:
    """The typed rows of one mapping. Immutable, thread-safe."""

    def __init__(self, mapping: RowMapping) -> None:
        self.mapping = mapping
        self.key = KeyCodec(mapping)
        shown_row = self.key.shown
        cells = [TypedCell(column, column.column, scalar_codec(column), shown_row) for column in mapping.values]
        self._by_name = {cell.mapped.name: cell for cell in cells}
        self._by_column = {(cell.mapped.family, cell.mapped.qualifier): cell for cell in cells}
        self._time = mapping.timestamp
        self._time_check = None if self._time is None else value_check(self._time.type, self._time.arrow)

    def cell(self, name: object) -> TypedCell:
        """Returns a column by its name in the mapping. Raises MappingError for an unknown one."""
        if not isinstance(name, str):
            raise TypeError(f"column must be a str, a name of the mapping, not {type(name).__name__}")
        found = self._by_name.get(name)
        if found is None:
            raise MappingError(self.mapping.unknown_column(name))
        return found

    def find(self, family: bytes, qualifier: bytes) -> TypedCell | None:
        """Returns the column of a cell; None if the mapping does not name it."""
        return self._by_column.get((family, qualifier))

    def targets(self, names: Iterable[str] | None) -> list[bytes]:
        """Returns the table's columns with these names; None: all. Raises MappingError."""
        if names is None:
            return list(self._all_targets())
        return [self.cell(name).target for name in listed("columns", "names", names)]

    def _all_targets(self) -> Iterator[bytes]:
        if not self._by_name:
            raise MappingError(f"{self.mapping!r} has only a key, and no columns to read")
        for cell in self._by_name.values():
            yield cell.target

    def encoded(self, data: TypedData, timestamp: int | None) -> EncodedRow:
        """Returns the changes of a put. Raises InvalidArgumentError if there are none, TypeError and MappingError."""
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be a dict of names and values, not {type(data).__name__}")
        puts: dict[bytes, bytes] = {}
        deletes: list[bytes] = []
        for name, value in data.items():
            if self._time is not None and name == self._time.name:
                timestamp = self._timestamp(value, timestamp)
                continue
            cell = self.cell(name)
            if value is None:
                deletes.append(cell.target)
            else:
                puts[cell.target] = cell.encode(value)
        if not puts and not deletes:
            raise InvalidArgumentError("no column is given; a row needs at least one")
        return EncodedRow(puts, deletes, timestamp)

    def _timestamp(self, value: object, given: int | None) -> int | None:
        """Returns the milliseconds of the row's time; None if it is None."""
        assert self._time is not None, "the mapping has a timestamp column"
        assert self._time_check is not None, "and so its check"
        name = self._time.name
        if value is None:
            return given
        if given is not None:
            raise InvalidArgumentError(f"the row's time is given twice, by the column {name!r} and as timestamp")
        try:
            found = self._time_check(value)
        except TypeError as error:
            raise TypeError(f"the column {name!r} is {self._time.type_text} and {error}") from None
        except MappingError as error:
            raise MappingError(f"the column {name!r} can't be {value!r:.100}: {error}") from error
        millis: int = micros_of(found) // _MICROS_PER_MILLI if self._time.type == "timestamp" else found
        if not 0 <= millis <= TIMESTAMP_MAX:
            raise MappingError(f"the column {name!r} is {value}, and the timestamp of a cell is not before 1970")
        return millis

    def row(self, row: bytes, cells: Iterable[types_pb2.Cell], names: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns the values of a row's cells, None for absent ones; {} if there are no cells."""
        found = {cell.mapped.name: cell.decode(one.value, row) for one, cell in self._known(cells)}
        return {**dict.fromkeys(self._by_name if names is None else names), **found} if found else {}

    def row_with_timestamps(self, row: bytes, cells: Iterable[types_pb2.Cell]) -> dict[str, tuple[Any, int]]:
        """Returns (value, timestamp) of each cell of a row."""
        return {cell.mapped.name: (cell.decode(one.value, row), one.timestamp) for one, cell in self._known(cells)}

    def _known(self, cells: Iterable[types_pb2.Cell]) -> Iterator[tuple[types_pb2.Cell, TypedCell]]:
        for one in cells:
            cell = self._by_column.get((one.family, one.qualifier))
            if cell is not None:
                yield one, cell

    def bounds(
        self, ranges: Iterable[tuple[Key | None, Key | None]] | None
    ) -> list[tuple[bytes | None, bytes | None]] | None:
        """Returns ranges of keys as ranges of rows."""
        if ranges is None:
            return None
        return [(self.key.bound(start), self.key.bound(stop)) for start, stop in ranges]


def python_rows(rows: pa.Table | pa.RecordBatch, mapping: RowMapping) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yields (key, {name: value}) of rows of the mapping's schema. Raises MappingError for years beyond Python's."""
    columns = {column.name: python_values(column, one_array(rows.column(column.name))) for column in mapping.columns}
    names = [column.name for column in mapping.values]
    keys: Iterable[Key]
    parts = [columns[part.name] for part in mapping.keys]
    keys = parts[0] if len(parts) == 1 else zip(*parts, strict=True)
    if not names:
        for key in keys:
            yield key, {}
        return
    for key, values in zip(keys, zip(*[columns[name] for name in names], strict=True), strict=True):
        yield key, dict(zip(names, values, strict=True))


def python_values(column: MappedColumn, array: Array) -> Sequence[Any]:
    """Returns the values of a column of the mapping's type. Raises MappingError for years beyond Python's."""
    if column.type not in ("date", "timestamp"):
        return array.to_pylist()
    # Not Arrow's own conversion, which needs a database of zones.
    is_date = column.type == "date"
    numbers: list[int | None] = array.cast(pa.int32() if is_date else pa.int64()).to_pylist()
    value_of = date_of if is_date else time_of
    try:
        return [None if number is None else value_of(number) for number in numbers]
    except (ValueError, OverflowError) as error:
        raise MappingError(
            f"the column {column.name!r} has a time beyond Python's years ({error}); read it with to_arrow()"
        ) from error
