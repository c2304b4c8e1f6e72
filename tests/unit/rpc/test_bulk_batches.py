"""Untrusted Arrow bytes: everything that is not exactly a bulk batch is refused, and nothing kills the process."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, OutOfMemoryError
from rowlock_regionserver.rpc.messages import untrusted_batches
from rowlock_regionserver.rpc.messages.bulk_batches import BULK_SCHEMA, BulkMessages, bulk_table

from tests.seeds import drawn_seed
from tests.unit.rpc.arrow_streams import damaged, encoded

BYTES_MAX = 1 << 20


def binary(values: list[bytes | None]) -> pa.Array[Any]:
    return pa.array(values, pa.binary(), from_pandas=False)


def batch(count: int = 5) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            binary([b"row%d" % i for i in range(count)]),
            binary([b"f"] * count),
            binary([b""] * count),
            pa.array([i if i % 2 else None for i in range(count)], pa.int64()),
            binary([None if i % 3 == 0 else b"v" * i for i in range(count)]),
        ],
        schema=BULK_SCHEMA,
    )


def read(data: bytes, declared: int = BYTES_MAX) -> pa.Table:
    return bulk_table(data, declared, BYTES_MAX)


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_a_good_batch_is_read_as_it_was_written(count: int) -> None:
    sent = batch(count)
    assert bulk_table(encoded(sent), sent.nbytes, BYTES_MAX).equals(pa.Table.from_batches([sent]))


def test_a_slice_is_read_as_what_it_shows() -> None:
    sent = batch(100).slice(40, 7)
    assert bulk_table(encoded(sent), sent.nbytes, BYTES_MAX).equals(pa.Table.from_batches([sent]))


def test_the_size_is_checked_before_anything_is_read() -> None:
    for data, declared in ((b"rubbish", BYTES_MAX + 1), (bytes(BYTES_MAX + 1), 5)):
        with pytest.raises(LimitExceededError) as refused:
            bulk_table(data, declared, BYTES_MAX)
        assert (refused.value.limit, refused.value.found) == ("request_bytes_max", BYTES_MAX + 1)


def test_a_batch_larger_than_it_declares_is_refused() -> None:
    sent = batch(1000)
    with pytest.raises(InvalidRequestError, match="uncompressed_bytes is 1000"):
        read(encoded(sent), 1000)


def test_a_lack_of_memory_is_no_fault_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr(untrusted_batches, "_record_batch", no_memory)
    with pytest.raises(OutOfMemoryError, match="malloc"):
        read(encoded(batch(1000)))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_batch_is_refused_however_large_it_would_be(compression: Literal["lz4", "zstd"]) -> None:
    bomb = pa.RecordBatch.from_arrays(
        [binary([bytes(1 << 22)]), binary([b"f"]), binary([b""]), pa.array([1], pa.int64()), binary([b""])],
        schema=BULK_SCHEMA,
    )
    data = encoded(bomb, compression=compression)
    assert len(data) < BYTES_MAX
    with pytest.raises(InvalidRequestError, match="is compressed"):
        read(data)


def test_buffers_that_share_bytes_are_each_counted() -> None:
    """Small when sent, large when copied: forged so that four columns refer to the same part of the body."""
    size = 70_001
    small = binary([b"s" * 77])
    sent = pa.RecordBatch.from_arrays(
        [binary([b"v" * size]), small, small, pa.array([1], pa.int64()), small], schema=BULK_SCHEMA
    )
    data = encoded(sent)
    assert read(data, sent.nbytes).num_rows == 1
    body = data.index(b"v" * size)
    metadata = bytearray(data[:body])
    # In the metadata a buffer is its offset and its length; the first one of this length is the row's.
    row_buffer = metadata.index(struct.pack("<q", size)) - 8
    place = 0
    for _ in range(3):
        place = metadata.index(struct.pack("<q", 77), place) - 8
        metadata[place : place + 16] = metadata[row_buffer : row_buffer + 16]
        place += 16
    forged = bytes(metadata) + data[body:]
    with pytest.raises(InvalidRequestError, match="buffers have"):
        read(forged, sent.nbytes)
    assert read(forged, 5 * size).num_rows == 1  # Valid, and no longer a surprise.


@pytest.mark.parametrize(
    "schema",
    [
        BULK_SCHEMA.remove(4),
        BULK_SCHEMA.append(pa.field("more", pa.int64())),
        BULK_SCHEMA.set(0, pa.field("key", pa.binary(), nullable=False)),
        BULK_SCHEMA.set(0, pa.field("row", pa.binary())),
        BULK_SCHEMA.set(0, pa.field("row", pa.string(), nullable=False)),
        BULK_SCHEMA.set(0, pa.field("row", pa.large_binary(), nullable=False)),
        BULK_SCHEMA.set(0, pa.field("row", pa.dictionary(pa.int8(), pa.binary()), nullable=False)),
        BULK_SCHEMA.set(0, pa.field("row", pa.list_(pa.binary()), nullable=False)),
        BULK_SCHEMA.set(3, pa.field("timestamp", pa.timestamp("ms"))),
        BULK_SCHEMA.set(3, pa.field("timestamp", pa.int64(), nullable=False)),
        pa.schema(list(BULK_SCHEMA)[::-1]),
    ],
)
def test_another_schema_is_refused_and_both_are_shown(schema: pa.Schema) -> None:
    with pytest.raises(InvalidRequestError, match="schema") as refused:
        read(encoded(pa.RecordBatch.from_pylist([], schema)))
    assert "timestamp: int64" in refused.value.message


def test_exactly_one_record_batch_is_taken() -> None:
    with pytest.raises(InvalidRequestError, match="more than one"):
        read(encoded(batch(), batch()))
    no_batch = pa.BufferOutputStream()
    pa.ipc.new_stream(no_batch, BULK_SCHEMA).close()
    with pytest.raises(InvalidRequestError, match="ends before its record batch"):
        read(no_batch.getvalue().to_pybytes())
    with pytest.raises(InvalidRequestError, match="ends before its schema"):
        read(b"")


def test_a_null_where_none_may_be_is_refused() -> None:
    nullable = pa.schema([pa.field(field.name, field.type) for field in BULK_SCHEMA])
    for position, name in enumerate(("row", "family", "qualifier")):
        columns = [binary([b"a", b"b"])] * 3 + [pa.array([1, 2], pa.int64()), binary([b"a", b"b"])]
        columns[position] = binary([b"a", None])
        # Written by hand under our schema, as no good client would.
        body = pa.RecordBatch.from_arrays(columns, schema=nullable).serialize().to_pybytes()
        with pytest.raises(InvalidRequestError, match=f"null in column {name}"):
            read(BULK_SCHEMA.serialize().to_pybytes() + body)


def test_forged_offsets_are_refused() -> None:
    good = binary([b"x"])
    sent = pa.RecordBatch.from_arrays([good, good, good, pa.array([1], pa.int64()), good], schema=BULK_SCHEMA)
    data = encoded(sent)
    place = data.index(struct.pack("<ii", 0, 1))
    for offsets in ((0, 1 << 30), (0, -5), (5, 1), (-1, 1)):
        forged = data[:place] + struct.pack("<ii", *offsets) + data[place + 8 :]
        with pytest.raises(InvalidRequestError, match="Arrow IPC"):
            read(forged)


def test_forged_offsets_between_good_ones_are_refused() -> None:
    """Parsing without full validation checks only the first and the last offset."""
    good = binary([b"x", b"y", b"z"])
    sent = pa.RecordBatch.from_arrays([good, good, good, pa.array([1, 2, 3], pa.int64()), good], schema=BULK_SCHEMA)
    data = encoded(sent)
    place = data.index(struct.pack("<4i", 0, 1, 2, 3))
    for offsets in ((0, 1 << 30, 2, 3), (0, -5, 2, 3), (0, 2, 1, 3)):
        forged = data[:place] + struct.pack("<4i", *offsets) + data[place + 16 :]
        with pytest.raises(InvalidRequestError, match="Arrow IPC"):
            read(forged)


def test_random_damage_is_refused_or_gives_a_sound_table() -> None:
    """Seeded; to replay a failure put the printed seed into `seed`."""
    seed = drawn_seed()
    source = random.Random(seed)
    refused = 0
    for data in damaged(encoded(batch(50)), source, 1000):
        try:
            table = read(data)
        except InvalidRequestError:
            refused += 1
        else:
            assert table.schema.equals(BULK_SCHEMA)
            table.to_pylist()  # Looks at each byte.
    assert refused > 1000, seed


def parts_of(sequence: int, *wholes: int) -> tuple[int, ...] | None:
    sent = batch()
    message = region_pb2.BulkBatch(
        arrow=encoded(sent),
        uncompressed_bytes=sent.nbytes,
        client_id=bytes(16),
        sequence=sequence,
        sequence_floor=1,
        age_ms=7,
        parts_of=wholes,
    )
    _, request, _ = BulkMessages(BYTES_MAX).parse(message.SerializeToString()).read()
    return None if request is None else request.parts_of


def test_a_batch_names_those_that_it_is_a_part_of() -> None:
    assert parts_of(0) is None
    assert parts_of(5) == ()
    assert parts_of(5, 3, 4) == (3, 4)
    assert len(parts_of(100, *range(1, 65)) or ()) == 64


@pytest.mark.parametrize(("sequence", "wholes"), [(0, [1]), (5, [5]), (5, [0]), (5, [3, 0]), (100, range(1, 66))])
def test_impossible_parts_are_refused(sequence: int, wholes: Sequence[int]) -> None:
    with pytest.raises(InvalidRequestError, match=r"BulkBatch.parts_of has \d+ sequences"):
        parts_of(sequence, *wholes)
