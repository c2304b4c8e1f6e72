"""Scans in row form: the server returns one Arrow row per table row, with the requested columns.

A batch has the columns `row` (binary, not null) and "0", "1", ... for the form's columns in order: binary for a value,
int64 for a timestamp, null if the row has no such cell. Both are of the newest version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

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
    """Reads the batches of one scan in row form. sent: the schema of the server's batches; returned: of the result."""

    sent: pa.Schema
    returned: pa.Schema
    # For each returned column, its place in the sent ones; None: it was not requested, and is null.
    places: tuple[int | None, ...]

    @classmethod
    def of(cls, columns: Sequence[FormColumn], template: region_pb2.ScanRequest) -> RowFormReader:
        """Returns the reader of a scan with these columns, whose requests are made from the template."""
        requested = RequestedColumns(template)
        sent = [column for column in columns if column in requested]
        # After the column `row`, in the same order.
        sent_places = iter(range(1, len(sent) + 1))
        places = [next(sent_places) if column in requested else None for column in columns]
        return cls(form_schema(sent), form_schema(columns), (0, *places))

    def read(self, arrow: bytes | pa.Buffer) -> pa.Table:
        """Returns the rows of a batch, without copying. Raises ServerError unless they are valid and fit `sent`."""
        try:
            with pa.ipc.open_stream(pa.py_buffer(arrow)) as reader:
                table = reader.read_all()
            if not table.schema.equals(self.sent, check_metadata=False):
                raise ServerError(f"a batch of a scan has the wrong schema: {table.schema}")
            # Otherwise a forged offset could lead outside of the buffer.
            table.validate(full=True)
        except (pa.ArrowInvalid, OSError) as error:
            raise ServerError(f"a batch of a scan is damaged: {error}") from error
        if None not in self.places:
            return table
        arrays = [
            pa.nulls(table.num_rows, field.type) if place is None else table.column(place)
            for place, field in zip(self.places, self.returned, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.returned)


def form_schema(columns: Sequence[FormColumn]) -> pa.Schema:
    """Returns the schema of batches in row form."""
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
    for place, column in enumerate(columns):
        fields.append(pa.field(str(place), pa.int64()) if column.is_timestamp else pa.field(str(place), pa.binary()))
    return pa.schema(fields)
