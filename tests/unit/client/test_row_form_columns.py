"""Columns of the row form: binary, or fixed-size binary where all values of a batch have one length."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import rowlock
from rowlock import Mapping, MappingError
from rowlock._codec.arrow_buffers import Array, one_array
from rowlock._codec.mapped_rows import rows_from_form
from rowlock._codec.row_form import FormColumn, RowFormReader, form_of
from rowlock._core.scan_plan import KEY_BATCH_ROWS, in_row_form
from rowlock.errors import ServerError
from rowlock_proto.v1 import region_pb2

from tests.unit.client.fake_server import FakeServer
from tests.unit.client.plain_row_form import message_of, stream_of
from tests.unit.client.test_scans import plan

MAPPING = Mapping("k STRING :key, n INT f:n, price DECIMAL(10,2) f:p, text STRING f:t, at TIMESTAMP f:a millis")


def form(*columns: Array, rows: tuple[bytes, ...] = (b"a", b"b", b"c")) -> pa.Table:
    fields = [pa.field("row", pa.binary(), nullable=False)]
    fields += [pa.field(str(place), column.type) for place, column in enumerate(columns)]
    return pa.Table.from_arrays([pa.array(rows, pa.binary()), *columns], schema=pa.schema(fields))


def fixed(width: int, *values: bytes | None) -> Array:
    return pa.array(values, pa.binary(width))


def int_form(column: Array) -> pa.Table:
    return rows_from_form(form(column), Mapping("k STRING :key, n INT f:n"))


FIVE, SEVEN = (5).to_bytes(4, "big"), (7).to_bytes(4, "big")


@pytest.mark.parametrize("width", [0, 1, 3, 5, 8])
def test_values_of_another_length_are_named_with_row_and_column_in_both_forms(width: int) -> None:
    values = [None, b"\1" * width, b"\2" * width]
    unit = "byte" if width == 1 else "bytes"
    message = rf"f:n of row 'b' can't be read as INT binary: a value has {width} {unit} instead of 4"
    for column in (fixed(width, *values), pa.array(values, pa.binary())):
        with pytest.raises(MappingError, match=message) as caught:
            int_form(column)
        assert (caught.value.row, caught.value.family, caught.value.qualifier) == (b"b", b"f", b"n")
    assert int_form(fixed(width, None, None, None)).column("n").to_pylist() == [None] * 3


def test_one_value_of_another_length_is_named() -> None:
    with pytest.raises(MappingError, match=r"f:n of row 'c' .*: a value has 2 bytes instead of 4"):
        int_form(pa.array([FIVE, None, b"no"], pa.binary()))


@pytest.mark.parametrize("width", [0, 4, 21])
def test_decimals_of_no_decimal_s_length_are_named(width: int) -> None:
    mapping = Mapping("k STRING :key, p DECIMAL(10,2) f:p")
    for column in (fixed(width, None, bytes(width), None), pa.array([None, bytes(width), None], pa.binary())):
        with pytest.raises(MappingError, match=r"f:p of row 'b'.*not a decimal, which has 5 to 20 bytes"):
            rows_from_form(form(column), mapping)


@pytest.mark.parametrize("width", range(1, 17))
def test_decimals_of_every_length_are_read_in_both_forms(width: int) -> None:
    bits = 8 * width - 1
    numbers = [1 << bits - 1, -1 << bits - 1, -1, 0x5A << max(0, bits - 8)]
    numbers = [min(max(number, -(10**38) + 1), 10**38 - 1) for number in numbers]
    stored = [b"\0\0\0\0" + number.to_bytes(width, "big", signed=True) for number in numbers]
    rows = (b"a", b"b", b"c", b"d")
    for values in (fixed(4 + width, *stored), pa.array(stored, pa.binary())):
        read = rows_from_form(form(values, rows=rows), Mapping("k STRING :key, p DECIMAL(38,0) f:p"))
        assert read.column("p").to_pylist() == [Decimal(number) for number in numbers]


@pytest.mark.parametrize("width", range(1, 17))
def test_decimals_with_a_digit_too_many_are_refused(width: int) -> None:
    top = min((1 << 8 * width - 1) - 1, 10**38 - 1)
    digits = len(str(top)) - 1
    stored = [
        None if number is None else bytes(4) + number.to_bytes(width, "big", signed=True) for number in (0, None, -top)
    ]
    mapping = Mapping(f"k STRING :key, p DECIMAL({digits},0) f:p")
    with pytest.raises(MappingError, match=r"f:p of row 'c'.*does not fit"):
        rows_from_form(form(fixed(4 + width, *stored)), mapping)


def test_values_under_nulls_are_not_looked_at() -> None:
    """A server may leave any bytes there: of another scale, no UTF-8, or with more milliseconds than a TIMESTAMP."""
    count = 3
    valid = pa.py_buffer(bytes([0b010]))

    def column(width: int, good: bytes) -> Array:
        data = pa.py_buffer(b"\xff" * width + good + b"\x7f" + b"\xff" * (width - 1))
        return pa.Array.from_buffers(pa.binary(width), count, [valid, data])

    price = b"\0\0\0\2\4\xd2"
    offsets = pa.py_buffer(b"".join(number.to_bytes(4, "little") for number in (0, 2, 3, 5)))
    texts: Array = pa.Array.from_buffers(pa.binary(), count, [valid, offsets, pa.py_buffer(b"\xff\xffx\xff\xff")])
    read = rows_from_form(form(column(4, FIVE), column(6, price), texts, column(8, bytes(8))), MAPPING)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert read.to_pylist()[1] == {"k": "b", "n": 5, "price": Decimal("12.34"), "text": "x", "at": epoch}
    assert [read.column(name).null_count for name in ("n", "price", "text", "at")] == [2] * 4
    read.validate(full=True)


def test_fixed_numbers_share_the_validity_of_their_batch_and_short_text_its_bytes() -> None:
    column, text = fixed(4, FIVE, None, SEVEN), pa.array([b"x", b"", None], pa.binary())
    read = rows_from_form(form(column, text), Mapping("k STRING :key, n INT f:n, t STRING f:t")).combine_chunks()
    for name, stored, place in (("n", column, 0), ("t", text, 0), ("t", text, 1), ("t", text, 2)):
        before, after = stored.buffers()[place], one_array(read.column(name)).buffers()[place]
        assert before is not None
        assert after is not None
        assert before.address == after.address


def reader_of(*columns: FormColumn) -> RowFormReader:
    return RowFormReader.of(columns, region_pb2.ScanRequest())


def test_a_batch_with_other_columns_than_those_requested_is_refused() -> None:
    value, timestamp = FormColumn(b"f", b"n"), FormColumn(b"f", b"n", is_timestamp=True)
    numbers = pa.array([1, 2, 3], pa.int64())
    assert reader_of(value, timestamp).read(message_of(form(fixed(4, FIVE, None, FIVE), numbers))).num_rows == 3
    # Any: the stubs type a field by its type.
    key: pa.Field[Any] = pa.field("row", pa.binary(), nullable=False)
    wrong = [
        form(),
        form(fixed(4, FIVE, None, FIVE)),
        form(numbers, numbers),
        form(fixed(4, FIVE, None, FIVE), fixed(8, None, None, None)),
        form(pa.array(["a", "b", "c"]), numbers),
        form(fixed(4, FIVE, None, FIVE), numbers, numbers),
        form(fixed(4, FIVE, None, FIVE), numbers).rename_columns(["row", "1", "0"]),
        form(fixed(4, FIVE, None, FIVE), numbers).cast(
            pa.schema([key, pa.field("0", pa.binary(4)), pa.field("1", pa.int64(), nullable=False)])
        ),
        form(fixed(4, FIVE, None, FIVE), numbers).cast(
            pa.schema([key.with_nullable(True), pa.field("0", pa.binary(4)), pa.field("1", pa.int64())])
        ),
    ]
    for table in wrong:
        with pytest.raises(ServerError, match="wrong schema"):
            reader_of(value, timestamp).read(message_of(table))


def test_a_form_allows_columns_of_fixed_size_and_of_keys_alone_as_many_rows_as_the_protocol() -> None:
    with_values, keys = in_row_form(plan(), form_of(MAPPING)).template, in_row_form(plan(), ()).template
    assert (with_values.row_form.fixed_size, with_values.batch_rows) == (True, 0)
    assert (keys.row_form.fixed_size, keys.batch_rows) == (True, KEY_BATCH_ROWS)


def test_a_column_may_change_its_form_from_batch_to_batch(db: rowlock.Client, fake_server: FakeServer) -> None:
    tables = [
        form(fixed(4, FIVE, None, SEVEN)),
        form(pa.array([FIVE, None, SEVEN], pa.binary()), rows=(b"d", b"e", b"f")),
        form(fixed(4, None, None, None), rows=(b"g", b"h", b"i")),
    ]
    batches = [region_pb2.ScanBatch(arrow=stream_of(table), row_count=3) for table in tables]
    fake_server.scan = lambda request: iter(batches)
    read = db.table("t").scan().to_arrow("k STRING :key, n INT f:n")
    assert read.column("n").to_pylist() == [5, None, 7, 5, None, 7, None, None, None]
    assert read.column("k").to_pylist() == list("abcdefghi")
