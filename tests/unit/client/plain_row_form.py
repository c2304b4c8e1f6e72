"""The row form of cells, in plain Python: what a server answers to a scan in row form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from rowlock._codec.mapped_rows import bulk_rows_of, rows_from_form
from rowlock._codec.row_form import FormColumn, form_of
from rowlock._codec.scan_message import ScanMessage
from rowlock.mapping import Mapping
from rowlock_proto.v1 import region_pb2

TIMESTAMP = region_pb2.RowFormColumn.PART_TIMESTAMP


def cells_from_rows(batch: pa.RecordBatch, mapping: Mapping, timestamp: int | None) -> pa.RecordBatch:
    """Returns the cells of typed rows, through their wide form."""
    return bulk_rows_of(batch, mapping, timestamp).cells()


def form_schema(columns: Sequence[FormColumn]) -> pa.Schema:
    """Returns the schema of batches in row form, without fixed-size columns."""
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
    for place, column in enumerate(columns):
        fields.append(pa.field(str(place), pa.int64() if column.is_timestamp else pa.binary()))
    return pa.schema(fields)


def laid_out(cells: pa.Table, columns: Sequence[FormColumn]) -> pa.Table:
    """Returns cells of whole rows in row form, with the newest version of each column, which is the first."""
    lines: dict[object, list[object]] = {}
    for cell in cells.to_pylist():
        line = lines.setdefault(cell["row"], [None] * len(columns))
        for place, column in enumerate(columns):
            if (cell["family"], cell["qualifier"]) == (column.family, column.qualifier) and line[place] is None:
                line[place] = cell["timestamp" if column.is_timestamp else "value"]
    schema = form_schema(columns)
    data = [list(lines), *([line[place] for line in lines.values()] for place in range(len(columns)))]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(data, schema, strict=True)], schema=schema
    )


def rows_from_cells(cells: pa.Table, mapping: Mapping) -> pa.Table:
    """Returns rows of the mapping's schema, through the row form."""
    return rows_from_form(laid_out(cells, form_of(mapping)), mapping)


def as_requested(request: region_pb2.ScanRequest, batch: region_pb2.ScanBatch) -> region_pb2.ScanBatch:
    """Returns a batch of cells as the request asks for it: in row form if it has one. Passes one in row form."""
    if not request.HasField("row_form"):
        return batch
    columns = [FormColumn(item.family, item.qualifier, item.part == TIMESTAMP) for item in request.row_form.columns]
    with pa.ipc.open_stream(batch.arrow) as reader:
        found = reader.read_all()
    if "family" not in found.schema.names:
        return batch
    table = laid_out(found, columns)
    return region_pb2.ScanBatch(arrow=stream_of(table), row_count=table.num_rows, row_reached=batch.row_reached)


def message_of(table: pa.Table) -> ScanMessage:
    """The table as a batch of a scan."""
    return ScanMessage(pa.py_buffer(stream_of(table)), None, False, 0, table.num_rows, b"")


def stream_of(table: pa.Table) -> bytes:
    """The table as a whole IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
