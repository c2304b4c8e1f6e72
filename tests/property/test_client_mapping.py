"""Mappings on random values: values round-trip, and ordered keys sort like their values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock._codec.keys import decoded_keys, encoded_keys
from rowlock.mapping import Mapping

from tests.drawn_cases import case_count
from tests.unit.client.plain_row_form import cells_from_rows, rows_from_cells

TYPES: dict[str, st.SearchStrategy[object]] = {
    "BINARY": st.binary(max_size=6),
    "STRING": st.text(max_size=6),
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(1 << 7), (1 << 7) - 1),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(12,3)": st.decimals(-999_999_999, 999_999_999, places=3),
    "DECIMAL(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "DATE": st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    "TIMESTAMP": st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)).map(
        lambda moment: moment.replace(tzinfo=datetime.UTC)
    ),
}
ENCODINGS = ("binary", "text")
ORDERED = [name for name in TYPES if name not in ("BINARY", "STRING")]


@st.composite
def rows(draw: st.DrawFn) -> tuple[Mapping, pa.RecordBatch]:
    """Returns a mapping with a few value columns, and rows with nulls that fit it, each with at least one cell."""
    chosen = draw(
        st.lists(st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(ENCODINGS)), min_size=1, max_size=5)
    )
    columns = [f"c{number} {kind} f:c{number} {encoding}" for number, (kind, encoding) in enumerate(chosen)]
    mapping = Mapping(", ".join(["k INT :key ordered, always STRING g:always", *columns]))
    count = draw(st.integers(1, 8))
    keys = draw(st.lists(st.integers(-100, 1 << 30), min_size=count, max_size=count, unique=True))
    data: dict[str, list[object]] = {"k": [*sorted(keys)], "always": ["x"] * count}
    for number, (kind, _) in enumerate(chosen):
        data[f"c{number}"] = draw(st.lists(st.none() | TYPES[kind], min_size=count, max_size=count))
    return mapping, pa.RecordBatch.from_pydict(data, schema=mapping.schema)


@settings(deadline=None, max_examples=case_count(150, 50))
@given(rows())
def test_rows_come_back_from_their_cells(made: tuple[Mapping, pa.RecordBatch]) -> None:
    mapping, batch = made
    for part in (batch, batch.slice(1), batch.slice(0, 1)):
        cells = cells_from_rows(part, mapping, 5)
        present = sum(len(column) - column.null_count for column in part.columns[1:])
        assert cells.num_rows == present
        assert rows_from_cells(pa.Table.from_batches([cells]), mapping).equals(pa.Table.from_batches([part]))


@st.composite
def keys(draw: st.DrawFn, encoding: str, types: list[str]) -> tuple[Mapping, list[tuple[object, ...]]]:
    """Returns a mapping with a key of some parts, and different values for them."""
    chosen = draw(st.lists(st.sampled_from(types), min_size=1, max_size=3))
    parts = ", ".join(f"p{number} {kind} :key {encoding}" for number, kind in enumerate(chosen))
    one = st.tuples(*(TYPES[kind] for kind in chosen))
    return Mapping(parts + "; separator=|"), draw(st.lists(one, min_size=1, max_size=12))


def encoded(mapping: Mapping, values: list[tuple[object, ...]]) -> list[bytes]:
    columns = [
        pa.array(list(column), part.codec.arrow)
        for part, column in zip(mapping.keys, zip(*values, strict=True), strict=True)
    ]
    rows = encoded_keys(mapping, columns)
    for part, before, after in zip(mapping.keys, columns, decoded_keys(mapping, rows), strict=True):
        assert after.equals(before), part
    return [row for row in rows.to_pylist() if row is not None]


@settings(deadline=None, max_examples=case_count(150, 50))
@given(keys("ordered", [*ORDERED, "BINARY", "STRING"]))
def test_ordered_keys_come_back_and_order_as_their_values(made: tuple[Mapping, list[tuple[object, ...]]]) -> None:
    mapping, values = made
    if any(part.codec.width is None for part in mapping.keys[-1:]):
        # A key is not empty.
        values = [(*value[:-1], value[-1] or ("x" if isinstance(value[-1], str) else b"x")) for value in values]

    def by_bytes(value: tuple[object, ...]) -> tuple[object, ...]:
        # Text sorts by its bytes, and -0.0 before 0.0.
        return tuple(
            part.encode() if isinstance(part, str) else (part, str(part)[0] != "-") if isinstance(part, float) else part
            for part in value
        )

    found = encoded(mapping, values)
    by_row = [value for _, value in sorted(zip(found, values, strict=True), key=lambda pair: pair[0])]
    assert [by_bytes(value) for value in by_row] == sorted(map(by_bytes, values))


@settings(deadline=None, max_examples=case_count(100, 40))
@given(keys("text", ORDERED))
def test_text_keys_come_back(made: tuple[Mapping, list[tuple[object, ...]]]) -> None:
    encoded(*made)
