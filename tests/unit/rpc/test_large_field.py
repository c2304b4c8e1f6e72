"""A field of bytes is found in a message, and the message without it says the rest; what is odd is left to protobuf."""

from __future__ import annotations

import random

import pytest
from google.protobuf.message import DecodeError
from rowlock_proto.v1.region_pb2 import BulkBatch, BulkRows
from rowlock_proto.v1.types_pb2 import Durability
from rowlock_regionserver.rpc.messages.large_field import large_field

from tests.seeds import drawn_seed

ROWS, CELLS = (9, 1), (2,)
ARROW = b"arrow" * 100


def batch() -> BulkBatch:
    message = BulkBatch(
        region_id=1, client_id=bytes(16), sequence=1 << 63, durability=Durability.DURABILITY_FSYNC, parts_of=[1, 2, 300]
    )
    message.stage.session_id = "job"
    return message


def batch_of_rows(column_count: int = 3) -> BulkBatch:
    message = batch()
    message.rows.arrow, message.rows.nulls_delete = ARROW, True
    for place in range(column_count):
        message.rows.columns.add(family=b"f", qualifier=b"%d" % place)
    return message


def test_the_arrow_bytes_of_rows_are_found() -> None:
    message = batch_of_rows()
    data = message.SerializeToString()
    found = large_field(data, ROWS)
    assert found is not None
    assert data[found.start : found.stop] == ARROW
    message.rows.ClearField("arrow")
    assert BulkBatch.FromString(found.rest) == message


def test_the_arrow_bytes_of_cells_are_found() -> None:
    message = batch()
    message.arrow = ARROW
    data = message.SerializeToString()
    found = large_field(data, CELLS)
    assert found is not None
    assert data[found.start : found.stop] == ARROW
    message.ClearField("arrow")
    assert BulkBatch.FromString(found.rest) == message
    assert large_field(data, ROWS) is None


def test_rows_without_columns_stay_in_the_message() -> None:
    data = BulkBatch(rows=BulkRows(arrow=ARROW)).SerializeToString()
    found = large_field(data, ROWS)
    assert found is not None
    assert BulkBatch.FromString(found.rest).HasField("rows")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        BulkBatch(rows=BulkRows(arrow=ARROW)).SerializeToString() * 2,
        BulkBatch(rows=BulkRows(nulls_delete=True)).SerializeToString()
        + BulkBatch(rows=BulkRows(arrow=ARROW)).SerializeToString(),
        batch_of_rows(2000).SerializeToString(),
        b"\xca\x80\x80\x80\x80\x00" + BulkBatch(rows=BulkRows(arrow=ARROW)).SerializeToString()[1:],
        b"\x48\x01",  # field 9 as a number
        b"\x4b\x4c",  # field 9 as a group
    ],
    ids=["empty", "twice", "in two parts", "many columns", "long tag", "number", "group"],
)
def test_what_is_odd_is_left_to_protobuf(data: bytes) -> None:
    assert large_field(data, ROWS) is None


def test_damaged_messages_are_read_as_protobuf_reads_them() -> None:
    generator = random.Random(drawn_seed())
    whole = batch_of_rows().SerializeToString()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        cut = bytes(data[: generator.choice([len(data), generator.randrange(len(data))])])
        found = large_field(cut, ROWS)
        try:
            expected = BulkBatch.FromString(cut)
        except DecodeError:
            if found is not None:
                with pytest.raises(DecodeError):
                    BulkBatch.FromString(found.rest)
            continue
        if found is not None:
            assert cut[found.start : found.stop] == expected.rows.arrow
            expected.rows.ClearField("arrow")
            assert BulkBatch.FromString(found.rest) == expected
