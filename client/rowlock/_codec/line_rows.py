"""Rows in columns that the server has chosen, as it sends those of a scan without a row form (ScanBatch.line_columns).

They stand for cells: each value that is not null is one. `cells` returns these as a table, `expanded` as Python rows.
If no value is null and all of a column have one length, a row's values stand in one record, and nothing is done cell by
cell. Nothing in a message is trusted: one that contradicts itself raises ServerError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import (
    Array,
    Bools,
    Ints,
    all_bytes_of,
    as_binary,
    cells_schema,
    int64_array,
    names_array,
    one_array,
    pooled,
    repeated_values,
    side_by_side,
    valid_of,
    values_of,
)
from rowlock._codec.columns import Text
from rowlock._codec.line_columns import LineColumns
from rowlock._codec.row_form import FormColumn
from rowlock._codec.scan_message import ScanMessage
from rowlock.errors import ServerError

# Any: pyarrow's stubs type an array by its scalars.
Values: TypeAlias = "pa.ChunkedArray[Any]"
_SCHEMA = cells_schema(nullable=())
# Servers answer with cells if there are more value columns.
_COLUMNS_MAX = 500
# The most bytes of keys, or of names, in the cells of a batch: as many as a binary array may have.
_NAMES_BYTES_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class LineRows:
    """At least one row. Each has values of some of the columns.

    `timestamps` are those of each column, or of all of them.
    """

    keys: Array
    columns: LineColumns
    values: Sequence[Values]  # binary or fixed-size binary
    timestamps: Sequence[Array]

    @classmethod
    def of(cls, table: pa.Table, columns: LineColumns) -> LineRows:
        """Returns the rows of a table in the row form with these columns. Raises ServerError unless they are valid."""
        if not table.num_rows:
            raise _damaged("it has no row")
        keys, *arrays = table.columns
        parts = list(zip(columns.are_timestamps, arrays, strict=True))
        timestamps = [one_array(array) for is_timestamp, array in parts if is_timestamp]
        rows = cls(one_array(keys), columns, [array for is_timestamp, array in parts if not is_timestamp], timestamps)
        if len(timestamps) == 1:
            is_timed = not timestamps[0].null_count
        else:
            is_timed = all(
                (is_valid := valid_of(array)) is None or bool((is_valid | ~present).all())
                for array, present in zip(timestamps, rows._present, strict=True)
            )
        if not is_timed or rows.keys.null_count or not rows._has_cells:
            raise _damaged("a key, a timestamp or all values of a row are missing")
        return rows

    @cached_property
    def _has_nulls(self) -> bool:
        """Whether a row lacks a value."""
        return any(array.null_count for array in self.values)

    @cached_property
    def _present(self) -> list[Bools]:
        """Of each column, which rows have a value."""
        return [np.concatenate([_present_in(chunk) for chunk in array.chunks]) for array in self.values]

    @property
    def _has_cells(self) -> bool:
        """Whether each row has a value."""
        if not all(array.null_count for array in self.values):
            return True
        return bool(np.logical_or.reduce(self._present).all())

    @cached_property
    def _widths(self) -> list[int] | None:
        """The length of the values of each column; None if some differ, or are null."""
        types = [array.type for array in self.values]
        if self._has_nulls or not all(isinstance(kind, pa.FixedSizeBinaryType) for kind in types):
            return None
        return [kind.byte_width for kind in types]

    def _records(self, widths: Sequence[int]) -> pa.Buffer:
        """Returns the values of all rows, row by row."""
        count, record_bytes = len(self.keys), sum(widths)
        buffer, written = pooled(count * record_bytes, np.uint8)
        records = written.reshape(count, record_bytes)
        stop = 0
        for chunks in zip(*[array.chunks for array in self.values], strict=True):
            start, stop = stop, stop + len(chunks[0])
            _put_side_by_side(chunks, widths, records[start:stop])
        return buffer

    # ---- as a table

    def cells(self) -> pa.Table:
        """Returns the cells, by row, family and qualifier."""
        # Judged before anything is made of names, which a message has once.
        count, width = len(self.keys), len(self.values)
        if max(self.keys.nbytes * width, self.columns.name_bytes * count) > _NAMES_BYTES_MAX:
            raise _damaged(f"{count} rows of {width} columns, whose names are too long")
        try:
            return self._sparse_cells() if self._has_nulls else self._dense_cells()
        except MemoryError:  # Arrow's, too, which is no damage.
            raise
        except (OverflowError, pa.ArrowException) as error:
            raise _damaged(str(error)) from error

    def _dense_cells(self) -> pa.Table:
        count, width = len(self.keys), len(self.values)
        if len(self.timestamps) == 1:
            timestamps = repeated_values(values_of(self.timestamps[0], np.int64), width)
        else:
            timestamps, of_rows = pooled(count * width, np.int64)
            np.stack(
                [values_of(array, np.int64) for array in self.timestamps], axis=1, out=of_rows.reshape(count, width)
            )
        arrays = [
            self._repeated_keys(),
            self.columns.families(count),
            self.columns.qualifiers(count),
            pa.Array.from_buffers(pa.int64(), count * width, [None, timestamps]),
            self._dense_values(),
        ]
        return pa.Table.from_arrays(arrays, schema=_SCHEMA)

    def _dense_values(self) -> Array:
        count, width = len(self.keys), len(self.values)
        if self._widths is None:
            return self._taken_values(np.add.outer(np.arange(count), np.arange(width) * count).ravel())
        offsets = self.columns.value_offsets.of(self._widths, count)
        return pa.Array.from_buffers(pa.binary(), width * count, [None, offsets, self._records(self._widths)])

    def _taken_values(self, places: Ints) -> Array:
        """Returns values by their places, column by column."""
        chunks = [chunk for array in self.values for chunk in array.chunks]
        if len({chunk.type for chunk in chunks}) > 1:
            chunks = [as_binary(chunk) for chunk in chunks]
        return as_binary(pa.concat_arrays(chunks).take(int64_array(places)))

    def _repeated_keys(self) -> Array:
        """Returns each key once for each column."""
        keys, count = self.keys, len(self.columns.names)
        data = all_bytes_of(keys)
        length, is_uneven = divmod(len(data), len(keys))
        if length and not is_uneven:
            # If all keys have this length, their offsets are the first of these.
            offsets = self.columns.key_offsets.of([length], len(keys) * count)
            of_keys = cast(pa.Buffer, keys.buffers()[1]).slice(4 * keys.offset, 4 * (len(keys) + 1))
            if of_keys.equals(offsets.slice(0, of_keys.size)):
                repeated = repeated_values(data.view(f"V{length}"), count)
                return pa.Array.from_buffers(pa.binary(), len(keys) * count, [None, offsets, repeated])
        return keys.take(int64_array(np.repeat(np.arange(len(keys)), count)))

    def _sparse_cells(self) -> pa.Table:
        count = len(self.keys)
        places, codes = np.nonzero(np.stack(self._present, axis=1))
        at = codes * count + places
        of_column = int64_array(codes)
        if len(self.timestamps) == 1:
            timestamps = self.timestamps[0].take(int64_array(places))
        else:
            timestamps = pa.concat_arrays(self.timestamps).take(int64_array(at))
        arrays = [
            self.keys.take(int64_array(places)),
            names_array([family for family, _ in self.columns.names]).take(of_column),
            names_array([qualifier for _, qualifier in self.columns.names]).take(of_column),
            timestamps,
            self._taken_values(at),
        ]
        return pa.Table.from_arrays(arrays, schema=_SCHEMA)

    # ---- as Python rows

    def expanded(self, decode: Callable[[bytes], Text]) -> Iterator[tuple[Text, dict[Text, Text]]]:
        """Yields (row, {column: value})."""
        names = [decode(family + b":" + qualifier) for family, qualifier in self.columns.names]
        rows = map(decode, _python_values(self.keys))
        if self._widths is None or not any(self._widths):
            by_column = [array.to_pylist() for array in self.values]
            for row, values in zip(rows, zip(*by_column, strict=True), strict=True):
                yield row, {name: decode(each) for name, each in zip(names, values, strict=True) if each is not None}
            return
        record = struct.Struct("".join([f"{width}s" for width in self._widths]))
        records: Iterable[Iterable[Text]] = record.iter_unpack(memoryview(self._records(self._widths)))
        if decode is not bytes:  # To decode to bytes is to do nothing, but would take as long as the rest.
            records = (map(decode, values) for values in records)  # type: ignore[arg-type]  # they are bytes
        for row, of_row in zip(rows, records, strict=True):
            yield row, dict(zip(names, of_row))  # noqa: B905  # as many, and it takes time


class LineReader:
    """Reads the messages of one scan that have line_columns. Not thread-safe."""

    def __init__(self) -> None:
        # Of the last message, because the next one most often has the same.
        self._sent: Sequence[region_pb2.RowFormColumn] = ()
        self._columns: LineColumns | None = None

    def read(self, message: ScanMessage) -> LineRows:
        """Returns the rows of a message. Raises ServerError unless they are valid."""
        if self._columns is None or message.line_columns != self._sent:
            self._columns, self._sent = _columns_of(message.line_columns), message.line_columns
        return LineRows.of(self._columns.form.read(message), self._columns)


def _columns_of(sent: Sequence[region_pb2.RowFormColumn]) -> LineColumns:
    if len(sent) > 2 * _COLUMNS_MAX:
        raise _damaged(f"{len(sent)} columns")
    is_timestamp = region_pb2.RowFormColumn.PART_TIMESTAMP
    return LineColumns([FormColumn(each.family, each.qualifier, each.part == is_timestamp) for each in sent])


def _python_values(array: Array) -> list[bytes]:
    return cast(list[bytes], array.to_pylist())  # binary, not null


def _present_in(array: Array) -> Bools:
    is_valid = valid_of(array)
    return np.ones(len(array), np.bool_) if is_valid is None else is_valid


def _put_side_by_side(columns: Sequence[Array], widths: Sequence[int], records: npt.NDArray[np.uint8]) -> None:
    """Writes the values of columns, which have these widths, to the bytes of each record."""
    if len(set(widths)) == 1 and (rows := side_by_side(columns, widths[0])) is not None:
        # NumPy then copies in the order of memory, which takes less time.
        records.view(rows.dtype)[:] = rows
        return
    stop = 0
    for column, width in zip(columns, widths, strict=True):
        start, stop = stop, stop + width
        if width:
            values = values_of(column, f"V{width}")
            records[:, start:stop].view(values.dtype)[:, 0] = values


def _damaged(problem: str) -> ServerError:
    return ServerError(f"a batch of rows in columns is damaged: {problem}")
