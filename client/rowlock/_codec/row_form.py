"""Scans in row form: one line a row, with the columns that were asked, laid out by the server.

A batch has the columns `row` (binary, not null) and "0", "1", ... for the form's columns in order: binary for a value,
int64 for a timestamp, null where the row has no such cell. Of several versions it is the newest one's.
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
    """The values of a mapping's columns, in their order."""
    return tuple(FormColumn(column.family, column.qualifier) for column in mapping.values)


class ColumnsAsked:
    """Which columns a request asks for; the server refuses others in the form. O(1) each."""

    def __init__(self, template: region_pb2.ScanRequest) -> None:
        self._is_everything = not template.columns
        self._families = {asked.family for asked in template.columns if not asked.HasField("qualifier")}
        self._columns = {(asked.family, asked.qualifier) for asked in template.columns if asked.HasField("qualifier")}

    def __contains__(self, column: FormColumn) -> bool:
        return (
            self._is_everything or column.family in self._families or (column.family, column.qualifier) in self._columns
        )


@dataclass(frozen=True, slots=True)
class RowFormReader:
    """Reads the batches of one scan in row form: `sent` as they come, `asked` as they are handed on."""

    sent: pa.Schema
    asked: pa.Schema
    # For each column asked its place in what is sent; None: it was not sent for, and is null.
    places: tuple[int | None, ...]

    @classmethod
    def of(cls, columns: Sequence[FormColumn], template: region_pb2.ScanRequest) -> RowFormReader:
        """Of a scan that was asked for these columns and sends such requests."""
        asked = ColumnsAsked(template)
        sent = [column for column in columns if column in asked]
        # Behind the row, in the same order.
        sent_places = iter(range(1, len(sent) + 1))
        places = [next(sent_places) if column in asked else None for column in columns]
        return cls(form_schema(sent), form_schema(columns), (0, *places))

    def read(self, arrow: bytes | pa.Buffer) -> pa.Table:
        """The rows of a batch, in its memory; raises ServerError unless they are valid and what was asked."""
        try:
            with pa.ipc.open_stream(pa.py_buffer(arrow)) as reader:
                table = reader.read_all()
            if not table.schema.equals(self.sent, check_metadata=False):
                raise ServerError(f"a batch of a scan has the wrong schema: {table.schema}")
            # A forged offset would otherwise be followed out of the buffer.
            table.validate(full=True)
        except (pa.ArrowInvalid, OSError) as error:
            raise ServerError(f"a batch of a scan is not what the server sent: {error}") from error
        if None not in self.places:
            return table
        arrays = [
            pa.nulls(table.num_rows, field.type) if place is None else table.column(place)
            for place, field in zip(self.places, self.asked, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.asked)


def form_schema(columns: Sequence[FormColumn]) -> pa.Schema:
    """The schema of batches in row form."""
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
    for place, column in enumerate(columns):
        fields.append(pa.field(str(place), pa.int64()) if column.is_timestamp else pa.field(str(place), pa.binary()))
    return pa.schema(fields)
