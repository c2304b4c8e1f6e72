"""Answers of scans: bytes assembled by hand equal the message that protobuf would make."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_proto.v1.region_pb2 import ScanBatch
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.engine.encoded_message import MessageParts, joined
from rowlock_regionserver.rpc.messages.scan_batches import HELD_SHARE_MAX, PART_BYTES_MIN, scan_message
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


def scan_batch(answer: ScanAnswer, read_point: int) -> bytes:
    return joined(scan_message(answer, read_point))


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


def test_large_values_are_sent_from_the_memory_of_their_table() -> None:
    sent = pa.concat_tables([table(100, 10_000).slice(10, 50), table(60, 20_000)])
    message = scan_message(ScanAnswer(sent, 110, row_continues=False), 7)
    assert isinstance(message, MessageParts)
    ranges = []
    for chunk in sent.column("value").chunks:
        values = chunk.buffers()[2]
        assert values is not None
        ranges.append(range(values.address, values.address + values.size))
    addresses = [part.address for part in message.parts if isinstance(part, pa.Buffer)]
    for memory in ranges:
        assert sum(address in memory for address in addresses) == 1
    assert all(len(part) for part in message.parts)
    assert len(message) == len(joined(message))
    assert message.bytes_held == sent.get_total_buffer_size() > len(message)
    with pa.ipc.open_stream(ScanBatch.FromString(joined(message)).arrow) as reader:
        assert reader.read_all().equals(sent)


def test_small_parts_of_messages_are_joined() -> None:
    value_bytes = PART_BYTES_MIN // 4
    assert isinstance(scan_message(ScanAnswer(table(10, value_bytes), 10, row_continues=False), 7), bytes)
    assert isinstance(scan_message(ScanAnswer(table(500, value_bytes), 500, row_continues=False), 7), MessageParts)


def test_a_small_share_of_a_large_table_is_copied_so_that_it_does_not_keep_the_rest_alive() -> None:
    large, rows = table(1000, 10_000), 1000 // HELD_SHARE_MAX
    for count, kept in ((rows - 10, bytes), (rows + 10, MessageParts)):
        message = scan_message(ScanAnswer(large.slice(10, count), count, row_continues=False), 7)
        assert isinstance(message, kept)


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
