"""Bulk batches of rows: validates BulkRows, and returns a RowBatch that is safe to read.

Beside what untrusted_batches.py verifies:

1. The batch names 1 to COLUMNS_MAX columns, each family and qualifier once.
2. Its schema is exactly that of the message's definition: row, timestamp, then the columns, named by their numbers, and
   exactly as many as are named.
3. A fixed-size column has a width of at least 1: of a width of 0, a few bytes could declare any number of rows.

Bytes under nulls are not the batch's, whatever a client's memory had there: they are dropped, so that no reader and no
file gets them.

Families, sizes and timestamps depend on the table: they are checked with it (region/bulk/check_rows.py).
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pyarrow as pa
from rowlock_proto.shown_names import column_text
from rowlock_proto.v1.region_pb2 import BulkRows

from rowlock_regionserver.arrow.line_values import without_bytes_below_nulls
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.rpc.messages.untrusted_batches import untrusted_batch

COLUMNS_MAX = 10_000

_ROW = pa.field("row", pa.binary(), nullable=False)
_TIMESTAMP = pa.field("timestamp", pa.int64())
# The columns before those of the table.
_COLUMNS_BEFORE = 2


def row_batch(message: BulkRows, arrow: bytes | pa.Buffer, bytes_max: int) -> RowBatch:
    """Returns the batch with these Arrow bytes, without copying its values.

    Raises LimitExceededError and InvalidRequestError.
    """
    count = len(message.columns)
    if not 1 <= count <= COLUMNS_MAX:
        raise InvalidRequestError(f"the bulk batch names {count} columns; name 1 to {COLUMNS_MAX}, or send cells")
    names = tuple([(column.family, column.qualifier) for column in message.columns])
    if len(set(names)) < count:
        ((family, qualifier), _), *_ = Counter(names).most_common(1)
        raise InvalidRequestError(
            f"the bulk batch names column {column_text(family, qualifier)} more than once; name each column once"
        )
    check = partial(_check_schema, column_count=count)
    batch = untrusted_batch(arrow, message.uncompressed_bytes, bytes_max, "BulkRows.arrow", check)
    rows, timestamps, *columns = batch.columns
    values = tuple([without_bytes_below_nulls(column) for column in columns])
    return RowBatch(rows, timestamps, names, values, message.nulls_delete)


def _check_schema(schema: pa.Schema, column_count: int) -> None:
    if len(schema) != _COLUMNS_BEFORE + column_count:
        raise InvalidRequestError(
            f"the bulk batch's schema has {len(schema)} columns, but must have row, timestamp and the {column_count} "
            "that BulkRows.columns names"
        )
    if not schema.field(0).equals(_ROW):
        raise _wrong_field(schema.field(0), str(_ROW))
    if not schema.field(1).equals(_TIMESTAMP):
        raise _wrong_field(schema.field(1), str(_TIMESTAMP))
    for place in range(column_count):
        field = schema.field(_COLUMNS_BEFORE + place)
        if field.name != str(place) or not field.nullable or not _is_binary(field.type):
            raise _wrong_field(field, f"{place}: binary, or {place}: fixed_size_binary of a width of at least 1")


def _is_binary(data_type: pa.DataType) -> bool:
    if pa.types.is_fixed_size_binary(data_type):
        return data_type.byte_width >= 1
    return data_type == pa.binary()


def _wrong_field(found: pa.Field[pa.DataType], expected: str) -> InvalidRequestError:
    return InvalidRequestError(f"the bulk batch's schema has the column {str(found)[:200]} where {expected} must be")
