"""Decodes scan batches into Arrow batches of a DataFrame's columns. Vectorised; does not copy binary and text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rowlock_proto.shown_names import escaped

from rowlock._codec.arrow_buffers import (
    Array,
    as_binary,
    binary_array,
    data_of,
    joined,
    lengths_of,
    names_array,
    offsets_of,
    primitive_array,
    valid_of,
    validity_of,
    values_of,
)
from rowlock._codec.encodings import TIMESTAMP, Numbers
from rowlock._codec.key_scalars import KeyCodec
from rowlock._codec.keys import decoded_keys
from rowlock._codec.unreadable import first_unreadable
from rowlock._core.scan_progress import row_starts
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn
from rowlock.spark.frame import Frame, Source

_MICROS_PER_MILLI = 1000
_MILLIS_MAX = ((1 << 63) - 1) // _MICROS_PER_MILLI


def rows_of_form(batch: pa.RecordBatch, frame: Frame, schema: pa.Schema, malformed_is_null: bool) -> pa.RecordBatch:
    """Decodes a batch in row form: the key, then the frame's values and timestamps in its order.

    schema: the frame's, as Arrow. Raises MappingError for malformed bytes, unless malformed_is_null. The error names
    the row if the batch has the rows' keys, which may be null if no column of the frame needs them.
    """
    rows = batch.column(0)
    arrays: list[Array] = []
    place = 1
    keys: dict[str, Array] | None = None
    for column in frame.columns:
        assert column.mapped is not None, column
        if column.source is Source.KEY:
            if keys is None:
                keys = _keys(frame, rows, malformed_is_null)
            arrays.append(keys[column.mapped.name])
            continue
        stored = batch.column(place)
        place += 1
        if column.source is Source.TIMESTAMP:
            arrays.append(_timestamps(frame, column.mapped, stored, rows))
        else:
            arrays.append(_values(frame, column.mapped, stored, rows, malformed_is_null))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of_cells(cells: pa.RecordBatch, frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """Decodes cells into rows of a plain frame. The batch has complete rows, with one version of each column."""
    table = pa.Table.from_batches([cells])
    starts = row_starts(table)
    offsets = np.append(starts, cells.num_rows)
    rows = cells.column("row").take(_indices(starts))
    names = joined(cells.column("family"), b":", cells.column("qualifier")).dictionary_encode()
    texts = names_array([escaped(name).encode() for name in bytes_of(names.dictionary)]).cast(pa.string())
    arrays: list[Array] = []
    for column, field in zip(frame.columns, schema, strict=True):
        if column.source is Source.KEY:
            arrays.append(rows)
            continue
        entries = pa.StructArray.from_arrays(
            [texts.take(names.indices), cells.column("value")], fields=[field.type.key_field, field.type.item_field]
        )
        starts_buffer = pa.py_buffer(np.ascontiguousarray(offsets, np.int32).data)
        arrays.append(pa.Array.from_buffers(field.type, len(starts), [None, starts_buffer], children=[entries]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def bytes_of(array: Array) -> list[bytes]:
    """Returns the values of an array without nulls."""
    values: list[Any] = array.to_pylist()  # Any: the stubs think that they may be null
    return values


def _indices(places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Array:
    return primitive_array(pa.int64(), places, None)


def _keys(frame: Frame, rows: Array, malformed_is_null: bool) -> dict[str, Array]:
    """Decodes the key into its parts, by name."""
    names = [part.name for part in frame.mapping.keys]
    try:
        return dict(zip(names, decoded_keys(frame.mapping, rows), strict=True))
    except MappingError as error:
        if not malformed_is_null:
            raise MappingError(f"{error}{_ADVICE}", row=error.row) from error
    types = [part.codec.arrow for part in frame.mapping.keys]
    return dict(zip(names, _readable(lambda taken: decoded_keys(frame.mapping, taken), types, rows), strict=True))


def _values(frame: Frame, column: MappedColumn, stored: Array, rows: Array, malformed_is_null: bool) -> Array:
    try:
        return column.codec.decode(stored)
    except MappingError as refused:
        if malformed_is_null:
            [array] = _readable(
                lambda taken: [column.codec.decode(taken)], [column.codec.arrow], _of_width(column, stored)
            )
            return array
        place, reason = first_unreadable(column, stored, refused)
        row: bytes | None = rows[place].as_py()
        if row is None:
            raise
        raise MappingError(
            f"the column {column.name!r} ({column.column.decode(errors='backslashreplace')}) of row "
            f"{KeyCodec(frame.mapping).shown(row)} can't be read as {column.type.upper()}: {reason}{_ADVICE}",
            row=row,
            family=column.family,
            qualifier=column.qualifier,
        ) from refused


_ADVICE = "; set the option malformed=null to read such bytes as null"


def _of_width(column: MappedColumn, stored: Array) -> Array:
    """Replaces values of the wrong length by null."""
    width = column.codec.width
    if width is None or column.encoding == "text":
        return stored
    stored = as_binary(stored)
    fits = lengths_of(stored) == width
    is_valid = valid_of(stored)
    data = pa.py_buffer(data_of(stored).data)
    return binary_array(offsets_of(stored), data, fits if is_valid is None else fits & is_valid)


def _readable(decode: Callable[[Array], Sequence[Array]], types: Sequence[pa.DataType], stored: Array) -> list[Array]:
    """Decodes with null for malformed values. Bisects: O(malformed * log(all)) calls."""
    try:
        return list(decode(stored))
    except MappingError:
        if len(stored) == 1:
            return [_null(kind) for kind in types]
    middle = len(stored) // 2
    halves = _readable(decode, types, stored.slice(0, middle)), _readable(decode, types, stored.slice(middle))
    return [pa.concat_arrays(pair) for pair in zip(*halves, strict=True)]


def _null(kind: pa.DataType) -> Array:
    # The stubs know a type only by its class.
    array: Array = pa.nulls(1, kind)  # type: ignore[call-overload]
    return array


def _timestamps(frame: Frame, column: MappedColumn, stored: Array, rows: Array) -> Array:
    millis: Numbers = values_of(stored, np.int64)
    is_outside = millis > _MILLIS_MAX
    is_valid = valid_of(stored)
    if is_valid is not None:
        is_outside &= is_valid
    if is_outside.any():
        place = int(np.flatnonzero(is_outside)[0])
        row: bytes | None = rows[place].as_py()
        if row is None:
            raise MappingError(f"a timestamp of {int(millis[place])} ms does not fit Spark's TIMESTAMP")
        raise MappingError(
            f"the cell {column.column.decode(errors='backslashreplace')} of row {KeyCodec(frame.mapping).shown(row)} "
            f"has the timestamp {int(millis[place])} ms, which does not fit Spark's TIMESTAMP; remove the column from "
            "the option timestamps",
            row=row,
            family=column.family,
            qualifier=column.qualifier,
        )
    return primitive_array(TIMESTAMP, millis * _MICROS_PER_MILLI, validity_of(stored))
