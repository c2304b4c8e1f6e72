"""The request that sends puts of a batch as columns. Apart from put_rows.py, because it imports pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.arrow_buffers import integers_array, names_array
from rowlock._codec.bulk_rows import BulkRows, bulk_rows, fill_arrow
from rowlock._core.put_rows import PutRow, columns_of


def put_rows_message(rows: Sequence[PutRow], durability: types_pb2.Durability) -> region_pb2.PointRequests:
    """Returns a message with one request that puts the rows, in their order."""
    message = region_pb2.PointRequests()
    put_rows = message.requests.add().put_rows
    put_rows.durability = durability
    put_rows.sequences.extend([row.sequence for row in rows])
    data = _as_columns(rows)
    for family, qualifier in data.columns:
        put_rows.rows.columns.add(family=family, qualifier=qualifier)
    fill_arrow(put_rows.rows, data.batch)
    return message


def _as_columns(rows: Sequence[PutRow]) -> BulkRows:
    columns = columns_of(rows)
    values: Iterable[Sequence[bytes | None]]
    if all(row.columns is columns for row in rows):
        values = zip(*[row.values for row in rows], strict=True)
    else:
        by_column = [dict(zip(row.columns, row.values, strict=True)) for row in rows]
        values = [[of_row.get(column) for of_row in by_column] for column in columns]
    return bulk_rows(
        columns,
        names_array([row.row for row in rows]),
        list(map(names_array, values)),
        integers_array([row.timestamp for row in rows]),
        nulls_delete=False,
    )
