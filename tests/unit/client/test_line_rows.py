"""Rows in columns as a client reads them: as cells, as dicts, and not at all if they contradict themselves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from rowlock._codec.arrow_buffers import one_array
from rowlock._codec.line_columns import LineColumns, RepeatedOffsets
from rowlock._codec.line_rows import LineReader, LineRows
from rowlock._codec.row_form import FormColumn
from rowlock._codec.scan_message import ScanMessage, parse_scan_message
from rowlock._core.scan_plan import ScanPlan
from rowlock._core.scan_progress import ScanProgress
from rowlock.errors import ServerError
from rowlock_proto.v1 import region_pb2

P, Q, P_TIME, Q_TIME = (FormColumn(b"f", name, timed) for timed in (False, True) for name in (b"p", b"q"))
FIXED = pa.binary(2)
Columns = dict[FormColumn, "pa.Array[pa.Scalar[pa.DataType]]"]


def table_of(columns: Columns, keys: list[bytes] | None = None) -> pa.Table:
    arrays = [pa.array(keys or [b"a", b"bb"], pa.binary()), *columns.values()]
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
    fields += [pa.field(str(place), array.type) for place, array in enumerate(columns.values())]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def rows_of(columns: Columns, keys: list[bytes] | None = None) -> LineRows:
    return LineRows.of(table_of(columns, keys), LineColumns(list(columns)))


def times(*numbers: int | None) -> pa.Array[pa.Scalar[pa.DataType]]:
    return pa.array(numbers, pa.int64())


def message_of(table: pa.Table, columns: list[FormColumn]) -> ScanMessage:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    parts = [
        region_pb2.RowFormColumn(
            family=column.family,
            qualifier=column.qualifier,
            part=region_pb2.RowFormColumn.PART_TIMESTAMP
            if column.is_timestamp
            else region_pb2.RowFormColumn.PART_VALUE,
        )
        for column in columns
    ]
    batch = region_pb2.ScanBatch(arrow=sink.getvalue().to_pybytes(), line_columns=parts, row_count=table.num_rows)
    return parse_scan_message(batch.SerializeToString())


def test_rows_without_nulls_become_cells_and_dicts() -> None:
    fixed = pa.array([b"p1", b"p2"], FIXED)
    for q in (pa.array([b"q1", b"q2"], FIXED), pa.array([b"q1", b"q2"], pa.binary())):
        for timed in ({P_TIME: times(7, 8)}, {P_TIME: times(7, 8), Q_TIME: times(9, 9)}):
            rows = rows_of({P: fixed, Q: q, **timed})
            last = [9, 9] if Q_TIME in timed else [7, 8]
            assert rows.cells().to_pydict() == {
                "row": [b"a", b"a", b"bb", b"bb"],
                "family": [b"f"] * 4,
                "qualifier": [b"p", b"q"] * 2,
                "timestamp": [7, last[0], 8, last[1]],
                "value": [b"p1", b"q1", b"p2", b"q2"],
            }
            assert list(rows.expanded(bytes)) == [
                (b"a", {b"f:p": b"p1", b"f:q": b"q1"}),
                (b"bb", {b"f:p": b"p2", b"f:q": b"q2"}),
            ]
            assert dict(rows.expanded(bytes.decode))["bb"] == {"f:p": "p2", "f:q": "q2"}


def test_a_null_is_no_cell() -> None:
    rows = rows_of(
        {
            P: pa.array([None, b"p2"], FIXED),
            Q: pa.array([b"", None], pa.binary()),
            P_TIME: times(None, 8),
            Q_TIME: times(9, None),
        }
    )
    assert rows.cells().to_pydict() == {
        "row": [b"a", b"bb"],
        "family": [b"f", b"f"],
        "qualifier": [b"q", b"p"],
        "timestamp": [9, 8],
        "value": [b"", b"p2"],
    }
    assert list(rows.expanded(bytes)) == [(b"a", {b"f:q": b""}), (b"bb", {b"f:p": b"p2"})]


def test_empty_values_and_slices_of_arrays_become_cells() -> None:
    empty = pa.array([b"", b""], pa.binary(0))
    assert list(rows_of({P: empty, P_TIME: times(1, 1)}).expanded(bytes)) == [
        (b"a", {b"f:p": b""}),
        (b"bb", {b"f:p": b""}),
    ]
    whole = {P: pa.array([b"p0", b"p1", b"p2"], FIXED), Q: empty, P_TIME: times(0, 7, 8)}
    columns = {**whole, P: whole[P].slice(1), P_TIME: whole[P_TIME].slice(1)}
    cells = LineRows.of(table_of(columns, [b"x1", b"x2"]), LineColumns(list(columns))).cells()
    assert cells.column("value").to_pylist() == [b"p1", b"", b"p2", b""]
    assert cells.column("timestamp").to_pylist() == [7, 7, 8, 8]


VALUES = pa.array([b"p1", b"p2"], FIXED)
SOME = pa.array([b"p1", None], FIXED)


@pytest.mark.parametrize(
    "columns",
    [
        {P_TIME: times(1, 1)},
        {P: VALUES},
        {Q: VALUES, P: VALUES, P_TIME: times(1, 1)},
        {P: VALUES, Q: VALUES, Q_TIME: times(1, 1), P_TIME: times(1, 1)},
        {P: VALUES, P_TIME: times(1, None)},
        {P: VALUES, Q: VALUES, P_TIME: times(1, None), Q_TIME: times(1, 1)},
        {P: SOME, P_TIME: times(1, 1)},
    ],
    ids=[
        "no value",
        "no timestamp",
        "order",
        "order of timestamps",
        "a timestamp is null",
        "one of several",
        "no cell",
    ],
)
def test_rows_that_contradict_themselves_are_refused(columns: Columns) -> None:
    with pytest.raises(ServerError, match="rows in columns is damaged"):
        rows_of(columns)


@pytest.mark.parametrize("timed", [[P_TIME], [P_TIME, Q_TIME]])
def test_a_message_without_rows_is_refused(timed: list[FormColumn]) -> None:
    columns = {P: VALUES, Q: VALUES, **{column: times(1, 2) for column in timed}}
    with pytest.raises(ServerError, match="it has no row"):
        LineReader().read(message_of(table_of(columns).slice(0, 0), list(columns)))


def test_a_message_is_read_only_if_its_rows_were_requested() -> None:
    columns = {P: VALUES, P_TIME: times(1, 2)}
    message = message_of(table_of(columns), list(columns))
    assert [row for row, _ in LineReader().read(message).expanded(bytes)] == [b"a", b"bb"]
    template = region_pb2.ScanRequest(lines=True)
    plan = ScanPlan("t", ((b"", b""),), template, None, is_reverse=False, is_strict=False)
    cells = ScanProgress(plan, 1.0).received(message)
    assert isinstance(cells, pa.Table)
    assert cells.column("timestamp").to_pylist() == [1, 2]
    template.newest_rows = True
    assert isinstance(ScanProgress(plan, 1.0).received(message), LineRows)
    template.lines = False
    with pytest.raises(ServerError, match="not requested"):
        ScanProgress(plan, 1.0).received(message)


def test_a_message_with_other_columns_than_it_names_is_refused() -> None:
    columns = {P: VALUES, P_TIME: times(1, 2)}
    for named, problem in (([P], "is damaged"), ([P, Q, P_TIME], "wrong schema"), ([P_TIME, P], "wrong schema")):
        with pytest.raises(ServerError, match=problem):
            LineReader().read(message_of(table_of(columns), named))


def test_messages_of_one_scan_share_what_their_cells_have_alike() -> None:
    reader = LineReader()

    def cells_of(columns: Columns, keys: list[bytes]) -> pa.Table:
        cells = reader.read(message_of(table_of(columns, keys), list(columns))).cells()
        cells.validate(full=True)
        return cells

    def addresses(cells: pa.Table) -> set[int]:
        buffers = [buffer for name in cells.column_names for buffer in one_array(cells.column(name)).buffers()]
        return {buffer.address for buffer in buffers if buffer is not None}

    three = cells_of({P: pa.array([b"1", b"2", b"3"], pa.binary(1)), P_TIME: times(7, 8, 9)}, [b"a", b"b", b"c"])
    two = cells_of({P: pa.array([b"4", b"5"], pa.binary(1)), P_TIME: times(7, 8)}, [b"d", b"e"])
    # The offsets of rows and values, and both buffers of families and qualifiers.
    assert len(addresses(three) & addresses(two)) == 6
    assert two.to_pydict() == {
        "row": [b"d", b"e"],
        "family": [b"f", b"f"],
        "qualifier": [b"p", b"p"],
        "timestamp": [7, 8],
        "value": [b"4", b"5"],
    }
    longer = cells_of({P: pa.array([b"44", b"55"], FIXED), P_TIME: times(7, 8)}, [b"dd", b"ee"])
    assert longer.column("row").to_pylist() == [b"dd", b"ee"]
    assert longer.column("value").to_pylist() == [b"44", b"55"]
    many = cells_of({P: pa.array([b"p"] * 9, pa.binary(1)), P_TIME: times(*range(9))}, [b"%d" % n for n in range(9)])
    assert many.column("qualifier").to_pylist() == [b"p"] * 9
    other = cells_of({Q: pa.array([b"4", b"5"], pa.binary(1)), Q_TIME: times(7, 8)}, [b"d", b"e"])
    assert other.column("qualifier").to_pylist() == [b"q", b"q"]


def test_rows_of_several_record_batches_become_cells_and_dicts() -> None:
    for kind in (FIXED, pa.binary()):
        parts = [
            table_of({P: pa.array([value], kind), P_TIME: times(time)}, [key])
            for key, value, time in ((b"a", b"p1", 7), (b"bb", b"p2", 8))
        ]
        rows = LineRows.of(pa.concat_tables(parts), LineColumns([P, P_TIME]))
        cells = rows.cells()
        assert cells.column("value").num_chunks == 1
        assert cells.select(["row", "timestamp", "value"]).to_pydict() == {
            "row": [b"a", b"bb"],
            "timestamp": [7, 8],
            "value": [b"p1", b"p2"],
        }
        assert list(rows.expanded(bytes)) == [(b"a", {b"f:p": b"p1"}), (b"bb", {b"f:p": b"p2"})]


@pytest.mark.parametrize("widths", [(3, 3, 3), (1,), (2, 0, 5), (0, 0), (2, 7, 2)])
def test_values_of_one_length_a_column_become_cells_row_by_row(widths: tuple[int, ...]) -> None:
    names = [FormColumn(b"f", b"%d" % place) for place in range(len(widths))]
    reader = LineReader()
    for counts in ((1,), (5, 0, 3), (9,)):
        keys = [b"%02d" % number for number in range(sum(counts))]
        values = [
            [bytes([65 + place, *key])[:width].ljust(width) for key in keys] for place, width in enumerate(widths)
        ]
        columns: Columns = {
            name: pa.array(of_name, pa.binary(width))
            for name, of_name, width in zip(names, values, widths, strict=True)
        }
        whole = table_of({**columns, FormColumn(b"f", b"0", is_timestamp=True): times(*range(len(keys)))}, keys)
        starts = [sum(counts[:place]) for place in range(len(counts))]
        parts = [whole.slice(start, count) for start, count in zip(starts, counts, strict=True)]
        rows = reader.read(message_of(pa.concat_tables(parts), [*names, FormColumn(b"f", b"0", is_timestamp=True)]))
        cells = rows.cells()
        cells.validate(full=True)
        assert cells.column("value").to_pylist() == [value for of_row in zip(*values, strict=True) for value in of_row]
        assert cells.column("row").to_pylist() == [key for key in keys for _ in widths]
        assert [tuple(row.values()) for _, row in rows.expanded(bytes)] == list(zip(*values, strict=True))


@pytest.mark.parametrize("keys", [[b"a", b"bb", b"ccc"], [b"a", b"b", b"cccc"], [b"aaa", b"", b""], [b"", b"", b""]])
def test_keys_of_different_lengths_or_none_are_repeated(keys: list[bytes]) -> None:
    values = pa.array([b"1", b"2", b"3"], pa.binary(1))
    rows = rows_of({P: values, Q: values, P_TIME: times(7, 8, 9)}, keys)
    assert rows.cells().column("row").to_pylist() == [key for key in keys for _ in range(2)]


def test_nulls_of_slices_and_of_several_record_batches_are_no_cells() -> None:
    def part(keys: list[bytes], values: list[bytes | None], numbers: list[int | None], kind: pa.DataType) -> pa.Table:
        columns = {P: pa.array(values, kind), Q: pa.array(keys, pa.binary()), P_TIME: times(*numbers)}
        return table_of({**columns, Q_TIME: times(*range(len(keys)))}, keys)

    for kind in (FIXED, pa.binary()):
        whole = part([b"%d" % n for n in range(11)], [None, b"p1"] * 5 + [b"pa"], [None, *range(1, 11)], kind)
        rows = LineRows.of(
            pa.concat_tables([whole.slice(9), part([b"x"], [None], [None], kind), whole.slice(3, 1)]),
            LineColumns([P, Q, P_TIME, Q_TIME]),
        )
        cells = rows.cells()
        cells.validate(full=True)
        assert cells.select(["row", "qualifier", "timestamp", "value"]).to_pydict() == {
            "row": [b"9", b"9", b"10", b"10", b"x", b"3", b"3"],
            "qualifier": [b"p", b"q", b"p", b"q", b"q", b"p", b"q"],
            "timestamp": [9, 9, 10, 10, 0, 3, 3],
            "value": [b"p1", b"9", b"pa", b"10", b"x", b"p1", b"3"],
        }
        missing = whole.slice(1, 1).set_column(3, "2", times(None))
        with pytest.raises(ServerError, match="a timestamp"):
            LineRows.of(pa.concat_tables([whole.slice(9), missing]), rows.columns)


def test_offsets_beyond_those_of_an_array_are_refused() -> None:
    offsets = RepeatedOffsets()
    with pytest.raises(OverflowError, match="too many for one Arrow array"):
        offsets.of([1 << 30], 2)
    assert memoryview(offsets.of([1, 0], 2)).cast("i").tolist() == [0, 1, 1, 2, 2]
