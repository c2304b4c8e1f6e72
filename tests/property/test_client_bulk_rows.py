"""Random tables: a bulk batch as rows says the same as its cells, and both forms of scanned columns read alike."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock._codec.arrow_buffers import Array
from rowlock._codec.mapped_rows import bulk_rows_of, rows_from_form
from rowlock._codec.row_form import RowFormReader, form_of
from rowlock._core.bulk_input import Piece, Sizes, bulk_pieces
from rowlock._core.bulk_send import BulkSend
from rowlock._core.sequences import Sequences
from rowlock.mapping import Mapping
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.drawn_cases import case_count
from tests.property.test_client_mapping import TYPES
from tests.unit.client.plain_bulk_rows import PlainCell, plain_cells, plain_cells_of
from tests.unit.client.plain_row_form import message_of

ENCODINGS = ("binary", "text")


@st.composite
def tables(draw: st.DrawFn) -> tuple[Mapping, pa.RecordBatch]:
    """Returns a mapping with values in two families, and rows with nulls, some of them without any value."""
    chosen = draw(
        st.lists(st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(ENCODINGS)), min_size=1, max_size=5)
    )
    columns = [f"c{n} {kind} {'gf'[n % 2]}:c{n} {encoding}" for n, (kind, encoding) in enumerate(chosen)]
    keys = draw(
        st.sampled_from(["k INT :key ordered", "k INT :key ordered, l STRING :key", "k INT :key, l STRING :key"])
    )
    mapping = Mapping(", ".join([keys, *columns]))
    count = draw(st.integers(0, 20))
    data: dict[str, list[object]] = {}
    for part in mapping.keys:
        values: st.SearchStrategy[object] = st.integers(0, 3) if part.name == "k" else st.sampled_from(["", "x", "ä|"])
        data[part.name] = draw(st.lists(values, min_size=count, max_size=count))
    for n, (kind, _) in enumerate(chosen):
        present = st.none() | TYPES[kind] if draw(st.integers(0, 3)) else st.none()
        data[f"c{n}"] = draw(st.lists(present, min_size=count, max_size=count))
    batch = pa.RecordBatch.from_pydict(data, schema=mapping.schema)
    start = draw(st.integers(0, count))
    return mapping, batch.slice(start, draw(st.integers(0, count - start)))


def expected_cells(
    mapping: Mapping, batch: pa.RecordBatch, timestamp: int | None, nulls_delete: bool
) -> list[PlainCell]:
    """Returns the cells, encoded value by value."""
    keys = [bulk_rows_of(batch.slice(n, 1), mapping, 1, nulls_delete=True).keys[0].as_py() for n in range(len(batch))]
    cells: list[PlainCell] = []
    for place, key in enumerate(keys):
        for column in sorted(mapping.values, key=lambda column: column.column):
            value = column.codec.encode(batch.column(column.name).slice(place, 1))[0].as_py()
            if value is not None or nulls_delete:
                cells.append((key, column.family, column.qualifier, timestamp, value))
    return cells


@settings(deadline=None, max_examples=case_count(150, 50))
@given(tables(), st.none() | st.integers(0, 9), st.booleans())
def test_rows_say_the_same_as_their_cells(
    made: tuple[Mapping, pa.RecordBatch], timestamp: int | None, nulls_delete: bool
) -> None:
    mapping, batch = made
    rows = bulk_rows_of(batch, mapping, timestamp, nulls_delete=nulls_delete)
    expected = expected_cells(mapping, batch, timestamp, nulls_delete)
    assert plain_cells_of(rows.cells()) == expected
    send = BulkSend(
        "t", iter([Piece(range(len(batch)), rows)]), Sequences(), types_pb2.DURABILITY_UNSPECIFIED, 10.0, 3600.0
    )
    if rows.batch.num_rows:
        bulk = send.next(0.0)
        assert bulk is not None
        pieces = send.message(bulk, Region(1, "t", b"", b"", "s"), takes_rows=True)
        message = region_pb2.BulkBatch.FromString(b"".join(pieces))
        assert message.rows.nulls_delete == nulls_delete
        assert plain_cells(message.rows) == expected


@settings(deadline=None, max_examples=case_count(100, 40))
@given(tables(), st.integers(1, 400))
def test_pieces_together_are_the_input(made: tuple[Mapping, pa.RecordBatch], batch_bytes: int) -> None:
    mapping, batch = made
    for sizes in (Sizes(batch_bytes, None), Sizes(batch_bytes, batch_bytes)):
        pieces = bulk_pieces([batch, batch], mapping, 3, sizes)
        found = [cell for piece in pieces for cell in plain_cells_of(piece.data.cells())]
        assert found == expected_cells(mapping, batch, 3, False) * 2


def one_length(column: Array) -> Array:
    """Returns a binary column as fixed-size binary, if all values have one length and it is not empty."""
    lengths = {len(value) for value in column.to_pylist() if value is not None}
    return column.cast(pa.binary(lengths.pop())) if len(lengths) == 1 and lengths != {0} else column


@settings(deadline=None, max_examples=case_count(150, 50))
@given(tables())
def test_both_forms_of_a_column_read_alike(made: tuple[Mapping, pa.RecordBatch]) -> None:
    mapping, batch = made
    rows = bulk_rows_of(batch, mapping, 1, nulls_delete=True)
    stored = dict(zip(rows.columns, rows.batch.columns[2:], strict=True))
    forms = [stored[column.family, column.qualifier].cast(pa.binary()) for column in mapping.values]
    reader = RowFormReader.of(form_of(mapping), region_pb2.ScanRequest())
    names = ["row", *(str(place) for place in range(len(forms)))]
    key = pa.field("row", pa.binary(), nullable=False)
    for columns in (forms, [one_length(column) for column in forms]):
        schema = pa.schema([key, *(pa.field(name, each.type) for name, each in zip(names[1:], columns, strict=True))])
        table = pa.Table.from_arrays([rows.keys, *columns], schema=schema)
        read = rows_from_form(reader.read(message_of(table)), mapping)
        read.validate(full=True)
        assert read.equals(pa.Table.from_batches([batch], mapping.schema))
        for part in table.combine_chunks().slice(1).to_batches():
            again = rows_from_form(part, mapping)
            assert again.equals(pa.Table.from_batches([batch.slice(1)], mapping.schema))
