"""Bulk batches: the messages of a bulk stream.

A batch has its cells as they are, or in rows (bulk_rows.py). Both are untrusted Arrow bytes: untrusted_batches.py
verifies everything before a value is read. They are read where they are in the message, and its columns stay there.
"""

from __future__ import annotations

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.engine.interfaces import BatchBytes
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.rpc.messages.bulk_rows import row_batch
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.messages.failures import error_message, parsed
from rowlock_regionserver.rpc.messages.large_field import large_field
from rowlock_regionserver.rpc.messages.mutations import check_client_id, request_id
from rowlock_regionserver.rpc.messages.sessions import session_ref
from rowlock_regionserver.rpc.messages.untrusted_batches import untrusted_batch

# The schema of BulkBatch.arrow. The log and bulk files have another one, FAMILY_CELLS_SCHEMA (region/bulk/arranged.py).
BULK_SCHEMA = pa.schema(
    (
        pa.field("row", pa.binary(), nullable=False),
        pa.field("family", pa.binary(), nullable=False),
        pa.field("qualifier", pa.binary(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("value", pa.binary()),
    )
)

# The numbers of the fields `rows.arrow` and `arrow` of BulkBatch.
_ROWS_ARROW, _CELLS_ARROW = (9, 1), (2,)
# Arrow's numbers begin at multiples of this.
_ALIGNMENT = 8

# How often a batch in doubt can be cut because its region was split once more.
_WHOLES_MAX = 64


class BulkMessages:
    """The messages of a bulk stream: engine.interfaces.BulkCodec."""

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max = request_bytes_max

    def parse(self, data: BatchBytes) -> BulkPut:
        for path in (_ROWS_ARROW, _CELLS_ARROW):
            field = large_field(data, path)
            if field is not None:
                message = parsed(region_pb2.BulkBatch, field.rest)
                if message.HasField("rows") == (path == _ROWS_ARROW):
                    return BulkPut(message, _aligned(data, field.start, field.stop), self._request_bytes_max)
        message = parsed(region_pb2.BulkBatch, bytes(data))
        arrow = message.rows.arrow if message.HasField("rows") else message.arrow
        return BulkPut(message, pa.py_buffer(arrow), self._request_bytes_max)

    def answer(self, outcome: BulkOutcome | Exception) -> bytes:
        if isinstance(outcome, Exception):
            answer = region_pb2.BulkAnswer(error=error_message(outcome, "applying a bulk batch"))
        else:
            answer = region_pb2.BulkAnswer(
                cell_count=outcome.cell_count,
                row_count=outcome.row_count,
                timestamp=outcome.timestamp,
                repeated_request=outcome.repeated_request,
                staged_batch=outcome.staged_batch,
            )
        return answer.SerializeToString()


class BulkPut:
    """One batch: engine.interfaces.BulkRequest."""

    def __init__(self, message: region_pb2.BulkBatch, arrow: pa.Buffer, request_bytes_max: int) -> None:
        """`arrow`: the Arrow bytes; the message may have them too."""
        self._message = message
        self._arrow = arrow
        self._request_bytes_max = request_bytes_max
        self.region_id = message.region_id
        self.session = session_ref(message.stage) if message.HasField("stage") else None

    def read(self) -> tuple[BulkBatch, RequestId | None, Durability | None]:
        message = self._message
        check_client_id(message.client_id)
        request = _request_id(message)
        wanted = durability(message.durability)
        if not message.HasField("rows"):
            return bulk_table(self._arrow, message.uncompressed_bytes, self._request_bytes_max), request, wanted
        if message.arrow or message.uncompressed_bytes:
            raise InvalidRequestError("the bulk batch has both cells and rows; set either `arrow` or `rows`")
        return row_batch(message.rows, self._arrow, self._request_bytes_max), request, wanted


def _aligned(message: BatchBytes, start: int, stop: int) -> pa.Buffer:
    """Returns these bytes of a message; a copy of them only if Arrow could not read its numbers there."""
    buffer = pa.py_buffer(message).slice(start, stop - start)
    return pa.py_buffer(buffer.to_pybytes()) if buffer.address % _ALIGNMENT else buffer


def _request_id(message: region_pb2.BulkBatch) -> RequestId | None:
    request = request_id(message.client_id, message.sequence, message.sequence_floor, message.age_ms)
    wholes = message.parts_of
    if not wholes:
        return request
    if request is None or message.sequence in wholes or 0 in wholes or len(wholes) > _WHOLES_MAX:
        raise InvalidRequestError(
            f"BulkBatch.parts_of has {len(wholes)} sequences, and the batch has the sequence {message.sequence}: name "
            f"1 to {_WHOLES_MAX} batches that this one is a part of, and give it a sequence of its own"
        )
    return request._replace(parts_of=tuple(wholes))


def bulk_table(data: bytes | pa.Buffer, uncompressed_bytes: int, bytes_max: int) -> pa.Table:
    """Returns the batch as a table of BULK_SCHEMA, without copying the bytes.

    Raises LimitExceededError for a batch that is too large, and InvalidRequestError for any other invalid batch.
    """
    batch = untrusted_batch(data, uncompressed_bytes, bytes_max, "BulkBatch.arrow", _check_schema)
    return pa.Table.from_batches([batch], BULK_SCHEMA)


def _check_schema(schema: pa.Schema) -> None:
    if not schema.equals(BULK_SCHEMA):
        raise InvalidRequestError(f"the bulk batch's schema is\n{schema}\nbut must be\n{BULK_SCHEMA}")
