"""The grammar of mappings, and the conversion of rows into cells and back."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from rowlock import Mapping, MappingError
from rowlock._codec.arrow_buffers import Array

from tests.unit.client.plain_row_form import cells_from_rows, rows_from_cells

UTC = datetime.UTC


def cells(mapping: str, columns: dict[str, list[object]], timestamp: int | None = None) -> list[tuple[Any, ...]]:
    parsed = Mapping(mapping)
    batch = pa.RecordBatch.from_pydict(columns, schema=parsed.schema)
    # Any: a cell has bytes and a number.
    return [tuple(cell.values()) for cell in cells_from_rows(batch, parsed, timestamp).to_pylist()]


def value_of(mapping_type: str, value: object) -> bytes:
    """Returns the stored bytes of one value of a type (and an encoding, if one is named)."""
    kind, _, encoding = mapping_type.partition(" ")
    (cell,) = cells(f"k STRING :key, v {kind} f:v {encoding}", {"k": ["r"], "v": [value]})
    stored: bytes = cell[4]
    return stored


def key_of(mapping_type: str, value: object) -> bytes:
    kind, _, encoding = mapping_type.partition(" ")
    (cell,) = cells(f"k {kind} :key {encoding}, v STRING f:v", {"k": [value], "v": ["x"]})
    row: bytes = cell[0]
    return row


@pytest.mark.parametrize(
    ("mapping_type", "value", "stored"),
    [
        ("BINARY", b"\0a", b"\0a"),
        ("STRING", "ä", "ä".encode()),
        ("STRING text", "ä", "ä".encode()),
        ("BOOLEAN", True, b"\xff"),
        ("BOOLEAN", False, b"\0"),
        ("TINYINT", -2, b"\xfe"),
        ("SMALLINT", -2, b"\xff\xfe"),
        ("INT", 5, b"\0\0\0\x05"),
        ("BIGINT", -1, b"\xff" * 8),
        ("FLOAT", 1.0, b"\x3f\x80\0\0"),
        ("DOUBLE", -1.0, b"\xbf\xf0" + bytes(6)),
        ("DECIMAL(10,2)", Decimal("12.34"), b"\0\0\0\x02\x04\xd2"),
        ("DECIMAL(10,2)", Decimal("-1.28"), b"\0\0\0\x02\x80"),
        ("DECIMAL(10,2)", Decimal("1.28"), b"\0\0\0\x02\0\x80"),
        ("DECIMAL(38,0)", Decimal(-(10**37)), b"\0\0\0\0" + (-(10**37)).to_bytes(16, "big", signed=True)),
        ("DECIMAL", Decimal(0), b"\0\0\0\0\0"),
        ("DATE", datetime.date(1970, 1, 3), b"\0\0\0\x02"),
        ("TIMESTAMP", datetime.datetime(1970, 1, 1, 0, 0, 1, 5, UTC), (1_000_005).to_bytes(8, "big")),
        ("DATE millis", datetime.date(1970, 1, 3), (2 * 86_400_000).to_bytes(8, "big")),
        ("TIMESTAMP millis", datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), (1000).to_bytes(8, "big")),
        ("INT text", -15, b"-15"),
        ("DOUBLE text", 1.5, b"1.5"),
        ("BOOLEAN text", True, b"true"),
        ("DECIMAL(10,2) text", Decimal("12.30"), b"12.30"),
        ("DATE text", datetime.date(2013, 1, 31), b"2013-01-31"),
        ("TIMESTAMP text", datetime.datetime(2013, 1, 31, 5, tzinfo=UTC), b"2013-01-31T05:00:00"),
        ("TIMESTAMP text", datetime.datetime(2013, 1, 31, 5, 0, 0, 10, UTC), b"2013-01-31T05:00:00.000010"),
    ],
)
def test_values_are_stored_as_documented(mapping_type: str, value: object, stored: bytes) -> None:
    assert value_of(mapping_type, value) == stored


@pytest.mark.parametrize(
    ("mapping_type", "value", "row"),
    [
        ("INT", 15, b"15"),
        ("STRING", "ä", "ä".encode()),
        ("INT binary", -1, b"\xff\xff\xff\xff"),
        ("INT ordered", -1, b"\x7f\xff\xff\xff"),
        ("BIGINT ordered", 0, b"\x80" + bytes(7)),
        ("DOUBLE ordered", 1.0, b"\xbf\xf0" + bytes(6)),
        ("DOUBLE ordered", -1.0, b"\x40\x0f" + b"\xff" * 6),
        ("STRING ordered", "a\0b", b"a\0b"),
        ("DECIMAL(4,1) ordered", Decimal("-0.1"), b"\x7f" + b"\xff" * 15),
        ("TIMESTAMP", datetime.datetime(2013, 1, 31, 5, tzinfo=UTC), b"2013-01-31T05:00:00"),
    ],
)
def test_keys_are_text_unless_said_otherwise(mapping_type: str, value: object, row: bytes) -> None:
    assert key_of(mapping_type, value) == row


def test_composite_keys_are_joined_in_the_order_written() -> None:
    mapping = "hour TIMESTAMP :key, carrier STRING :key, delay INT info:delay, flight INT :key"
    hour = datetime.datetime(2013, 1, 1, 5, tzinfo=UTC)
    columns: dict[str, list[object]] = {"hour": [hour], "carrier": ["UA"], "delay": [2], "flight": [1545]}
    assert cells(mapping, columns)[0][0] == b"2013-01-01T05:00:00|UA|1545"
    assert cells(mapping + "; separator=#", columns)[0][0] == b"2013-01-01T05:00:00#UA#1545"


def test_ordered_parts_need_no_separator_and_keep_zeros_apart() -> None:
    mapping = "a STRING :key ordered, b INT :key ordered, c BINARY :key, v STRING f:v"
    (cell,) = cells(mapping, {"a": ["x\0"], "b": [0], "c": [b"|"], "v": ["1"]})
    assert cell[0] == b"x\0\xff\0\0" + b"\x80\0\0\0" + b"|"


def test_null_is_no_cell_and_rows_keep_their_order() -> None:
    made = cells(
        "k INT :key, b STRING g:b, a STRING f:a, c INT f:c",
        {"k": [2, 1], "b": ["x", None], "a": [None, None], "c": [1, None]},
        timestamp=7,
    )
    assert made == [(b"2", b"f", b"c", 7, b"\0\0\0\x01"), (b"2", b"g", b"b", 7, b"x")]


FIVE = datetime.datetime(2013, 1, 31, 5, tzinfo=UTC)
MIDNIGHT = datetime.datetime(2013, 1, 31, tzinfo=UTC)
TIMESTAMP_TEXTS: list[str | None] = [
    "2013-01-31T05:00:00",
    "2013-01-31 05:00",
    "2013-01-31T05:00:00Z",
    "2013-01-31 05:00:00.000000Z",
    "2013-01-31T07:00:00+02:00",
    "2013-01-31 03:00:00-0200",
    "2013-01-31T04-01",
    None,
    "2013-01-31",
]
TIMESTAMPS = [FIVE] * 7 + [None, MIDNIGHT]


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("count", [1, len(TIMESTAMPS)])
def test_text_is_taken_as_a_timestamp_with_a_zone_or_in_utc(text_type: pa.DataType, count: int) -> None:
    mapping = Mapping("k STRING :key, t TIMESTAMP f:t, n INT f:n")
    rows = [str(number) for number in range(count)]
    columns: dict[str, Array] = {
        "k": pa.array(rows),
        "t": pa.array(TIMESTAMP_TEXTS[:count], text_type),
        "n": pa.array([1] * count, pa.int32()),
    }
    made = cells_from_rows(pa.record_batch(columns), mapping, 1)
    assert rows_from_cells(pa.Table.from_batches([made]), mapping).column("t").to_pylist() == TIMESTAMPS[:count]
    columns["t"] = pa.array(["no time"] * count, text_type)
    with pytest.raises(MappingError, match=r"does not fit TIMESTAMP.*no time"):
        cells_from_rows(pa.record_batch(columns), mapping, 1)


def test_timestamps_stored_as_text_are_read_with_a_zone_or_in_utc() -> None:
    codec = Mapping("k STRING :key, t TIMESTAMP f:t text").values[0].codec
    stored = pa.array([None if text is None else text.encode() for text in TIMESTAMP_TEXTS], pa.binary())
    assert codec.decode(stored).to_pylist() == TIMESTAMPS
    for wrong in (b"", b"5", b"2013-01-31Z", b"\xff"):
        with pytest.raises(MappingError, match="as text"):
            codec.decode(pa.array([wrong], pa.binary()))


def test_inputs_are_cast_if_nothing_is_lost() -> None:
    mapping = Mapping("k STRING :key, n INT f:n, t TIMESTAMP f:t")
    columns: dict[str, Array] = {
        "k": pa.array(["a", "b"]).dictionary_encode(),
        "n": pa.array([1, 2], pa.int64()),
        "t": pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1)] * 2, pa.timestamp("ms")),
        "ignored": pa.array([1, 2]),
    }
    batch = pa.record_batch(columns)
    table = rows_from_cells(pa.Table.from_batches([cells_from_rows(batch, mapping, 1)]), mapping)
    assert table.to_pydict() == {
        "k": ["a", "b"],
        "n": [1, 2],
        "t": [datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)] * 2,
    }
    large: dict[str, Array] = {
        "k": pa.array(["a"]),
        "n": pa.array([1 << 40]),
        "t": pa.array([None], pa.timestamp("us")),
    }
    too_large = pa.record_batch(large)
    with pytest.raises(MappingError, match="'n' is int64 and does not fit INT"):
        cells_from_rows(too_large, mapping, None)


def cast_to(mapping_type: str, column: Array) -> list[Any]:  # Any: a value of that type
    """Returns a column of the input as it is read back, without nulls, which give no cells."""
    mapping = Mapping(f"k STRING :key, v {mapping_type} f:v")
    batch = pa.record_batch({"k": pa.array([f"{place:04}" for place in range(len(column))]), "v": column})
    read = rows_from_cells(pa.Table.from_batches([cells_from_rows(batch, mapping, 1)]), mapping)
    return read.column("v").to_pylist()


def micros(text: str, zone: str | None = None) -> Array:
    naive = pa.array([None, datetime.datetime.fromisoformat(text)], pa.timestamp("us"))
    return naive if zone is None else naive.cast(pa.int64()).cast(pa.timestamp("us", zone))


@pytest.mark.parametrize(
    ("mapping_type", "column", "became"),
    [
        ("FLOAT", pa.array([0.0, 1e300]), "1e+300 would become inf"),
        ("FLOAT", pa.array([None, -1e300]), "-1e+300 would become -inf"),
        ("FLOAT", pa.array(["1", "1e300"]), "1e300 would become inf"),
        ("FLOAT", pa.array([1.0, 1e300]).dictionary_encode(), "would become inf"),
        ("FLOAT", pa.array([Decimal("1e60")], pa.decimal256(70, 0)), "would become inf"),
        ("DOUBLE", pa.array(["inf", "1e400"]), "1e400 would become inf"),
        ("DATE", micros("2020-01-01T05:06:07"), "2020-01-01 05:06:07.000000 would become 2020-01-01"),
        ("DATE", pa.array([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001 would become 1970-01-01"),
        ("DATE", micros("2020-01-01T00:00:00", "+09:00"), "would become 2020-01-01"),
        ("DECIMAL(5,2)", pa.array([1.25, 1.239]), "1.239 would become 1.24"),
        ("DECIMAL(5,2)", pa.array([None, 1e-9]), "1e-9 would become 0.00"),
        ("DECIMAL(5,2)", pa.array([1.239], pa.float32()), "would become 1.24"),
        ("DECIMAL(5,2)", pa.array(["1.239"]), "data loss"),
        ("BOOLEAN", pa.array([0, 1, 2]), "2 would become true"),
        ("BOOLEAN", pa.array([0.5]), "0.5 would become true"),
        ("BOOLEAN", pa.array([float("nan")]), "nan would become true"),
    ],
    ids=range(16),
)
def test_values_that_a_cast_would_change_are_refused(mapping_type: str, column: Array, became: str) -> None:
    with pytest.raises(MappingError, match=r"the column 'v' is \S+.* and does not fit") as caught:
        cast_to(mapping_type, column)
    assert became in str(caught.value)


_AS_TIME = "use TIMESTAMP in the mapping, or make the column a number"


@pytest.mark.parametrize(
    ("mapping_type", "column", "advice"),
    [
        ("BIGINT", pa.array([1, None], pa.timestamp("s")), _AS_TIME),
        ("BIGINT", pa.array([1, None], pa.timestamp("ns")), _AS_TIME),
        ("BIGINT", pa.array([None], pa.timestamp("us", "UTC")), _AS_TIME),
        ("BIGINT", pa.array([1], pa.timestamp("s")).dictionary_encode(), _AS_TIME),
        ("BIGINT", pa.array([86_400_000], pa.date64()), "use DATE in the mapping, or make the column a number"),
        ("BIGINT", pa.array([1], pa.duration("ms")), "; make the column a number"),
        ("STRING", pa.array([1], pa.duration("ms")), "; make the column a number"),
        ("BIGINT", pa.array([1], pa.time64("us")), "; make the column a number"),
        ("INT", pa.array([1], pa.time32("s")), "; make the column a number"),
    ],
    ids=range(9),
)
def test_a_time_is_no_number_for_it_has_a_unit(mapping_type: str, column: Array, advice: str) -> None:
    expected = f"and does not fit {mapping_type}: its number depends on the unit of the column"
    with pytest.raises(MappingError, match=expected) as caught:
        cast_to(mapping_type, column)
    assert advice in str(caught.value)
    assert "row" not in str(caught.value)


def test_a_time_as_a_number_is_no_part_of_a_key_either() -> None:
    columns: dict[str, Array] = {"k": pa.array([0], pa.timestamp("s")), "v": pa.array(["v"])}
    with pytest.raises(MappingError, match=r"the column 'k' is .*its number depends on the unit"):
        cells_from_rows(pa.record_batch(columns), Mapping("k BIGINT :key, v STRING f:v"), None)


def test_casts_that_only_round_to_the_nearest_float_or_change_nothing_are_made() -> None:
    inf = float("inf")
    assert cast_to("FLOAT", pa.array([0.5, None, inf, -inf, 16777216.0])) == [0.5, inf, -inf, 16777216.0]
    assert cast_to("FLOAT", pa.array([0.1])) == [0.10000000149011612]
    assert cast_to("FLOAT", pa.array(["inf", "-Infinity", "0.5"])) == [inf, -inf, 0.5]
    assert cast_to("FLOAT", pa.array([0.5, inf]).dictionary_encode()) == [0.5, inf]
    assert cast_to("FLOAT", pa.array([], pa.float64())) == []
    assert cast_to("BOOLEAN", pa.array([0, 1, None], pa.int8())) == [False, True]
    assert cast_to("BOOLEAN", pa.array([0.0, 1.0])) == [False, True]
    assert cast_to("DATE", micros("2020-01-01T00:00:00")) == [datetime.date(2020, 1, 1)]
    assert cast_to("DATE", micros("2019-12-31T15:00:00", "+09:00")) == [datetime.date(2020, 1, 1)]
    prices = [Decimal(cents).scaleb(-2) for cents in range(-1100, 1100)]
    for kind in (pa.float64(), pa.float32()):
        assert cast_to("DECIMAL(5,2)", pa.array([float(price) for price in prices], kind)) == prices
    for integer in (pa.int8(), pa.int64(), pa.uint64()):
        assert cast_to("DECIMAL(4,2)", pa.array([5, None, 99], integer)) == [Decimal("5.00"), Decimal("99.00")]
        assert cast_to("DECIMAL(38,38)", pa.array([0], integer)) == [Decimal(0)]
    assert cast_to("DECIMAL(20)", pa.array([2**64 - 1], pa.uint64())) == [Decimal(2**64 - 1)]
    assert cast_to("DECIMAL(4,2)", pa.array([-99, 5]).dictionary_encode()) == [Decimal("-99.00"), Decimal("5.00")]
    assert cast_to("INT", pa.array([datetime.date(1970, 1, 2)])) == [1]
    assert cast_to("STRING", pa.array([5], pa.time32("s"))) == ["00:00:05"]
    sums = pa.array([None, 0.1 + 0.2, 0.1 + 0.2 - 0.3])
    assert cast_to("DECIMAL(5,2)", sums) == [Decimal("0.30"), Decimal("0.00")]


@pytest.mark.parametrize(
    ("mapping", "columns", "words"),
    [
        ("k STRING :key, v INT f:v", {"v": [1]}, "'k' is not in the data; it has v"),
        ("k STRING :key, v INT f:v", {"k": ["a", None], "v": [1, 1]}, "'k' is null in row 1"),
        ("k STRING :key, v INT f:v", {"k": ["a", ""], "v": [1, 1]}, "empty in row 1"),
        ("k STRING :key, l STRING :key, v INT f:v", {"k": ["a|b"], "l": ["c"], "v": [1]}, "separator '|' in row 0"),
        ("k STRING :key", {"k": ["a"]}, "only a key"),
        (
            "k STRING :key, v TIMESTAMP f:v millis",
            {"k": ["a"], "v": [datetime.datetime(1970, 1, 1, 0, 0, 0, 5)]},
            "millis",
        ),
        (
            "d DATE :key, v STRING f:v",
            {"d": pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()), "v": ["x", "x"]},
            "a value lies outside of the years 0001 to 9999",
        ),
        (
            "k STRING :key, v TIMESTAMP f:v text",
            {"k": ["a"], "v": pa.array([253_402_300_800_000_000], pa.timestamp("us"))},
            "a value lies outside of the years 0001 to 9999",
        ),
    ],
)
def test_rows_that_can_not_be_written_are_refused(
    mapping: str, columns: dict[str, list[object] | Array], words: str
) -> None:
    with pytest.raises(MappingError) as caught:
        cells_from_rows(pa.RecordBatch.from_pydict(columns), Mapping(mapping), None)
    assert words in str(caught.value)


@pytest.mark.parametrize("target", [":key", "f:v text"])
def test_the_first_and_last_times_that_text_holds_are_read_back(target: str) -> None:
    """A time beyond them could be written but not read, and neither could a table with it in a key."""
    other = "STRING f:other" if target == ":key" else "STRING :key"
    first, last = datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime.max.replace(tzinfo=UTC)
    for kind, times in (("DATE", [first.date(), last.date()]), ("TIMESTAMP", [first, last])):
        mapping = Mapping(f"at {kind} {target}, other {other}")
        batch = pa.RecordBatch.from_pydict({"at": times, "other": ["a", "b"]}, schema=mapping.schema)
        read = rows_from_cells(pa.Table.from_batches([cells_from_rows(batch, mapping, 1)]), mapping)
        assert read.column("at").to_pylist() == times


_ZONED = pa.timestamp("us", tz="UTC")
_FAR_MICROS = 253402300800000000


@pytest.mark.parametrize(
    ("text", "column", "values", "expected"),
    [
        ("n INT f:n", pa.int64(), [1, 2, 5000000000], "is row 2, with the key 'c' and the value 5000000000"),
        (
            "n DECIMAL(10,2) f:n",
            pa.decimal128(10, 3),
            [Decimal("1.000"), None, Decimal("1.234")],
            "is row 2, with the key 'c' and the value 1.234",
        ),
        ("n STRING f:n", pa.binary(), [b"x", b"\xff", b"\xff"], r"is row 1, with the key 'b' and the value b'\\xff'"),
        ("n TIMESTAMP f:n millis", _ZONED, [0, 1, 0], r"'n' can't be written.* is row 1, .*the value 1970-01-01 00:00"),
        ("n TIMESTAMP f:n text", _ZONED, [0, _FAR_MICROS, 0], "is row 1, .* and the value 253402300800000000 "),
        ("n DATE f:n text", pa.date32(), [0, 2932897, 0], "is row 1, .* and the value 2932897 "),
        ("n INT :key, v STRING f:v", pa.int64(), [1, 2, 5000000000], "in row 2 this part of the key is 5000000000"),
        ("n DATE :key, v STRING f:v", pa.date32(), [0, 2932897, 0], "the key column 'n' can't be written in row 1"),
        ("n DATE f:n", pa.list_(pa.int32()), [[], [], []], "does not fit DATE: Unsupported cast"),
        ("n INT f:n", pa.string(), ["1", "two", "three"], "parse string: 'two'.* is row 1, .* and the value 'two'"),
        ("n INT f:n", pa.string_view(), ["1", "2", "three"], "is row 2, .* and the value 'three'"),
        (
            "n DECIMAL(4,2) f:n",
            pa.int64(),
            [None, 5, 500],
            r"'n' is int64 and does not fit DECIMAL\(4,2\): .*; it is row 2, with the key 'c' and the value 500",
        ),
        ("n DECIMAL(4,2) :key, v STRING f:v", pa.int64(), [1, 500, 3], "in row 1 this part of the key is 500"),
        ("n DECIMAL(10,2) f:n", pa.bool_(), [None, True, True], r"does not fit DECIMAL\(10,2\): [^;]*\Z"),
        ("n DECIMAL(10,2) :key, v STRING f:v", pa.bool_(), [True] * 3, r"does not fit DECIMAL\(10,2\): [^;]*\Z"),
    ],
)
def test_the_first_value_that_can_not_be_written_is_reported_with_its_row_and_key(
    text: str, column: pa.DataType, values: list[Any], expected: str
) -> None:
    data = {"id": pa.array(["a", "b", "c"]), "n": pa.array(values, column), "v": pa.array(["v"] * 3)}
    with pytest.raises(MappingError, match=expected):
        cells_from_rows(pa.RecordBatch.from_pydict(data), Mapping(f"id STRING :key, {text}"), 1)


def test_a_far_time_in_a_dictionary_is_reported_like_any_value_that_can_not_be_written() -> None:
    far = pa.array([_FAR_MICROS + 1], pa.timestamp("us")).dictionary_encode()
    with pytest.raises(MappingError, match=r"is row 0, with the key '0000' and the value 253402300800000001 "):
        cast_to("DATE", far)


def test_millis_hold_every_date_and_all_whole_milliseconds_of_a_timestamp() -> None:
    mapping = Mapping("k STRING :key, d DATE f:d millis, t TIMESTAMP f:t millis")
    ends = (1 << 63) // 1000 * 1000
    columns: list[Array] = [
        pa.array(["a", "b"]),
        pa.array([-(1 << 31), (1 << 31) - 1], pa.int32()).cast(pa.date32()),
        pa.array([-ends, ends], pa.int64()).cast(mapping.schema.field("t").type),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=mapping.schema)
    read = rows_from_cells(pa.Table.from_batches([cells_from_rows(batch, mapping, 1)]), mapping)
    assert read.equals(pa.Table.from_batches([batch]))


def stored_cells(*made: tuple[bytes, bytes, bytes]) -> pa.Table:
    rows, qualifiers, values = zip(*made, strict=True)
    return pa.table(
        {
            "row": pa.array(rows, pa.binary()),
            "family": pa.array([b"f"] * len(made), pa.binary()),
            "qualifier": pa.array(qualifiers, pa.binary()),
            "timestamp": pa.array([1] * len(made), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_of_several_versions_the_newest_is_read_and_unmapped_columns_are_left_out() -> None:
    mapping = Mapping("k STRING :key, v STRING f:v, absent INT f:absent")
    table = stored_cells((b"a", b"other", b"?"), (b"a", b"v", b"new"), (b"a", b"v", b"old"), (b"b", b"x", b""))
    assert rows_from_cells(table, mapping).to_pylist() == [
        {"k": "a", "v": "new", "absent": None},
        {"k": "b", "v": None, "absent": None},
    ]


@pytest.mark.parametrize(
    ("mapping", "cell", "words"),
    [
        ("k STRING :key, v INT f:v", (b"a", b"v", b"123"), "3 bytes instead of 4"),
        ("k STRING :key, v INT f:v text", (b"a", b"v", b"x"), "f:v of row 'a' can't be read as INT text"),
        ("k STRING :key, v STRING f:v", (b"a", b"v", b"\xff"), "not UTF-8"),
        ("k STRING :key, v DECIMAL(4,1) f:v", (b"a", b"v", b"\0\0\0\x02\x05"), "another scale"),
        ("k STRING :key, v DECIMAL(4,1) f:v", (b"a", b"v", b"\0\0\0\x01"), "not a decimal"),
        ("k STRING :key, v DECIMAL(2,0) f:v", (b"a", b"v", b"\0\0\0\0\x7f"), "does not fit"),
        ("k STRING :key, v TIMESTAMP f:v millis", (b"a", b"v", (1 << 62).to_bytes(8, "big")), "f:v of row 'a'"),
        ("k STRING :key, v TIMESTAMP f:v millis", (b"a", b"v", b"\x80" + bytes(7)), "more milliseconds"),
        ("k STRING :key, v DATE f:v millis", (b"a", b"v", (1 << 62).to_bytes(8, "big")), "more milliseconds"),
        ("k INT :key, v STRING f:v", (b"a", b"v", b""), "key column 'k' of row 'a' can't be read as INT"),
        ("k INT :key ordered, l STRING :key, v STRING f:v", (b"abc", b"v", b""), "ends within 'k'"),
        ("k STRING :key, l STRING :key, v STRING f:v", (b"abc", b"v", b""), "ends within 'k'"),
        ("k STRING :key ordered, l STRING :key, v STRING f:v", (b"abc", b"v", b""), "ends within 'k'"),
    ],
)
def test_cells_that_do_not_fit_the_mapping_are_reported(
    mapping: str, cell: tuple[bytes, bytes, bytes], words: str
) -> None:
    with pytest.raises(MappingError) as caught:
        rows_from_cells(stored_cells(cell), Mapping(mapping))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "can't be parsed at ''"),
        ("id STRING", "a column is 'name TYPE target'"),
        ("id STRING :key,", "can't be parsed"),
        ("id STRING :key v INT f:v", "can't be parsed"),
        ("id STRING :key; color=red", "can't be parsed at '; color=red'"),
        ("v INT f:v", "has no key"),
        ("id STRING :key; separator=ab", "the separator 'ab'; it must be one character"),
        ("id BLOB :key", "unknown type"),
        ("id TIMESTAMP_NTZ :key", "unknown type TIMESTAMP_NTZ"),
        ("id INT(5) :key", "unknown type"),
        ("id STRING :key, v DECIMAL(39) f:v", "1 to 38 digits"),
        ("id STRING :key, v DECIMAL(2,3) f:v", "1 to 38 digits"),
        ("id STRING :key, v INT f", "malformed target"),
        ("id STRING :key, v INT f:v backwards", "the encodings are"),
        ("id STRING :key, v INT f:v ordered", "only keys are 'ordered'"),
        ("id STRING :key, v INT f:v millis", "can't have the encoding 'millis'"),
        ("a STRING :key binary, b STRING :key, v INT f:v", "has no end of its own"),
        ("id STRING :key, id INT f:v", "the name 'id' more than once"),
        ("id STRING :key, a INT f:v, b INT f:v", "the target 'f:v' more than once"),
    ],
)
def test_malformed_mappings_are_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(MappingError) as caught:
        Mapping(text)
    assert words in str(caught.value)


def test_names_and_targets_may_be_quoted_and_words_have_either_case() -> None:
    mapping = Mapping("`a b``c` string :KEY, v Long `f:x, y;z` TEXT".replace(":KEY", ":key"))
    assert [column.name for column in mapping.columns] == ["a b`c", "v"]
    assert mapping.values[0].column == b"f:x, y;z"
    assert (mapping.values[0].type, mapping.values[0].encoding) == ("bigint", "text")


@pytest.mark.parametrize(
    ("other", "name"),
    [("timestamp_ltz", "TIMESTAMP"), ("byte", "TINYINT"), ("numeric(7,2)", "DECIMAL(7,2)"), ("bool", "BOOLEAN")],
)
def test_types_may_have_their_other_names(other: str, name: str) -> None:
    assert Mapping(f"id STRING :key, v {other} f:v").values[0].type_text == name


def test_mappings_are_values() -> None:
    text = "id STRING :key, v INT f:v; separator=/"
    mapping = Mapping(text)
    assert mapping == Mapping("id  string :key,v integer f:v;separator=/")
    assert mapping != Mapping("id STRING :key, v INT f:v")
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    assert hash(mapping) == hash(Mapping(text))
    assert [(field.name, field.type, field.nullable) for field in mapping.schema] == [
        ("id", pa.string(), False),
        ("v", pa.int32(), True),
    ]
