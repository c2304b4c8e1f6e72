"""A damaged Arrow stream of a server is a ServerError, or a sound table, but nothing else."""

from __future__ import annotations

import random
import re
from typing import Any

import pyarrow as pa
import pytest
from rowlock._codec.arrow_stream import StreamReader, read_stream
from rowlock.errors import ServerError

from tests.unit.client.plain_row_form import stream_of

FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("n", pa.int64()),
    pa.field("value", pa.binary(3)),
]
SCHEMA = pa.schema(FIELDS, {"key": "value"})
TABLE = pa.table(
    [
        pa.array([b"a", b"bc", b"def"], pa.binary()),
        pa.array([1, None, 3], pa.int64()),
        pa.array([b"xyz", None, b"uvw"], pa.binary(3)),
    ],
    schema=SCHEMA,
)


def fits(schema: pa.Schema) -> bool:
    return schema.names == SCHEMA.names and schema.equals(SCHEMA)


def read(data: bytes) -> pa.Table:
    return read_stream(data, fits, "a batch")


def read_again(reader: StreamReader, data: bytes) -> pa.Table:
    return reader.read(pa.py_buffer(data), fits, "a batch")


def test_a_stream_is_read_without_being_copied() -> None:
    data = pa.py_buffer(stream_of(TABLE))
    table = read_stream(data, fits, "a batch")
    assert table.equals(TABLE)
    [row] = table.column("row").chunks
    values = row.buffers()[2]
    assert values is not None
    assert data.address <= values.address < data.address + data.size


def test_another_schema_is_refused_and_shown() -> None:
    with pytest.raises(ServerError, match="a batch has the wrong schema: other: string"):
        read(stream_of(pa.table({"other": ["a"]})))


def test_a_name_that_is_no_text_is_damage() -> None:
    with pytest.raises(ServerError, match=r"a batch is damaged: .*codec"):
        read(stream_of(TABLE).replace(b"row", b"\xff\xfe\xfd"))


def test_streams_with_one_schema_are_read_after_each_other_without_being_copied() -> None:
    def any_fits(_: pa.Schema) -> bool:
        return True

    reader = StreamReader()
    other = TABLE.rename_columns(["row", "m", "value"])
    for table in (TABLE, TABLE.slice(1), pa.concat_tables([TABLE, TABLE]), TABLE.slice(0, 0), other, other, TABLE):
        data = pa.py_buffer(stream_of(table))
        found = reader.read(data, any_fits, "a batch")
        assert found.equals(table)
        assert found.schema.equals(table.schema, check_metadata=True)
        for chunk in found.column(1).chunks:
            values = chunk.buffers()[1]
            assert values is not None
            assert data.address <= values.address < data.address + data.size


def test_a_known_schema_keeps_no_stream_in_memory() -> None:
    reader = StreamReader()
    stream = stream_of(TABLE)
    before = pa.total_allocated_bytes()
    for _ in range(2):
        data = pa.allocate_buffer(len(stream))
        memoryview(data).cast("B")[:] = stream
        assert reader.read(data, fits, "a batch").equals(TABLE)
        del data
    assert pa.total_allocated_bytes() == before


def test_a_schema_with_the_other_order_of_bytes_is_read_in_the_same_way_again() -> None:
    """One byte refers to the order. Values without offsets are sound in either."""
    table = pa.table({"row": pa.array([b"", b""], pa.binary()), "n": pa.array([1, 2], pa.int64())})
    whole = stream_of(table)

    def has_names(schema: pa.Schema) -> bool:
        return schema.names == table.schema.names

    swapped_count = 0
    for place in range(100):
        data = bytes([*whole[:place], 4, *whole[place + 1 :]])
        try:
            expected = read_stream(data, has_names, "a batch")
        except ServerError:
            continue
        reader = StreamReader()
        for _ in range(2):
            assert reader.read(pa.py_buffer(data), has_names, "a batch").equals(expected)
        swapped_count += expected["n"].to_pylist() == [1 << 56, 2 << 56]
    assert swapped_count == 1


def test_a_lack_of_memory_is_no_damage() -> None:
    def fits_not(_: pa.Schema) -> bool:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    for read_with in (read_stream, lambda *arguments: StreamReader().read(*arguments)):
        with pytest.raises(MemoryError, match="malloc"):
            read_with(pa.py_buffer(stream_of(TABLE)), fits_not, "a batch")


def test_random_damage_is_refused_or_gives_a_sound_table() -> None:
    chance = random.Random(11)
    whole = stream_of(TABLE)
    reader = StreamReader()
    read_again(reader, whole)
    refused = 0
    for _ in range(5000):
        data = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randint(1, 3)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            table = read(bytes(data))
        except ServerError as error:
            refused += 1
            with pytest.raises(ServerError, match=re.escape(error.message)):
                read_again(reader, bytes(data))
            continue
        table.validate(full=True)
        assert read_again(reader, bytes(data)).equals(table)
    assert 1000 < refused < 5000
