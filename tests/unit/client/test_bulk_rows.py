"""Bulk batches as rows: one column of bytes for each column of the table, and the same as cells."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import rowlock
from rowlock import Mapping
from rowlock._codec.arrow_buffers import Array
from rowlock._codec.bulk_rows import BulkRows
from rowlock._codec.mapped_rows import bulk_rows_of
from rowlock._core.bulk_input import ArrowInput, Sizes, bulk_pieces
from rowlock._core.bulk_send import BulkSend, checked_sizes
from rowlock._core.sequences import Sequences
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.plain_bulk_rows import PlainCell, plain_cells, plain_cells_of
from tests.unit.client.test_bulk import LEFT, MAPPING, RIGHT, WHOLE, applied, keys_of, message_of, rows

INVALID = types_pb2.Error.INVALID_ARGUMENT
TYPED = Mapping(
    "k STRING :key, tiny TINYINT f:a, small SMALLINT f:b, n INT f:c, big BIGINT f:d, single FLOAT f:e, "
    "double DOUBLE f:f, day DATE f:g, at TIMESTAMP f:h, yes BOOLEAN f:i, price DECIMAL(10,2) f:j, text STRING g:a, "
    "data BINARY g:b, ms TIMESTAMP g:c millis, words INT g:d text"
)
MOMENT = datetime.datetime(2013, 1, 31, 5, tzinfo=datetime.UTC)
LINE: list[object] = [
    "key", -1, 300, 5, 1 << 40, 0.5, -2.0, MOMENT.date(), MOMENT, True, Decimal("12.34"), "ä", b"\0", MOMENT, 7,
]  # fmt: skip


def typed_rows(*lines: list[object]) -> pa.RecordBatch:
    columns: dict[str, list[object]] = {
        name: list(column) for name, column in zip(TYPED.schema.names, zip(*lines, strict=True), strict=True)
    }
    return pa.RecordBatch.from_pydict(columns, schema=TYPED.schema)


def send_of(data: ArrowInput, mapping: Mapping = MAPPING) -> BulkSend:
    pieces = bulk_pieces(data, mapping, None, Sizes(1 << 20, None))
    return BulkSend("t", pieces, Sequences(), types_pb2.DURABILITY_UNSPECIFIED, 10.0, 3600.0)


def sent(send: BulkSend, region: Region = WHOLE, *, takes_rows: bool = True) -> list[region_pb2.BulkBatch]:
    """Returns the messages of all batches that may be sent now."""
    messages = []
    send.pause_s = 0.0
    while (bulk := send.next(0.0)) is not None:
        messages.append(message_of(send, bulk, region, takes_rows=takes_rows))
    return messages


def test_each_typed_column_is_sent_as_bytes_of_one_length() -> None:
    [message] = sent(send_of(typed_rows(LINE, [*LINE[:3], *[None] * 12]), TYPED))
    assert (message.arrow, message.uncompressed_bytes, message.sequence) == (b"", 0, 1)
    with pa.ipc.open_stream(message.rows.arrow) as reader:
        widths = {
            column.qualifier.decode(): field.type.byte_width
            for column, field in zip(message.rows.columns, list(reader.schema)[2:], strict=True)
            if isinstance(field.type, pa.FixedSizeBinaryType) and column.family == b"f"
        }
    assert widths == {"a": 1, "b": 2, "c": 4, "d": 8, "e": 4, "f": 8, "g": 4, "h": 8, "i": 1, "j": 6}
    found = plain_cells(message.rows)
    cells = {family + qualifier: value for _, family, qualifier, _, value in found[: len(TYPED.values)]}
    assert cells[b"fa"] == b"\xff"
    assert cells[b"fd"] == (1 << 40).to_bytes(8, "big")
    assert cells[b"fi"] == b"\xff"
    assert cells[b"fj"] == b"\0\0\0\x02\x04\xd2"
    assert (cells[b"ga"], cells[b"gb"], cells[b"gd"]) == ("ä".encode(), b"\0", b"7")
    assert [cell[2] for cell in found[len(TYPED.values) :]] == [b"a", b"b"]


def test_text_and_bytes_are_not_copied() -> None:
    batch = typed_rows(LINE, LINE)
    encoded = bulk_rows_of(batch, TYPED, 1).batch
    for name, place in (("text", 12), ("data", 13)):
        before, after = batch.column(name).buffers()[2], encoded.column(place).buffers()[2]
        assert before is not None
        assert after is not None
        assert before.address == after.address


@pytest.mark.parametrize("nulls_delete", [False, True])
def test_rows_without_cells_are_left_out(nulls_delete: bool) -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a", "b", "c"], "v": [None, "", None]}, schema=MAPPING.schema)
    encoded = bulk_rows_of(batch, MAPPING, 5, nulls_delete=nulls_delete)
    assert encoded.keys.to_pylist() == ([b"a", b"b", b"c"] if nulls_delete else [b"b"])
    expected: list[PlainCell] = [(b"b", b"f", b"v", 5, b"")]
    if nulls_delete:
        expected = [(b"a", b"f", b"v", 5, None), *expected, (b"c", b"f", b"v", 5, None)]
    assert plain_cells_of(encoded.cells()) == expected


def test_a_batch_of_nulls_alone_or_of_no_rows_is_not_sent() -> None:
    nothing = pa.RecordBatch.from_pydict({"k": ["a"], "v": [None]}, schema=MAPPING.schema)
    send = send_of([nothing, rows("b"), nothing.slice(1), nothing])
    assert [plain_cells(message.rows)[0][0] for message in sent(send)] == [b"b"]
    send.answered(applied(), 1.0)
    assert sent(send) == []
    assert send.is_done


def test_columns_of_every_form_of_arrow_are_encoded() -> None:
    """Slices that begin inside a byte of a bitmap, several chunks, dictionaries, large types, and types to cast."""
    count = 20
    mapping = Mapping("k STRING :key, n INT f:n, yes BOOLEAN f:yes, text STRING f:text, none DOUBLE f:none")
    columns: dict[str, Array] = {
        "k": pa.array([f"{n:02}" for n in range(count)]).dictionary_encode(),
        "n": pa.array([None if n % 3 else n for n in range(count)], pa.int64()),
        "yes": pa.array([None if n % 4 == 1 else n % 2 == 0 for n in range(count)]),
        "text": pa.array([None if n % 5 == 2 else "x" * (n % 3) for n in range(count)], pa.large_string()),
        "none": pa.nulls(count),
    }
    whole = pa.record_batch(columns)
    for batch in (whole, whole.slice(3, 9), whole.slice(8), whole.slice(19), whole.slice(20)):
        expected = []
        for line in batch.to_pylist():
            values = {
                b"n": None if line["n"] is None else line["n"].to_bytes(4, "big"),
                b"text": None if line["text"] is None else line["text"].encode(),
                b"yes": None if line["yes"] is None else b"\xff" if line["yes"] else b"\0",
            }
            row = line["k"].encode()
            expected += [(row, b"f", name, None, value) for name, value in values.items() if value is not None]
        assert plain_cells_of(bulk_rows_of(batch, mapping, None).cells()) == expected
        messages = sent(send_of(pa.Table.from_batches([batch.slice(0, 4), batch.slice(4)]).combine_chunks(), mapping))
        assert [cell for message in messages for cell in plain_cells(message.rows)] == expected


@pytest.mark.parametrize(
    ("numbers", "width"),
    [([1, -1, 127], 5), ([128, -128, None], None), ([1 << 40, None, -(1 << 40)], 10), ([10**30], 17)],
)
def test_decimals_of_one_length_are_of_fixed_size(numbers: list[int | None], width: int | None) -> None:
    mapping = Mapping("k STRING :key, v DECIMAL(38,0) f:v")
    values = [None if number is None else Decimal(number) for number in numbers]
    batch = pa.RecordBatch.from_pydict({"k": ["a", "b", "c"][: len(values)], "v": values}, schema=mapping.schema)
    stored = bulk_rows_of(batch, mapping, 1, nulls_delete=True).batch.column(2)
    assert stored.type == (pa.binary() if width is None else pa.binary(width))
    for form in (stored, stored.cast(pa.binary()), stored.slice(1)):
        assert mapping.values[0].codec.decode(form).to_pylist() == values[len(values) - len(form) :]


def test_a_batch_over_two_regions_becomes_two_batches_of_rows() -> None:
    send = send_of(rows("a", "n", "b"))
    [left] = [message_of(send, bulk, LEFT, takes_rows=True) for bulk in [send.next(0.0)] if bulk is not None]
    [right] = [message_of(send, bulk, RIGHT, takes_rows=True) for bulk in [send.next(0.0)] if bulk is not None]
    assert [cell[0] for cell in plain_cells(left.rows)] == [b"a", b"b"]
    assert [cell[0] for cell in plain_cells(right.rows)] == [b"n"]


def test_a_server_that_knows_no_rows_gets_cells() -> None:
    [message] = sent(send_of(rows("a", "b")), takes_rows=False)
    assert not message.HasField("rows")
    assert keys_of(message) == [b"a", b"b"]


def test_batches_that_are_refused_as_rows_are_repeated_as_cells_with_their_numbers() -> None:
    send = send_of([rows("a"), rows("b"), rows("c"), rows("d")])
    first = sent(send)
    assert [(message.sequence, message.HasField("rows")) for message in first] == [(1, True), (2, True), (3, True)]
    for _ in first:
        send.answered(region_pb2.BulkAnswer(error=error(INVALID, "the bulk batch ends before its schema")), 1.0)
    again = sent(send)
    assert [(message.sequence, message.HasField("rows")) for message in again] == [(1, False), (2, False), (3, False)]
    assert [keys_of(message) for message in again] == [[b"a"], [b"b"], [b"c"]]
    for _ in again:
        send.answered(applied(), 1.0)
    [last] = sent(send)
    assert (last.sequence, last.HasField("rows")) == (4, False)
    send.answered(applied(), 1.0)
    assert sent(send) == []
    assert send.finish().row_count == 4


def test_a_batch_that_is_refused_in_both_forms_has_failed() -> None:
    send = send_of(rows("a"))
    for _ in range(2):
        [_message] = sent(send)
        send.answered(region_pb2.BulkAnswer(error=error(INVALID, "a bad row")), 1.0)
    assert send.is_done
    with pytest.raises(rowlock.InvalidArgumentError, match="a bad row"):
        send.finish()


def test_too_many_columns_for_rows_are_sent_as_cells() -> None:
    mapping = Mapping("k STRING :key, " + ", ".join(f"c{n} STRING f:{n}" for n in range(10_001)))
    line = {"k": ["a"], **{f"c{n}": ["x"] for n in range(10_001)}}
    [message] = sent(send_of(pa.RecordBatch.from_pydict(line), mapping))
    assert not message.HasField("rows")
    assert len(keys_of(message)) == 10_001


def test_sizes_bound_rows_and_for_servers_that_know_no_rows_also_their_cells() -> None:
    count = 4000
    columns: dict[str, list[object]] = {"k": [f"{n:06}" for n in range(count)]}
    columns |= {f"c{n}": [n] * count for n in range(15)}
    mapping = Mapping("k STRING :key, " + ", ".join(f"c{n} BIGINT f:c{n}" for n in range(15)))
    data = pa.RecordBatch.from_pydict(columns)

    def made(*, takes_rows: bool) -> list[BulkRows]:
        sizes = checked_sizes(100_000, 1 << 20, takes_rows=takes_rows)
        found = [piece.data for piece in bulk_pieces(data, mapping, None, sizes)]
        assert sum(rows.batch.num_rows for rows in found if isinstance(rows, BulkRows)) == count
        return [rows for rows in found if isinstance(rows, BulkRows)]

    assert all(50_000 < rows.batch.nbytes < 200_000 for rows in made(takes_rows=True))
    assert all(50_000 < rows.cells().nbytes < 200_000 for rows in made(takes_rows=False))


def test_put_arrow_sends_rows_to_a_server_that_knows_them(
    fake_server: FakeServer,
) -> None:
    fake_server.protocol = 2
    with rowlock.connect(fake_server.address) as client:
        assert client.table("t").put_arrow(rows("a", "b"), MAPPING, timestamp=5).row_count == 2
    [message] = fake_server.bulks
    assert plain_cells(message.rows) == [
        (b"a", b"f", b"v", 5, b"value of a"),
        (b"b", b"f", b"v", 5, b"value of b"),
    ]


def test_put_arrow_falls_back_to_cells_if_the_server_was_replaced_by_an_earlier_version(
    fake_server: FakeServer,
) -> None:
    fake_server.protocol = 2
    with rowlock.connect(fake_server.address) as client:
        fake_server.protocol = 1
        fake_server.bulk_script.append(error(INVALID, "the bulk batch ends before its schema message"))
        assert client.table("t").put_arrow(rows("a"), MAPPING).row_count == 1
        assert client.table("t").put_arrow(rows("b"), MAPPING).row_count == 1
    first, second, third = fake_server.bulks
    assert (first.HasField("rows"), second.HasField("rows"), third.HasField("rows")) == (True, False, False)
    assert (first.sequence, second.sequence) == (1, 1)
    assert keys_of(second) == [b"a"]
