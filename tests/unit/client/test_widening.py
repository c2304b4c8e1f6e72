"""Which types may follow each other in a column, and how cells of several types are read."""

from __future__ import annotations

import datetime
import random
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from rowlock import Mapping, MappingError
from rowlock._codec.column_types import codec_of, type_of
from rowlock._codec.mapping_grammar import parsed
from rowlock._codec.scalars import scalar_codec
from rowlock._codec.widening import may_follow
from rowlock.mapping import MappedColumn

from tests.seeds import generator_of

UTC = datetime.UTC
CASES = range(100)
TYPES = [
    *("BINARY", "STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP"),
    *("DECIMAL(3,0)", "DECIMAL(5,2)", "DECIMAL(9,2)", "DECIMAL(12,2)", "DECIMAL(21,2)"),
]
# The types that may follow a type, in `binary`.
WIDER = {
    "STRING": "BINARY",
    "TINYINT": "SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(3,0) DECIMAL(5,2) DECIMAL(9,2) DECIMAL(12,2) DECIMAL(21,2)",
    "SMALLINT": "INT BIGINT FLOAT DOUBLE DECIMAL(9,2) DECIMAL(12,2) DECIMAL(21,2)",
    "INT": "BIGINT DOUBLE DECIMAL(12,2) DECIMAL(21,2)",
    "FLOAT": "DOUBLE",
    "DATE": "TIMESTAMP",
    "DECIMAL(3,0)": "DECIMAL(5,2) DECIMAL(9,2) DECIMAL(12,2) DECIMAL(21,2)",
    "DECIMAL(5,2)": "DECIMAL(9,2) DECIMAL(12,2) DECIMAL(21,2)",
    "DECIMAL(9,2)": "DECIMAL(12,2) DECIMAL(21,2)",
    "DECIMAL(12,2)": "DECIMAL(21,2)",
}
NARROW_VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, 1, -128, 127],
    "SMALLINT": [0, -32768, 300],
    "INT": [0, -1, 1 << 30],
    "BIGINT": [0, 1 << 40],
    "FLOAT": [0.5, -0.0, struct.unpack("f", struct.pack("f", 0.1))[0]],
    "DOUBLE": [0.1, 1e300],
    "DATE": [datetime.date(2013, 1, 31), datetime.date(1969, 12, 31)],
    "TIMESTAMP": [datetime.datetime(2013, 1, 31, 5, tzinfo=UTC)],
    "STRING": ["ä", ""],
    "BINARY": [b"\xff"],
    "BOOLEAN": [True],
    "DECIMAL(3,0)": [Decimal(0), Decimal(-999)],
    "DECIMAL(5,2)": [Decimal("1.50"), Decimal("-999.99")],
    "DECIMAL(9,2)": [Decimal("1234567.89")],
    "DECIMAL(12,2)": [Decimal("9999999999.99")],
    "DECIMAL(21,2)": [Decimal("-1.00")],
}


def arrow_of(kind: str) -> pa.DataType:
    [column], _ = parsed(f"c {kind} f:c")
    return type_of("c", column.type)[1]


def column(text: str) -> MappedColumn:
    return Mapping(f"k STRING :key, {text}").values[0]


def stored(kind: str, encoding: str, value: object) -> bytes:
    codec = codec_of(arrow_of(kind), encoding, is_last_key=True)
    assert codec is not None
    found: bytes = codec.encode(pa.array([value], codec.arrow))[0].as_py()
    return found


def test_the_types_that_may_follow_are_these_and_no_others() -> None:
    for old in TYPES:
        for new in TYPES:
            is_wider = old == new or new in WIDER.get(old, "").split()
            assert may_follow(arrow_of(old), arrow_of(new), "binary", is_key=False) == is_wider, (old, new)


@pytest.mark.parametrize(
    ("old", "new", "encoding", "is_allowed"),
    [
        ("INT", "BIGINT", "text", True),
        ("DECIMAL(5,2)", "DECIMAL(9,2)", "text", True),
        ("DECIMAL(5,2)", "DECIMAL(9,2)", "ordered", True),
        ("STRING", "BINARY", "ordered", True),
        ("DATE", "TIMESTAMP", "millis", True),
        ("INT", "BIGINT", "ordered", False),
        ("INT", "BIGINT", "binary", False),
        ("INT", "DOUBLE", "text", False),
        ("DATE", "TIMESTAMP", "text", False),
        ("DECIMAL(3,0)", "DECIMAL(5,2)", "text", False),
        ("BIGINT", "INT", "text", False),
    ],
)
def test_a_part_of_a_key_may_change_only_if_its_bytes_stay(old: str, new: str, encoding: str, is_allowed: bool) -> None:
    assert may_follow(arrow_of(old), arrow_of(new), encoding, is_key=True) == is_allowed


@pytest.mark.parametrize("encoding", ["binary", "text", "millis"])
@pytest.mark.parametrize("new", TYPES)
def test_cells_of_former_types_are_read_as_the_same_values(new: str, encoding: str) -> None:
    """In bulk and one by one, mixed with cells of the new type and with nulls, in any order."""
    arrow = arrow_of(new)
    if codec_of(arrow, encoding, is_last_key=True) is None:
        return
    former = [
        old
        for old in TYPES
        if old != new
        and codec_of(arrow_of(old), encoding, is_last_key=True) is not None
        and may_follow(arrow_of(old), arrow, encoding, is_key=False)
    ]
    for case in CASES:
        generator = generator_of(case)
        chain = random_chain(generator, former, new, encoding)
        wide = column(" ".join([f"c {new} f:c {encoding}", *(f"was {old}" for old in chain)]))
        cells: list[bytes | None] = []
        values: list[Any] = []
        for _ in range(generator.choice([0, 1, 20])):
            kind = generator.choice([None, new, *chain])
            value = None if kind is None else generator.choice(NARROW_VALUES[kind])
            cells.append(None if kind is None else stored(kind, encoding, value))
            values.append(value)
        array = wide.codec.decode(pa.array(cells, pa.binary()))
        expected: Any = pa.array([as_wide(value, arrow) for value in values], arrow)
        assert array.to_pylist() == expected.to_pylist(), f"case {case}: {wide.text}"
        decode = scalar_codec(wide).decode
        assert [None if cell is None else decode(cell) for cell in cells] == array.to_pylist(), f"case {case}"


def random_chain(generator: random.Random, former: list[str], new: str, encoding: str) -> list[str]:
    """Returns former types of a column, the oldest first, each of which may follow the one before."""
    chain: list[str] = []
    for old in generator.sample(former, len(former)):
        candidate = [*chain, old, new]
        follows = all(
            may_follow(arrow_of(one), arrow_of(other), encoding, is_key=False) for one, other in pairwise(candidate)
        )
        if follows and generator.random() < 0.7:
            chain.append(old)
    return chain


def as_wide(value: Any, arrow: pa.DataType) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) and pa.types.is_timestamp(arrow):
        return datetime.datetime.combine(value, datetime.time(), UTC)
    if pa.types.is_floating(arrow) and isinstance(value, int):
        return float(value)
    if isinstance(value, str) and pa.types.is_binary(arrow):
        return value.encode()
    if isinstance(arrow, pa.Decimal128Type) and value is not None:
        return Decimal(value).quantize(Decimal(1).scaleb(-arrow.scale))
    return value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c INT f:c was BIGINT", "column 'c' was BIGINT, which INT as 'binary' can't follow"),
        ("c DECIMAL(21,2) f:c was BIGINT", "column 'c' was BIGINT, which DECIMAL as 'binary' can't follow"),
        ("c DOUBLE f:c was FLOAT was INT", "column 'c' was of types whose bytes can't be distinguished"),
        ("c BIGINT f:c was", "can't be parsed at 'was'"),
        ("c BIGINT f:c was VARCHAR", "unknown type VARCHAR"),
        ("c BIGINT f:c text was", "can't be parsed at 'was'"),
    ],
)
def test_impossible_former_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        column(text)


def test_a_widened_column_has_a_text_that_gives_it_again() -> None:
    wide = column("`my c` BIGINT `f:a b` WAS int was TINYINT")
    assert wide.text == "`my c` BIGINT `f:a b` was INT was TINYINT"
    assert [former.type for former in column(wide.text).formers] == ["int", "tinyint"]
    # What has the same bytes needs no former type.
    assert column("c BIGINT f:c text was INT").text == "c BIGINT f:c text"
    assert column("c DECIMAL(9,2) f:c was DECIMAL(5,2)").text == "c DECIMAL(9,2) f:c"


def test_a_cell_of_no_type_of_the_column_is_refused_and_named() -> None:
    wide = column("c BIGINT f:c was INT")
    with pytest.raises(MappingError, match="a value has 2 bytes instead of 8"):
        wide.codec.decode(pa.array([b"\0\0\0\5", b"\0\5"], pa.binary()))
    with pytest.raises(MappingError, match="a value has 2 bytes instead of 8"):
        scalar_codec(wide).decode(b"\0\5")


def test_a_date_beyond_the_years_of_a_timestamp_is_refused() -> None:
    wide = column("c TIMESTAMP f:c was DATE")
    with pytest.raises(MappingError, match="does not fit timestamp"):
        wide.codec.decode(pa.array([(2**31 - 1).to_bytes(4, "big")], pa.binary()))
