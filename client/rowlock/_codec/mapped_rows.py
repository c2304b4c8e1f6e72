"""Encodes typed rows for a bulk batch, and decodes the row form into typed rows, by a mapping. Column by column.

The server returns the row form (row_form.py), so only its values are left to decode.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock._codec.arrow_buffers import Array, Ints, one_array, primitive_array, valid_of, values_of
from rowlock._codec.bulk_rows import BulkRows, bulk_rows, timestamps_array
from rowlock._codec.casts import as_type
from rowlock._codec.columns import TIMESTAMP_MAX
from rowlock._codec.encodings import first_refused
from rowlock._codec.key_scalars import KeyCodec
from rowlock._codec.keys import decoded_keys, encoded_keys
from rowlock._codec.unreadable import first_unreadable
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping, TimestampColumn

_MICROS_PER_MILLI = 1000


class ColumnsRefusedError(MappingError):
    """The columns can't be written with any values, so the message names no row. Callers see a MappingError."""


def bulk_rows_of(
    batch: pa.RecordBatch, mapping: Mapping, timestamp: int | None, *, nulls_delete: bool = False
) -> BulkRows:
    """Returns the rows with their values as bytes, in order; columns are ordered by family and qualifier.

    timestamp: of rows without a time of their own, by the mapping's timestamp column; None: the server's clock.
    A null gives no cell or, with nulls_delete, a delete; a row without cells is left out. Raises MappingError for a
    missing column or a value that does not fit, OverflowError beyond 2 GiB.
    """
    keys = keys_of_rows(batch, mapping)
    columns = sorted(mapping.values, key=lambda column: (column.family, column.qualifier))
    if not columns:
        raise ColumnsRefusedError(f"{mapping!r} has only a key; a row needs at least one cell")
    values = [_encoded(batch, mapping, column, keys) for column in columns]
    names = [(column.family, column.qualifier) for column in columns]
    return bulk_rows(names, keys, values, _timestamps(batch, mapping, timestamp), nulls_delete=nulls_delete)


def _timestamps(batch: pa.RecordBatch, mapping: Mapping, timestamp: int | None) -> Array:
    """Returns the timestamp of each row, in milliseconds."""
    column = mapping.timestamp
    if column is None or column.name not in batch.schema.names:
        return timestamps_array(batch.num_rows, timestamp)
    array = _typed(batch, column)
    values: Ints = values_of(array, np.int64).astype(np.int64)
    millis = values // _MICROS_PER_MILLI if column.type == "timestamp" else values
    is_valid = valid_of(array)
    is_outside = (millis < 0) | (millis > TIMESTAMP_MAX)
    if is_valid is not None:
        is_outside &= is_valid
    if is_outside.any():
        place = int(np.flatnonzero(is_outside)[0])
        raise MappingError(
            f"the column {column.name!r} is {_shown(array, place)} in row {place}, and the timestamp of a cell is not "
            "before 1970"
        )
    if is_valid is not None and timestamp is not None:
        millis, is_valid = np.where(is_valid, millis, timestamp), None
    return primitive_array(pa.int64(), millis, is_valid)


def keys_of_rows(batch: pa.RecordBatch, mapping: Mapping) -> Array:
    """Returns the rows' keys as bytes. Raises MappingError if one is null, empty or does not fit."""
    return encoded_keys(mapping, [_typed_part(batch, part) for part in mapping.keys])


def rows_from_form(form: pa.Table | pa.RecordBatch, mapping: Mapping) -> pa.Table:
    """Decodes rows in row form, whose columns are the mapping's values in order, to the mapping's schema.

    Does not copy text and bytes. Raises MappingError if a key or value can't be decoded.
    """
    rows = one_array(form.column(0))
    # By names, of which Python keeps the hash.
    arrays = dict(zip([key.name for key in mapping.keys], decoded_keys(mapping, rows), strict=True))
    for place, column in enumerate(mapping.values, start=1):
        arrays[column.name] = _decoded(mapping, column, one_array(form.column(place)), rows)
    return pa.Table.from_arrays([arrays[column.name] for column in mapping.columns], schema=mapping.schema)


def _typed(batch: pa.RecordBatch, column: MappedColumn | TimestampColumn) -> Array:
    """Returns a column of the input cast to the mapping's type."""
    if batch.schema.get_field_index(column.name) < 0:
        names = batch.schema.names
        what = "is in the data more than once" if column.name in names else "is not in the data"
        raise ColumnsRefusedError(f"the column {column.name!r} {what}; it has {', '.join(names)}")
    array = batch.column(column.name)
    wanted = column.arrow
    if isinstance(column, TimestampColumn) and pa.types.is_timestamp(array.type) and pa.types.is_timestamp(wanted):
        # Timestamps of cells have no more than milliseconds.
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
    try:
        return as_type(array, wanted)
    except (MappingError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MappingError(
            f"the column {column.name!r} is {array.type} and does not fit {column.type_text}: {error}"
        ) from error


def _typed_part(batch: pa.RecordBatch, part: MappedColumn) -> Array:
    try:
        return _typed(batch, part)
    except MappingError as refused:
        place, error = _refused(batch, part, refused)
        value = _shown(batch.column(part.name), place)
        raise MappingError(f"{error}; in row {place} this part of the key is {value}") from error


def _encoded(batch: pa.RecordBatch, mapping: Mapping, column: MappedColumn, keys: Array) -> Array:
    try:
        return _encoded_values(batch, column)
    except MappingError as refused:
        place, error = _refused(batch, column, refused)
        key: bytes = keys[place].as_py()
        raise MappingError(
            f"{error}; it is row {place}, with the key {KeyCodec(mapping).shown(key)} and the value "
            f"{_shown(batch.column(column.name), place)}",
            row=key,
            family=column.family,
            qualifier=column.qualifier,
        ) from error


def _encoded_values(batch: pa.RecordBatch, column: MappedColumn) -> Array:
    array = _typed(batch, column)
    try:
        return column.codec.encode(array)
    except MappingError as error:
        raise MappingError(f"the column {column.name!r} can't be written: {error}") from error


def _refused(batch: pa.RecordBatch, column: MappedColumn, refused: MappingError) -> tuple[int, MappingError]:
    """Returns the first row whose value can't be written, and its error. Raises `refused` if no single row is wrong."""

    def encode(values: Array) -> Array:
        return _encoded_values(pa.RecordBatch.from_arrays([values], [column.name]), column)

    if batch.schema.get_field_index(column.name) < 0:
        raise refused
    values = batch.column(column.name)
    try:
        encode(pa.nulls(1, values.type))
    except MappingError:
        raise ColumnsRefusedError(refused.message) from refused.__cause__
    place = first_refused(encode, values)
    try:
        encode(values.slice(place, 1))
    except MappingError as error:
        # The error of this value alone: Arrow's message names the last bad value of an array.
        return place, error
    raise refused


def _shown(values: Array, place: int) -> str:
    """Returns a value for a message, shortened; also a value that Python can't represent."""
    one = values.slice(place, 1)
    if isinstance(one.type, pa.DictionaryType):
        one = one.cast(one.type.value_type)
    try:
        value: object = one[0].as_py()
    except (ValueError, OverflowError):
        # A date or time beyond Python's years.
        number = one.view(pa.int32() if one.type == pa.date32() else pa.int64())
        return f"{number[0]} ({one.type})"
    return f"{value!r:.100}" if isinstance(value, bytes | str) else f"{value!s:.100}"


def _decoded(mapping: Mapping, column: MappedColumn, values: Array, rows: Array) -> Array:
    try:
        return column.codec.decode(values)
    except MappingError as refused:
        place, reason = first_unreadable(column, values, refused)
        row: bytes = rows[place].as_py()
        raise MappingError(
            f"{column.column.decode(errors='backslashreplace')} of row {KeyCodec(mapping).shown(row)} can't be read "
            f"as {column.type_text} {column.encoding}: {reason}",
            row=row,
            family=column.family,
            qualifier=column.qualifier,
        ) from refused
