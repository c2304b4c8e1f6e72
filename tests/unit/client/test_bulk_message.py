"""The message of a bulk batch is the one that protobuf would make, with Arrow bytes that a server need not copy."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock._codec.bulk_message import bulk_message
from rowlock_proto.v1.region_pb2 import BulkBatch


def batch_of(row_count: int) -> pa.RecordBatch:
    keys = [b"key %d" % number for number in range(row_count)]
    return pa.RecordBatch.from_pydict({"row": keys, "0": [b"v" * (number % 7) for number in range(row_count)]})


def read(arrow: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(arrow) as reader:
        [batch] = reader
    return batch


def message_of(message: BulkBatch, batch: pa.RecordBatch) -> tuple[bytes, int]:
    """Returns the message, and how many of its bytes, the last ones, are Arrow's."""
    pieces = bulk_message(message, batch)
    return b"".join(pieces), sum(map(len, pieces[1:]))


@pytest.mark.parametrize("row_count", [1, 40, 5000])
@pytest.mark.parametrize("name_bytes", range(9))
def test_arrow_bytes_of_rows_begin_at_a_multiple_of_eight(row_count: int, name_bytes: int) -> None:
    message, batch = BulkBatch(region_id=3, client_id=bytes(16), parts_of=[1, 2]), batch_of(row_count)
    message.rows.nulls_delete = True
    message.rows.columns.add(family=b"f", qualifier=b"q" * name_bytes)
    data, arrow_bytes = message_of(message, batch)
    found = BulkBatch.FromString(data)
    assert read(found.rows.arrow) == batch
    assert data.index(found.rows.arrow) % 8 == 0
    assert arrow_bytes == len(found.rows.arrow)
    assert found.rows.uncompressed_bytes == batch.nbytes
    found.rows.ClearField("padding")
    found.rows.ClearField("arrow")
    found.rows.ClearField("uncompressed_bytes")
    expected = BulkBatch(region_id=3, client_id=bytes(16), parts_of=[1, 2])
    expected.rows.nulls_delete = True
    expected.rows.columns.add(family=b"f", qualifier=b"q" * name_bytes)
    assert found == expected


def test_arrow_bytes_are_aligned_where_a_longer_padding_needs_a_longer_length() -> None:
    for name_bytes in range(60, 140):
        message = BulkBatch(region_id=3)
        message.rows.columns.add(family=b"f", qualifier=b"q" * name_bytes)
        empty = pa.RecordBatch.from_pydict({})
        for batch in (empty, batch_of(1)):
            sent = BulkBatch()
            sent.CopyFrom(message)
            data, arrow_bytes = message_of(sent, batch)
            assert (len(data) - arrow_bytes) % 8 == 0
            assert BulkBatch.FromString(data).rows.columns == message.rows.columns


def test_cells_are_the_arrow_bytes_of_the_message() -> None:
    batch = batch_of(40)
    data, arrow_bytes = message_of(BulkBatch(region_id=3, sequence=7), batch)
    found = BulkBatch.FromString(data)
    assert read(found.arrow) == batch
    assert (found.region_id, found.sequence, found.uncompressed_bytes) == (3, 7, batch.nbytes)
    assert arrow_bytes == len(found.arrow)
    assert not found.HasField("rows")


def test_a_slice_of_a_batch_is_sent_without_the_rest() -> None:
    whole = batch_of(5000)
    data, _ = message_of(BulkBatch(), whole.slice(100, 10))
    assert read(BulkBatch.FromString(data).arrow) == whole.slice(100, 10)
    assert len(data) < 5000
