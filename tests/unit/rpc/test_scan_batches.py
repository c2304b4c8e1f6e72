"""Answers of scans: bytes assembled by hand equal the message that protobuf would make."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_proto.v1.region_pb2 import ScanBatch
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.rpc.messages.scan_batches import scan_batch
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.newest_rows import NewestRows


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


def test_newest_rows_are_the_message_of_the_protocol() -> None:
    names = [(b"f:a", b"f:b"), (b"f:b",)]
    rows = NewestRows([b"r1", b"r2", b"r3"], names, [0, 1, 0], [(b"1", b""), [b"x" * 300], (b"3", b"4")])
    data = scan_batch(ScanAnswer(rows, 3, row_continues=False), 7)
    message = ScanBatch.FromString(data)
    assert (message.row_count, message.read_point, message.arrow) == (3, 7, b"")
    found = message.newest_rows
    assert [tuple(each.columns) for each in found.column_sets] == names
    assert list(found.sets_of_rows) == [0, 1, 0]
    assert list(found.lengths) == [2, 1, 0, 2, 300, 2, 1, 1]
    assert found.data == b"r11r2" + b"x" * 300 + b"r334"


def test_newest_rows_of_the_same_columns_have_no_number_a_row() -> None:
    rows = NewestRows([b"r1", b"r2"], [(b"f:a",)], [0, 0], [(b"1",), (b"2",)])
    message = ScanBatch.FromString(scan_batch(ScanAnswer(rows, 2, row_continues=False), 7))
    assert not message.newest_rows.sets_of_rows
    assert message.newest_rows.data == b"r11r22"
