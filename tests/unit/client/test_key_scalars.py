"""Keys of the point API are those of bulk writes, and prefixes and bounds select what they say."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from rowlock import Mapping, MappingError
from rowlock._codec.key_scalars import KeyCodec
from rowlock._codec.keys import decoded_keys, encoded_keys
from rowlock._codec.mapped_rows import bulk_rows_of, rows_from_form
from rowlock._core.typed_rows import RowCodec
from rowlock_proto.v1 import types_pb2

from tests.seeds import generator_of

CASES = range(200)
PARTS = [
    "INT :key ordered",
    "BIGINT :key",
    "STRING :key",
    "STRING :key ordered",
    "BINARY :key ordered",
    "DATE :key",
    "BOOLEAN :key ordered",
    "SMALLINT :key binary",
    "DECIMAL(6,2) :key ordered",
]


def random_part(generator: random.Random, part: str) -> Any:
    kind = part.split()[0]
    if kind in ("INT", "BIGINT", "SMALLINT"):
        return generator.choice([0, 1, -1, 256, -300, 7])
    if kind == "DATE":
        return datetime.date(2013, 1, generator.choice([1, 2, 31]))
    if kind == "BOOLEAN":
        return generator.random() < 0.5
    if kind.startswith("DECIMAL"):
        return Decimal(generator.choice([0, 150, -150])).scaleb(-2)
    text = "".join(generator.choice(["a", "b", "\0", "ä"]) for _ in range(generator.randrange(4)))
    return text if kind == "STRING" else text.encode() + generator.choice([b"", b"\xff", b"\0"])


def random_mapping(generator: random.Random) -> Mapping:
    parts = [generator.choice(PARTS) for _ in range(generator.randint(1, 3))]
    columns = [f"p{number} {part}" for number, part in enumerate(parts)]
    return Mapping(", ".join([*columns, "v STRING f:v"]) + generator.choice(["", "; separator=#"]))


def random_key(generator: random.Random, mapping: Mapping) -> tuple[Any, ...]:
    return tuple(random_part(generator, part.text.split(" ", 1)[1]) for part in mapping.keys)


def test_a_key_is_encoded_and_decoded_as_in_bulk() -> None:
    for case in CASES:
        generator = generator_of(case)
        mapping = random_mapping(generator)
        codec = KeyCodec(mapping)
        key = random_key(generator, mapping)
        arrays = [pa.array([value], part.arrow) for value, part in zip(key, mapping.keys, strict=True)]
        try:
            [row] = encoded_keys(mapping, arrays).to_pylist()
        except MappingError:  # It is empty.
            with pytest.raises(MappingError, match="the key is empty"):
                codec.encode(key)
            continue
        assert codec.encode(key) == row, f"case {case}: {key}"
        found = codec.decode(row)
        assert (found if len(key) > 1 else (found,)) == key, f"case {case}: {key}"
        assert key == tuple(column[0].as_py() for column in decoded_keys(mapping, pa.array([row], pa.binary())))


def test_a_prefix_selects_the_keys_with_these_parts_and_no_others() -> None:
    for case in CASES:
        generator = generator_of(case)
        mapping = random_mapping(generator)
        codec = KeyCodec(mapping)
        keys = [random_key(generator, mapping) for _ in range(10)]
        given = generator.choice(keys)[: generator.randint(1, len(mapping.keys))]
        if len(given) == len(mapping.keys) and not mapping.keys[-1].is_bytes:
            with pytest.raises(MappingError, match="the prefix has all parts of the key"):
                codec.prefix(given)
            continue
        prefix = codec.prefix(given)
        assert prefix is not None
        for key in keys:
            try:
                row = codec.encode(key)
            except MappingError:
                continue
            has_parts = key[: len(given)] == given
            if len(given) == len(mapping.keys):
                last = key[-1]
                has_parts = key[: len(given) - 1] == given[:-1] and last[: len(given[-1])] == given[-1]
            assert row.startswith(prefix) == has_parts, f"case {case}: {key} and the prefix {given}"


def test_bounds_of_ordered_parts_select_as_tuples_compare() -> None:
    mapping = Mapping("a INT :key ordered, b STRING :key ordered, c BIGINT :key ordered, v STRING f:v")
    codec = KeyCodec(mapping)
    for case in CASES:
        generator = generator_of(case)
        keys = [random_key(generator, mapping) for _ in range(10)]
        bound = generator.choice(keys)[: generator.randint(1, 3)]
        first = codec.bound(bound)
        assert first is not None
        for key in keys:
            assert (codec.encode(key) >= first) == (key >= bound), f"case {case}: {key} and the bound {bound}"


def test_keys_that_are_none_are_refused() -> None:
    codec = KeyCodec(Mapping("day DATE :key, carrier STRING :key, n INT :key, v STRING f:v"))
    day = datetime.date(2013, 1, 1)
    for key, message in (
        (day, r"the key has 3 parts, \(day, carrier, n\), and 1 is given"),
        ((day, "UA"), "3 parts, .* and 2 are given"),
        ((day, "UA", 1, 2), "and 4 are given"),
        ((day, None, 1), "the key column 'carrier' is None"),
        ((day, "U|A", 1), r"has the separator '\|'"),
        ((day, "UA", 1 << 40), "the key column 'n' can't be 1099511627776"),
    ):
        with pytest.raises(MappingError, match=message):
            codec.encode(key)
    with pytest.raises(TypeError, match=r"the key column 'day' is DATE and takes a datetime\.date, not str"):
        codec.encode(("2013-01-01", "UA", 1))
    with pytest.raises(TypeError, match=r"a key of several parts is a tuple, as .*, and not a list"):
        codec.encode([day, "UA", 1])
    for bound in ((), (day, "UA", 1, 2)):
        with pytest.raises(MappingError, match="the key has 3 parts"):
            codec.bound(bound)
    with pytest.raises(MappingError, match="the key is empty"):
        KeyCodec(Mapping("k STRING :key, v STRING f:v")).encode("")


def test_rows_that_are_no_keys_are_refused() -> None:
    codec = KeyCodec(Mapping("day DATE :key, n INT :key ordered, s STRING :key, v STRING f:v"))
    for row, message in (
        (b"2013-01-01", "it ends within 'day'"),
        (b"2013-01-01|\x80", "it ends within 'n'"),
        (b"2013-01-32|\x80\0\0\0x", "the key column 'day' of row .* can't be read as DATE"),
        (b"2013-01-31|\x80\0\0\0\xff", "the key column 's' of row .* can't be read as STRING"),
    ):
        with pytest.raises(MappingError, match=message) as raised:
            codec.decode(row)
        assert raised.value.row == row


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("d DATE :key ordered, c STRING :key ordered, n INT :key ordered", (2013, "DL", 1), "(2013-06-01, 'DL', 1)"),
        ("n BIGINT :key ordered", (-5,), "-5"),
        ("p DECIMAL(6,2) :key ordered", (Decimal("-1.5"),), "-1.50"),
        ("t TIMESTAMP :key binary", (2013,), "2013-06-01T05:00:00"),
        # Text stays as it is in the table.
        ("c STRING :key, n INT :key", ("DL", 1), "'DL|1'"),
        ("c STRING :key ordered", ("DL",), "'DL'"),
    ],
)
def test_a_row_is_shown_by_its_key_unless_it_is_text(key: str, values: tuple[Any, ...], shown: str) -> None:
    codec = KeyCodec(Mapping(f"{key}, v STRING f:v"))
    moment = datetime.datetime(2013, 6, 1, 5, tzinfo=datetime.UTC)
    day = moment if "TIMESTAMP" in key else moment.date()
    assert codec.shown(codec.encode(tuple(day if value == 2013 else value for value in values))) == shown
    assert codec.shown(b"") == "''"


def test_errors_show_the_key_of_an_ordered_row() -> None:
    mapping = Mapping("d DATE :key ordered, c STRING :key ordered, n INT :key ordered, v TINYINT f:v")
    rows: dict[str, list[Any]] = {"d": [datetime.date(2013, 6, 1)], "c": ["DL"], "n": [1], "v": [1000]}
    key = r"\(2013-06-01, 'DL', 1\)"
    with pytest.raises(MappingError, match=rf"it is row 0, with the key {key} and the value 1000") as written:
        bulk_rows_of(pa.RecordBatch.from_pydict(rows), mapping, None)
    row = written.value.row
    assert row is not None
    with pytest.raises(MappingError, match=rf"f:v of row {key} can't be read as TINYINT"):
        RowCodec(mapping).row(row, [types_pb2.Cell(family=b"f", qualifier=b"v", value=b"long")])
    form = pa.table([pa.array([row]), pa.array([b"long"])], names=["row", "0"])
    with pytest.raises(MappingError, match=rf"f:v of row {key} can't be read as TINYINT"):
        rows_from_form(form, mapping)
