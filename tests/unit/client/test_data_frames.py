"""DataFrames: what is read is what is written back."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import rowlock
from rowlock._core.bulk_input import ArrowInput, Sizes, bulk_pieces
from rowlock.rows import data_frame

MAPPING = rowlock.Mapping(
    "k STRING :key, tiny TINYINT f:a, small SMALLINT f:b, whole INT f:c, big BIGINT f:d, real FLOAT f:e, x DOUBLE f:f, "
    "yes BOOLEAN f:g, price DECIMAL(10,2) f:h, day DATE f:i, at TIMESTAMP f:j, raw BINARY f:k, text STRING f:l"
)
FULL = {
    "tiny": -128,
    "small": 2**15 - 1,
    "whole": -(2**31),
    "big": 2**53 + 1,
    "real": 0.5,
    "x": 0.1,
    "yes": True,
    "price": Decimal("-1.25"),
    "day": datetime.date(1, 1, 1),
    "at": datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
    "raw": b"\x00\xff",
    "text": "ä",
}


def encoded(data: ArrowInput) -> pa.RecordBatch:
    [piece] = bulk_pieces(data, MAPPING, None, Sizes(1 << 20, None))
    return piece.data.batch


def test_a_data_frame_with_nulls_is_written_back_as_it_was_read() -> None:
    """Once a single null made a BIGINT a column of floats: 2^53 + 1 was written back as 2^53."""
    rows = pa.Table.from_pylist([{"k": "a", **FULL}, {"k": "b", "text": ""}], MAPPING.schema)
    frame = data_frame(rows)
    assert frame["big"].tolist()[0] == 2**53 + 1
    assert encoded(frame) == encoded(rows)


def test_the_types_of_a_data_frame_are_those_of_its_columns() -> None:
    full = pa.Table.from_pylist([{"k": "a", **FULL}], MAPPING.schema)
    empty = pa.Table.from_pylist([{"k": "a"}], MAPPING.schema)
    named = [("tiny", "Int8"), ("small", "Int16"), ("whole", "Int32"), ("big", "Int64"), ("yes", "boolean")]
    for rows in (full, empty):
        assert {name: str(data_frame(rows)[name].dtype) for name, _ in named} == dict(named)
