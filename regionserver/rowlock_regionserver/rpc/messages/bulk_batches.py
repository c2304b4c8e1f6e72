"""Bulk batches: Arrow bytes from a stranger, as a table that can't hurt.

Arrow's parser believes what it is told, so everything is proved before a cell is looked at, in this order:

1. The declared size is within the limit, and so are the bytes themselves.
2. The stream is one schema message and one record batch message, and nothing else.
3. The schema is ours exactly, nullability included, in the machine's byte order; so there are no dictionaries,
   nested types or views whose reading could take memory of its own.
4. The record batch is not compressed: uncompressed, it can't become larger than the bytes that came.
5. Its buffers are together not larger than declared; several buffers may name the same bytes.
6. Offsets ascend and stay inside their buffers, and null counts are true (`validate(full=True)`).
7. Nothing is null in row, family and qualifier.

`MessageReader` verifies a message's flatbuffer before it is handed out; nothing is read of it here that was not.
"""

from __future__ import annotations

import struct

import pyarrow as pa
from rowlock_proto.v1.region_pb2 import BulkAnswer, BulkBatch

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.rpc.messages.changes import check_client_id, request_id
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.messages.failures import error_message, parsed

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
    """The batch as a table of BULK_SCHEMA over the given bytes. Raises InvalidRequestError for anything else."""
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
            "the bulk batch is compressed; write it without IpcWriteOptions(compression=...), gRPC can compress it"
        )
    batch = pa.ipc.read_record_batch(message, BULK_SCHEMA)
    buffer_bytes = sum(len(buffer) for column in batch.columns for buffer in column.buffers() if buffer is not None)
    if buffer_bytes > _declared_max(uncompressed_bytes):
        raise InvalidRequestError(
            f"the bulk batch's buffers have {buffer_bytes} bytes, but uncompressed_bytes says {uncompressed_bytes}; "
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
    raise InvalidRequestError("the bulk batch holds more than one record batch; send each as a batch of its own")


def _declared_max(uncompressed_bytes: int) -> int:
    """What the buffers may have in sum; writers pad each of them to 64 bytes, or don't."""
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
    """Whether a record batch message, whose flatbuffer was verified, says that its body is compressed."""
    flatbuffer = memoryview(metadata)
    (root,) = struct.unpack_from("<I", flatbuffer, 0)
    header_at = _field_position(flatbuffer, root, _MESSAGE_HEADER)
    if header_at is None:
        raise InvalidRequestError("the bulk batch's record batch message has no header; send a whole Arrow IPC stream")
    record_batch = header_at + struct.unpack_from("<I", flatbuffer, header_at)[0]
    return _field_position(flatbuffer, record_batch, _RECORD_BATCH_COMPRESSION) is not None


def _field_position(flatbuffer: memoryview, table: int, field: int) -> int | None:
    """Where the field of the table at this position lies; None when the table does not have it."""
    (back_to_vtable,) = struct.unpack_from("<i", flatbuffer, table)
    vtable = table - back_to_vtable
    (vtable_bytes,) = struct.unpack_from("<H", flatbuffer, vtable)
    entry = 4 + 2 * field
    if entry + 2 > vtable_bytes:
        return None
    (offset,) = struct.unpack_from("<H", flatbuffer, vtable + entry)
    return table + offset if offset else None
