"""Scans in row form: the server returns one Arrow row per table row, with the requested columns.

A batch has the columns `row` (binary, not null) and "0", "1", ... for the form's columns in order: binary or fixed-size
binary for a value, int64 for a timestamp, null if the row has no such cell. Both are of the newest version. A column is
fixed-size binary only where all its values have one length, so its type may differ from batch to batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_stream import StreamReader
from rowlock._codec.compressed_rows import decoded_rows
from rowlock._codec.scan_message import ScanMessage
from rowlock.errors import ServerError
from rowlock.mapping import Mapping


@dataclass(frozen=True, slots=True)
class FormColumn:
    """A column of the row form: a cell's value, or its timestamp."""

    family: bytes
    qualifier: bytes
    is_timestamp: bool = False


def form_of(mapping: Mapping) -> tuple[FormColumn, ...]:
    """Returns the row form of a mapping: the values of its columns, in order."""
    return tuple(FormColumn(column.family, column.qualifier) for column in mapping.values)


class RequestedColumns:
    """The set of columns that a request reads; the server refuses others in the row form. O(1) per lookup."""

    def __init__(self, template: region_pb2.ScanRequest) -> None:
        self._has_all = not template.columns
        self._families = {column.family for column in template.columns if not column.HasField("qualifier")}
        self._columns = {
            (column.family, column.qualifier) for column in template.columns if column.HasField("qualifier")
        }

    def __contains__(self, column: FormColumn) -> bool:
        return self._has_all or column.family in self._families or (column.family, column.qualifier) in self._columns


@dataclass(frozen=True, slots=True)
class RowFormReader:
    """Reads the batches of one scan in row form.

    sent: the columns of the server's batches. returned: those of the result.
    """

    sent: tuple[FormColumn, ...]
    returned: tuple[FormColumn, ...]
    # For each returned column, its place in the sent batch; None: it was not requested, and is null.
    places: tuple[int | None, ...]
    streams: StreamReader = field(default_factory=StreamReader, compare=False, repr=False)

    @classmethod
    def of(cls, columns: Sequence[FormColumn], template: region_pb2.ScanRequest) -> RowFormReader:
        """Returns the reader of a scan with these columns, whose requests are made from the template."""
        requested = RequestedColumns(template)
        sent = [column for column in columns if column in requested]
        # After the column `row`, in the same order.
        sent_places = iter(range(1, len(sent) + 1))
        places = [next(sent_places) if column in requested else None for column in columns]
        return cls(tuple(sent), tuple(columns), tuple(places))

    def read(self, message: ScanMessage) -> pa.Table:
        """Returns the rows of a batch. Raises ServerError unless they are valid and fit `sent`.

        Copies none, unless they are compressed.
        """
        if message.compressed is None:
            return self._returned(self.streams.read(message.arrow, self._fits, "a batch of a scan"))
        return self._returned(self._decompressed(message))

    def _decompressed(self, message: ScanMessage) -> pa.Table:
        assert message.compressed is not None, message
        keys, columns = decoded_rows(message.compressed, [column.is_timestamp for column in self.sent])
        has_keys = not keys.null_count
        if not has_keys and not message.row_reached:
            raise ServerError("a batch of compressed rows has neither keys nor a resume key")
        fields = [pa.field(str(number), column.type) for number, column in enumerate(columns)]
        schema = pa.schema([_ROW.with_nullable(not has_keys), *fields])
        return pa.Table.from_arrays([keys, *columns], schema=schema)

    def _returned(self, table: pa.Table) -> pa.Table:
        """Returns the table with the columns that were not requested, which are null."""
        if None not in self.places:
            return table
        arrays = [table.column(0)]
        fields = [table.schema.field(0)]
        for number, (column, place) in enumerate(zip(self.returned, self.places, strict=True)):
            if place is None:
                absent = pa.int64() if column.is_timestamp else pa.binary()
                arrays.append(pa.chunked_array([pa.nulls(table.num_rows, absent)]))
            else:
                arrays.append(table.column(place))
            fields.append(pa.field(str(number), arrays[-1].type))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _fits(self, schema: pa.Schema) -> bool:
        """Returns whether a batch has the columns of `sent`, each with one of its types."""
        if len(schema) != len(self.sent) + 1 or not schema.field(0).equals(_ROW):
            return False
        # Any: the stubs type a field by its type.
        fields: list[pa.Field[Any]] = [schema.field(place) for place in range(1, len(schema))]
        return all(
            field.name == str(number) and field.nullable and _can_be(field.type, column)
            for number, (field, column) in enumerate(zip(fields, self.sent, strict=True))
        )


_ROW = pa.field("row", pa.binary(), nullable=False)


def _can_be(kind: pa.DataType, column: FormColumn) -> bool:
    """Returns whether a column of the form may have this type."""
    if column.is_timestamp:
        return bool(kind == pa.int64())
    return kind == pa.binary() or pa.types.is_fixed_size_binary(kind)
