"""Reads one record batch from untrusted Arrow bytes.

Arrow's parser trusts its input, so everything is verified before a value is read, in this order:

1. The declared size is within the limit, and so are the bytes themselves.
2. The stream is one schema message and one record batch message, and nothing else.
3. The schema is one that the caller accepts; it must have neither dictionaries, nested types nor views, which could
   need extra memory when they are read.
4. The record batch is not compressed: uncompressed, it can't become larger than the received bytes.
5. Its buffers together are not larger than declared; several buffers may refer to the same bytes.
6. Offsets ascend and stay inside their buffers, and null counts are correct (`validate(full=True)`).
7. Columns that are not nullable have no nulls.

`MessageReader` verifies a message's flatbuffer before it returns the message, so this module reads only verified bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pyarrow as pa

from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.process_limits import memory_error_refused

# Positions in the flatbuffer tables Message and RecordBatch, from Arrow's format/Message.fbs.
_MESSAGE_HEADER = 2
_RECORD_BATCH_COMPRESSION = 3
# A column has up to three buffers, and a writer may pad each of them to 64 bytes.
_PADDING_BYTES_MAX = 3 * 64


def untrusted_batch(
    data: bytes | pa.Buffer,
    uncompressed_bytes: int,
    bytes_max: int,
    field: str,
    check_schema: Callable[[pa.Schema], None],
) -> pa.RecordBatch:
    """Returns the batch, without copying the bytes. `field`: what the bytes are, for messages.

    `check_schema` raises InvalidRequestError for a schema that the caller does not accept. Raises LimitExceededError
    for a batch that is too large, InvalidRequestError for any other invalid batch, and OutOfMemoryError.
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
        with memory_error_refused(f"the bulk batch in {field}"):  # Arrow's, too: the batch may be good.
            return _record_batch(data, uncompressed_bytes, check_schema)
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        raise InvalidRequestError(
            f"the bulk batch is not an Arrow IPC stream of the schema of {field}: {error}"
        ) from None


def _record_batch(
    data: bytes | pa.Buffer, uncompressed_bytes: int, check_schema: Callable[[pa.Schema], None]
) -> pa.RecordBatch:
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    schema = pa.ipc.read_schema(_next_message(messages, "schema"))
    check_schema(schema)
    message = _next_message(messages, "record batch")
    if _is_compressed(message.metadata):
        raise InvalidRequestError(
            "the bulk batch is compressed; write it without IpcWriteOptions(compression=...), and let gRPC compress it"
        )
    batch = pa.ipc.read_record_batch(message, schema)
    buffer_bytes = sum(len(buffer) for column in batch.columns for buffer in column.buffers() if buffer is not None)
    if buffer_bytes > uncompressed_bytes + _PADDING_BYTES_MAX * batch.num_columns:
        raise InvalidRequestError(
            f"the bulk batch's buffers have {buffer_bytes} bytes, but uncompressed_bytes is {uncompressed_bytes}; "
            "set it to the sum of the buffers' lengths"
        )
    batch.validate(full=True)
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidRequestError(f"the bulk batch has a null in column {field.name}, which can't be null")
    try:
        messages.read_next_message()
    except StopIteration:
        return batch
    raise InvalidRequestError("the bulk batch has more than one record batch; send each as a separate bulk batch")


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
