from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from rowlock import Mapping, MappingError
from rowlock._codec.arrow_buffers import Array
from rowlock.spark.decoding import rows_of_cells, rows_of_form
from rowlock.spark.frame import Frame, mapped_frame, plain_frame

_MAPPING = Mapping("id STRING :key, delay INT info:delay, dest STRING info:dest, count BIGINT info:count text")


def _schema(frame: Frame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")


def _form(*columns: list[bytes] | list[bytes | None] | list[int | None]) -> pa.RecordBatch:
    arrays = [pa.array(column, pa.int64() if isinstance(column[0], int) else pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=["row", *(str(place) for place in range(len(columns) - 1))])


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def test_rows_have_exactly_the_schema_that_spark_checks() -> None:
    frame = mapped_frame(_MAPPING, ("delay",), False)
    batch = rows_of_form(
        _form([b"a", b"b"], [_int(-5), None], [None, b"JFK"], [b"12", None], [1_700_000_000_123, None]),
        frame,
        _schema(frame),
        False,
    )
    assert batch.schema.equals(_schema(frame))
    assert batch.to_pylist() == [
        {
            "id": "a",
            "delay": -5,
            "dest": None,
            "count": 12,
            "delay_timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, datetime.UTC),
        },
        {"id": "b", "delay": None, "dest": "JFK", "count": None, "delay_timestamp": None},
    ]


def test_text_is_not_copied() -> None:
    frame = mapped_frame(Mapping("id BINARY :key, dest STRING info:dest"), (), False)
    form = _form([b"a"], [b"JFK"])
    batch = rows_of_form(form, frame, _schema(frame), False)
    for place in (0, 1):
        before, after = form.column(place).buffers()[2], batch.column(place).buffers()[2]
        assert before is not None
        assert after is not None
        assert before.address == after.address


def test_malformed_bytes_fail_with_row_and_column() -> None:
    frame = mapped_frame(_MAPPING, (), False)
    with pytest.raises(MappingError, match=r"'delay' \(info:delay\) of row 'b' can't be read as INT.*malformed=null"):
        rows_of_form(_form([b"a", b"b"], [_int(1), b"xx"], [b"", b""], [b"1", b"1"]), frame, _schema(frame), False)
    with pytest.raises(MappingError, match=r"key column 'id' of row '\\xff'.*malformed=null"):
        rows_of_form(_form([b"\xff"], [_int(1)], [b""], [b"1"]), frame, _schema(frame), False)


def test_the_first_of_several_malformed_values_is_reported_with_its_row() -> None:
    frame = mapped_frame(_MAPPING, (), False)
    one = [_int(1)] * 3
    form = _form([b"a", b"b", b"c"], one, [b"", b"", b""], [b"1", b"first", b"last"])
    with pytest.raises(MappingError, match=r"of row 'b' can't be read as BIGINT: .*: 'first'") as refused:
        rows_of_form(form, frame, _schema(frame), False)
    assert "last" not in str(refused.value)


def test_malformed_bytes_become_nulls_on_request() -> None:
    frame = mapped_frame(_MAPPING, (), True)
    rows = [b"%d" % number for number in range(100)]
    delays: list[bytes | None] = [_int(number) if number % 7 else b"short" for number in range(100)]
    delays[1] = None
    counts: list[bytes | None] = [b"%d" % number if number % 5 else b"five" for number in range(100)]
    dests: list[bytes | None] = [b"ok" if number % 11 else b"\xff" for number in range(100)]
    batch = rows_of_form(_form(rows, delays, dests, counts), frame, _schema(frame), True)
    assert batch.schema.equals(_schema(frame))
    assert batch.column("delay").to_pylist() == [n if n % 7 and n != 1 else None for n in range(100)]
    assert batch.column("count").to_pylist() == [n if n % 5 else None for n in range(100)]
    assert batch.column("dest").to_pylist() == ["ok" if n % 11 else None for n in range(100)]


def test_milliseconds_out_of_range_fail_or_become_nulls() -> None:
    """2**62 of them once wrapped around to another time."""
    stored: list[bytes | None] = [n.to_bytes(8, "big") for n in (1 << 62, 0)]
    for kind in ("DATE", "TIMESTAMP"):
        mapping = Mapping(f"id STRING :key, at {kind} f:at millis")
        frame = mapped_frame(mapping, (), False)
        with pytest.raises(MappingError, match=r"column 'at' \(f:at\) of row 'a' .*malformed=null"):
            rows_of_form(_form([b"a", b"b"], stored), frame, _schema(frame), False)
        frame = mapped_frame(mapping, (), True)
        batch = rows_of_form(_form([b"a", b"b"], stored), frame, _schema(frame), True)
        assert batch.column("at").cast(pa.date32()).to_pylist() == [None, datetime.date(1970, 1, 1)]


def test_a_cell_timestamp_out_of_spark_s_range_is_refused() -> None:
    """A client may write any number; one beyond 292,277 years was once read as another time."""
    frame = mapped_frame(_MAPPING, ("dest",), True)
    form = _form([b"a", b"b"], [None, _int(1)], [b"JFK", b"LGA"], [None, b"1"], [1 << 62, None])
    with pytest.raises(MappingError, match=r"cell info:dest of row 'a' .* 4611686018427387904 .* option timestamps"):
        rows_of_form(form, frame, _schema(frame), True)


def test_a_malformed_key_becomes_null_on_request() -> None:
    mapping = Mapping("carrier STRING :key, flight INT :key ordered, x INT f:x")
    frame = mapped_frame(mapping, (), True)
    good = b"UA|" + (5 + (1 << 31)).to_bytes(4, "big")
    batch = rows_of_form(_form([good, b"nothing", good], [None, _int(1), None]), frame, _schema(frame), True)
    assert batch.column("carrier").to_pylist() == ["UA", None, "UA"]
    assert batch.column("flight").to_pylist() == [5, None, 5]


def _cells(*cells: tuple[bytes, bytes, bytes, bytes]) -> pa.RecordBatch:
    rows, families, qualifiers, values = (list(part) for part in zip(*cells, strict=True))
    arrays: list[Array] = [pa.array(part, pa.binary()) for part in (rows, families, qualifiers, values)]
    arrays.insert(3, pa.array([1] * len(rows), pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, names=["row", "family", "qualifier", "timestamp", "value"])


def test_cells_become_a_map_whose_names_are_escaped_if_they_are_not_text() -> None:
    frame = plain_frame()
    cells = _cells((b"a", b"f", b"x", b"1"), (b"a", b"f", b"\xff\\", b"2"), (b"\xfe", b"g", "ä:b".encode(), b"\0"))
    batch = rows_of_cells(cells, frame, _schema(frame))
    batch.validate(full=True)
    assert batch.schema.equals(_schema(frame))
    assert batch.to_pylist() == [
        {"row": b"a", "columns": [("f:x", b"1"), ("f:\\xff\\\\", b"2")]},
        {"row": b"\xfe", "columns": [("g:ä:b", b"\0")]},
    ]


def test_cells_of_a_slice_are_those_of_the_slice() -> None:
    frame = plain_frame()
    cells = _cells((b"a", b"f", b"x", b"1"), (b"b", b"f", b"y", b"2"), (b"b", b"f", b"z", b"3")).slice(1)
    batch = rows_of_cells(cells, frame, _schema(frame))
    assert batch.to_pylist() == [{"row": b"b", "columns": [("f:y", b"2"), ("f:z", b"3")]}]
