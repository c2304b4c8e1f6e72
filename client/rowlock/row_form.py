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


def is_asked(template: region_pb2.ScanRequest, column: FormColumn) -> bool:
    """Whether the request's columns have it; if not, the server would refuse it in the form."""
    return not template.columns or any(
        asked.family == column.family and (not asked.HasField("qualifier") or asked.qualifier == column.qualifier)
        for asked in template.columns
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
        is_sent = [is_asked(template, column) for column in columns]
        sent = [column for column, is_there in zip(columns, is_sent, strict=True) if is_there]
        places = [sum(is_sent[:index]) + 1 if is_there else None for index, is_there in enumerate(is_sent)]
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
