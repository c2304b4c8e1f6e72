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
from typing import cast

import numpy as np
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import (
    Array,
    Bools,
    Ints,
    as_binary,
    binary_array,
    bools_of,
    buffer_of,
    cells_schema,
    data_of,
    int64_array,
    lengths_of,
    names_array,
    offsets_of,
    one_array,
    values_of,
)
from rowlock._codec.columns import Text
from rowlock._codec.row_form import FormColumn, RowFormReader
from rowlock._codec.scan_message import ScanMessage
from rowlock.errors import ServerError

_SCHEMA = cells_schema(nullable=())
# Servers answer with cells if there are more value columns.
_COLUMNS_MAX = 500
# The most bytes of keys, or of names, in the cells of a batch: as many as a binary array may have.
_NAMES_BYTES_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class LineRows:
    """At least one row. Each has values of some of the columns, which ascend by family, then qualifier.

    `timestamps` are those of each column, or of all of them.
    """

    keys: Array
    columns: Sequence[FormColumn]
    values: Sequence[Array]  # binary or fixed-size binary
    timestamps: Sequence[Array]

    @classmethod
    def of(cls, table: pa.Table, columns: Sequence[FormColumn]) -> LineRows:
        """Returns the rows of a table in the row form with these columns. Raises ServerError unless they are valid."""
        arrays = [one_array(chunked) for chunked in table.columns[1:]]
        parts = list(zip(columns, arrays, strict=True))
        valued = [(column, array) for column, array in parts if not column.is_timestamp]
        timed = [(column, array) for column, array in parts if column.is_timestamp]
        names = [(column.family, column.qualifier) for column, _ in valued]
        timed_names = [(column.family, column.qualifier) for column, _ in timed]
        if not names or names != sorted(set(names)) or (len(timed) != 1 and timed_names != names):
            raise _damaged(f"columns {columns[:10]}")
        rows = cls(
            one_array(table.column(0)),
            [column for column, _ in valued],
            [array for _, array in valued],
            [array for _, array in timed],
        )
        if len(timed) == 1:
            is_timed = not timed[0][1].null_count
        else:
            is_timed = all(
                not array.null_count or bool((bools_of(array.is_valid()) | ~present).all())
                for (_, array), present in zip(timed, rows._present, strict=True)
            )
        if not is_timed or rows.keys.null_count or not rows._has_cells:
            raise _damaged("a key, a timestamp or all values of a row are missing")
        return rows

    @cached_property
    def _present(self) -> list[Bools]:
        """Of each column, which rows have a value."""
        count = len(self.keys)
        return [bools_of(array.is_valid()) if array.null_count else np.ones(count, np.bool_) for array in self.values]

    @property
    def _has_cells(self) -> bool:
        """Whether each row has a value."""
        if not all(array.null_count for array in self.values):
            return len(self.keys) > 0
        return bool(np.logical_or.reduce(self._present).all())

    @cached_property
    def _widths(self) -> list[int] | None:
        """The length of the values of each column; None if some differ, or are null."""
        if any(array.null_count or not pa.types.is_fixed_size_binary(array.type) for array in self.values):
            return None
        return [array.type.byte_width for array in self.values]

    def _records(self, widths: Sequence[int]) -> pa.Buffer:
        """Returns the values of all rows, row by row."""
        record = np.dtype([(str(place), f"V{width}") for place, width in enumerate(widths) if width])
        records = np.empty(len(self.keys), record)
        for place, (array, width) in enumerate(zip(self.values, widths, strict=True)):
            if width:
                records[str(place)] = values_of(array, f"V{width}")
        return pa.py_buffer(records.view(np.uint8).data if record.itemsize else b"")

    # ---- as a table

    def cells(self) -> pa.Table:
        """Returns the cells, by row, family and qualifier."""
        # Judged before anything is made of names, which a message has once.
        names = [len(column.family) + len(column.qualifier) for column in self.columns]
        if max(self.keys.nbytes * len(names), sum(names) * len(self.keys)) > _NAMES_BYTES_MAX:
            raise _damaged(f"{len(self.keys)} rows of {len(names)} columns, whose names are too long")
        try:
            return self._sparse_cells() if self._widths is None else self._dense_cells(self._widths)
        except (OverflowError, pa.ArrowException) as error:
            raise _damaged(str(error)) from error

    def _dense_cells(self, widths: Sequence[int]) -> pa.Table:
        count, width = len(self.keys), len(widths)
        if len(self.timestamps) == 1:
            timestamps = np.repeat(values_of(self.timestamps[0], np.int64), width)
        else:
            timestamps = np.stack([values_of(array, np.int64) for array in self.timestamps], axis=1).ravel()
        arrays = [
            _repeated(self.keys, width),
            _tiled([column.family for column in self.columns], count),
            _tiled([column.qualifier for column in self.columns], count),
            int64_array(timestamps.astype(np.int64, copy=False)),
            binary_array(_ends(widths, count), self._records(widths)),
        ]
        return pa.Table.from_arrays(arrays, schema=_SCHEMA)

    def _sparse_cells(self) -> pa.Table:
        count = len(self.keys)
        places, codes = np.nonzero(np.stack(self._present, axis=1))
        at = int64_array(codes * count + places)
        of_column = int64_array(codes)
        if len(self.timestamps) == 1:
            timestamps = self.timestamps[0].take(int64_array(places))
        else:
            timestamps = pa.concat_arrays(self.timestamps).take(at)
        arrays = [
            self.keys.take(int64_array(places)),
            names_array([column.family for column in self.columns]).take(of_column),
            names_array([column.qualifier for column in self.columns]).take(of_column),
            timestamps,
            pa.concat_arrays([as_binary(array) for array in self.values]).take(at),
        ]
        return pa.Table.from_arrays(arrays, schema=_SCHEMA)

    # ---- as Python rows

    def expanded(self, decode: Callable[[bytes], Text]) -> Iterator[tuple[Text, dict[Text, Text]]]:
        """Yields (row, {column: value})."""
        names = [decode(column.family + b":" + column.qualifier) for column in self.columns]
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


def read_line_rows(message: ScanMessage) -> LineRows:
    """Returns the rows of a message that has line_columns. Raises ServerError unless they are valid."""
    if len(message.line_columns) > 2 * _COLUMNS_MAX:
        raise _damaged(f"{len(message.line_columns)} columns")
    columns = [
        FormColumn(column.family, column.qualifier, column.part == region_pb2.RowFormColumn.PART_TIMESTAMP)
        for column in message.line_columns
    ]
    table = RowFormReader.of(columns, region_pb2.ScanRequest()).read(message)
    return LineRows.of(table, columns)


def _python_values(array: Array) -> list[bytes]:
    return cast(list[bytes], array.to_pylist())  # binary, not null


def _repeated(keys: Array, count: int) -> Array:
    """Returns each key so many times."""
    lengths = lengths_of(keys)
    width = int(lengths[0])
    if not width or (lengths != width).any():
        return keys.take(int64_array(np.repeat(np.arange(len(keys)), count)))
    start = int(offsets_of(keys)[0])
    joined = data_of(keys)[start : start + width * len(keys)]
    return binary_array(
        np.arange(count * len(keys) + 1) * width, buffer_of(np.repeat(joined.view(f"V{width}"), count).view(np.uint8))
    )


def _tiled(names: Sequence[bytes], count: int) -> Array:
    """Returns the names one after the other, so many times."""
    return binary_array(_ends(list(map(len, names)), count), pa.py_buffer(b"".join(names) * count))


def _ends(widths: Sequence[int], count: int) -> Ints:
    """Returns the offsets of elements that have these lengths one after the other, so many times."""
    ends = np.cumsum(widths)
    offsets = np.zeros(count * len(widths) + 1, np.int64)
    offsets[1:] = np.add.outer(np.arange(count) * ends[-1], ends).ravel()
    return offsets


def _damaged(problem: str) -> ServerError:
    return ServerError(f"a batch of rows in columns is damaged: {problem}")
