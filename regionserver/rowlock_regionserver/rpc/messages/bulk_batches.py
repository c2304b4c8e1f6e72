"""Bulk batches: validates untrusted Arrow bytes, and returns them as a table that is safe to read.

Arrow's parser trusts its input, so everything is verified before a cell is read, in this order:

1. The declared size is within the limit, and so are the bytes themselves.
2. The stream is one schema message and one record batch message, and nothing else.
3. The schema is exactly BULK_SCHEMA, nullability included, in the machine's byte order; so there are no dictionaries,
   nested types or views, which could need extra memory when they are read.
4. The record batch is not compressed: uncompressed, it can't become larger than the received bytes.
5. Its buffers together are not larger than declared; several buffers may refer to the same bytes.
6. Offsets ascend and stay inside their buffers, and null counts are correct (`validate(full=True)`).
7. Row, family and qualifier have no nulls.

`MessageReader` verifies a message's flatbuffer before it returns the message, so this module reads only verified bytes.
"""

from __future__ import annotations

import struct

import pyarrow as pa
from rowlock_proto.v1.region_pb2 import BulkAnswer, BulkBatch

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.messages.failures import error_message, parsed
from rowlock_regionserver.rpc.messages.mutations import check_client_id, request_id

# The schema of BulkBatch.arrow. The log and bulk files have another one, FAMILY_CELLS_SCHEMA (bulk_cells.py).
BULK_SCHEMA = pa.schema(
    (
        pa.field("row", pa.binary(), nullable=False),
        pa.field("family", pa.binary(), nullable=False),
        pa.field("qualifier", pa.binary(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("value", pa.binary()),
    )
)

# Positions in the flatbuffer tables Message and RecordBatch, from Arrow's format/Message.fbs.
_MESSAGE_HEADER = 2
_RECORD_BATCH_COMPRESSION = 3


class BulkMessages:
    """The messages of a bulk stream: engine.interfaces.BulkCodec."""

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max = request_bytes_max

    def parse(self, data: bytes) -> BulkPut:
        return BulkPut(parsed(BulkBatch, data), self._request_bytes_max)

    def answer(self, outcome: BulkOutcome | Exception) -> bytes:
        if isinstance(outcome, Exception):
            answer = BulkAnswer(error=error_message(outcome, "applying a bulk batch"))
        else:
            answer = BulkAnswer(
                cell_count=outcome.cell_count,
                row_count=outcome.row_count,
                timestamp=outcome.timestamp,
                repeated_request=outcome.repeated_request,
            )
        return answer.SerializeToString()


class BulkPut:
    """One batch: engine.interfaces.BulkRequest."""

    def __init__(self, message: BulkBatch, request_bytes_max: int) -> None:
        self._message = message
        self._request_bytes_max = request_bytes_max
        self.region_id = message.region_id

    def read(self) -> tuple[pa.Table, RequestId | None, Durability | None]:
        message = self._message
        check_client_id(message.client_id)
        request = request_id(message.client_id, message.sequence, message.sequence_floor, message.age_ms)
        wanted = durability(message.durability)
        return bulk_table(message.arrow, message.uncompressed_bytes, self._request_bytes_max), request, wanted


def bulk_table(data: bytes, uncompressed_bytes: int, bytes_max: int) -> pa.Table:
    """Returns the batch as a table of BULK_SCHEMA, without copying the bytes.

    Raises LimitExceededError for a batch that is too large, and InvalidRequestError for any other invalid batch.
    """
    if uncompressed_bytes > bytes_max or len(data) > bytes_max:
        found = max(uncompressed_bytes, len(data))
        raise LimitExceededError(
            f"the bulk batch has {found} bytes, more than request_bytes_max = {bytes_max}; send smaller batches",
            limit="request_bytes_max",
            limit_value=bytes_max,
            found=found,
        )
    try:
        batch = _record_batch(data, uncompressed_bytes)
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        raise InvalidRequestError(
            f"the bulk batch is not an Arrow IPC stream of the schema of BulkBatch.arrow: {error}"
        ) from None
    return pa.Table.from_batches([batch], BULK_SCHEMA)


def _record_batch(data: bytes, uncompressed_bytes: int) -> pa.RecordBatch:
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    schema_message = _next_message(messages, "schema")
    schema = pa.ipc.read_schema(schema_message)
    if not schema.equals(BULK_SCHEMA):
        raise InvalidRequestError(f"the bulk batch's schema is\n{schema}\nbut must be\n{BULK_SCHEMA}")
    message = _next_message(messages, "record batch")
    if _is_compressed(message.metadata):
        raise InvalidRequestError(
            "the bulk batch is compressed; write it without IpcWriteOptions(compression=...), and let gRPC compress it"
        )
    batch = pa.ipc.read_record_batch(message, BULK_SCHEMA)
    buffer_bytes = sum(len(buffer) for column in batch.columns for buffer in column.buffers() if buffer is not None)
    if buffer_bytes > _declared_max(uncompressed_bytes):
        raise InvalidRequestError(
            f"the bulk batch's buffers have {buffer_bytes} bytes, but uncompressed_bytes is {uncompressed_bytes}; "
            "set it to the sum of the buffers' lengths"
        )
    batch.validate(full=True)
    for name in ("row", "family", "qualifier"):
        if batch.column(name).null_count:
            raise InvalidRequestError(f"the bulk batch has a null in column {name}, which can't be null")
    try:
        messages.read_next_message()
    except StopIteration:
        return batch
    raise InvalidRequestError("the bulk batch has more than one record batch; send each as a separate bulk batch")


def _declared_max(uncompressed_bytes: int) -> int:
    """Returns the bound for the sum of the buffers; a writer may pad each of them to 64 bytes."""
    return uncompressed_bytes + 64 * 3 * len(BULK_SCHEMA)


def _next_message(messages: pa.ipc.MessageReader, kind: str) -> pa.ipc.Message:
    try:
        message = messages.read_next_message()
    except StopIteration:
        raise InvalidRequestError(
            f"the bulk batch ends before its {kind} message; send a whole Arrow IPC stream"
        ) from None
    if message.type != kind:
        raise InvalidRequestError(
            f"the bulk batch has a {message.type} message where a {kind} must be; send schema and one record batch, "
            "without dictionaries"
        )
    return message


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the verified flatbuffer of a record batch message declares a compressed body."""
    flatbuffer = memoryview(metadata)
    (root,) = struct.unpack_from("<I", flatbuffer, 0)
    header_at = _field_position(flatbuffer, root, _MESSAGE_HEADER)
    if header_at is None:
        raise InvalidRequestError("the bulk batch's record batch message has no header; send a whole Arrow IPC stream")
    record_batch = header_at + struct.unpack_from("<I", flatbuffer, header_at)[0]
    return _field_position(flatbuffer, record_batch, _RECORD_BATCH_COMPRESSION) is not None


def _field_position(flatbuffer: memoryview, table: int, field: int) -> int | None:
    """Returns the position of a field in the flatbuffer table at `table`; None if the table does not have the field."""
    (back_to_vtable,) = struct.unpack_from("<i", flatbuffer, table)
    vtable = table - back_to_vtable
    (vtable_bytes,) = struct.unpack_from("<H", flatbuffer, vtable)
    entry = 4 + 2 * field
    if entry + 2 > vtable_bytes:
        return None
    (offset,) = struct.unpack_from("<H", flatbuffer, vtable + entry)
    return table + offset if offset else None
