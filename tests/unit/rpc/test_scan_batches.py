"""Answers of scans: bytes assembled by hand equal the message that protobuf would make."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_proto.v1.region_pb2 import ScanBatch
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.rpc.messages.scan_batches import scan_batch
from rowlock_regionserver.scan.batches import ScanAnswer


def table(count: int, value_bytes: int = 3) -> pa.Table:
    return pa.table(
        {
            "row": pa.array([b"row%04d" % i for i in range(count)], pa.binary()),
            "family": pa.array([b"f"] * count, pa.binary()),
            "qualifier": pa.array([b""] * count, pa.binary()),
            "timestamp": pa.array(range(count), pa.int64()),
            "value": pa.array([b"v" * value_bytes] * count, pa.binary()),
        },
        schema=ANSWER_SCHEMA,
    )


@pytest.mark.parametrize("count", [0, 1, 3, 500])
@pytest.mark.parametrize("value_bytes", [0, 100, 40_000])
def test_protobuf_parses_the_assembled_bytes(count: int, value_bytes: int) -> None:
    sent = table(count, value_bytes)
    data = scan_batch(ScanAnswer(sent, count, row_continues=True, resume_key=b"reached"), 1 << 40)
    message = ScanBatch.FromString(data)
    assert (message.row_count, message.row_continues, message.read_point) == (count, True, 1 << 40)
    assert message.row_reached == b"reached"
    with pa.ipc.open_stream(message.arrow) as reader:
        assert reader.read_all().equals(sent)


def test_false_and_zero_are_left_out_as_protobuf_does() -> None:
    data = scan_batch(ScanAnswer(table(1), 0, row_continues=False), 0)
    message = ScanBatch.FromString(data)
    assert message.SerializeToString() == data


def test_chunks_become_record_batches_of_one_stream() -> None:
    sent = pa.concat_tables([table(2), table(3).slice(1), table(4)])
    message = ScanBatch.FromString(scan_batch(ScanAnswer(sent, 8, row_continues=False), 1))
    with pa.ipc.open_stream(message.arrow) as reader:
        batches = list(reader)
    assert [batch.num_rows for batch in batches] == [2, 2, 4]
    assert pa.Table.from_batches(batches).equals(sent)


def test_a_slice_sends_only_what_it_shows() -> None:
    assert len(scan_batch(ScanAnswer(table(1000, 1000).slice(500, 1), 1, row_continues=False), 1)) < 3000


def test_rows_in_row_form_travel_with_their_nulls_and_slices() -> None:
    sent = pa.table({"row": [b"a", b"b", b"c"], "0": [b"1", None, b"333"], "1": [None, 2, 3]}).slice(1)
    message = ScanBatch.FromString(scan_batch(ScanAnswer(sent, 2, row_continues=False), 1))
    with pa.ipc.open_stream(message.arrow) as reader:
        assert reader.read_all().equals(sent)
