"""Rows in columns as a client reads them: as cells, as dicts, and not at all if they contradict themselves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from rowlock._codec.line_rows import LineRows, read_line_rows
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
    return LineRows.of(table_of(columns, keys), list(columns))


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
    cells = LineRows.of(table_of(columns, [b"x1", b"x2"]), list(columns)).cells()
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


def test_a_message_is_read_only_if_its_rows_were_requested() -> None:
    columns = {P: VALUES, P_TIME: times(1, 2)}
    message = message_of(table_of(columns), list(columns))
    assert [row for row, _ in read_line_rows(message).expanded(bytes)] == [b"a", b"bb"]
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
    for named in ([P], [P, Q, P_TIME], [P_TIME, P]):
        with pytest.raises(ServerError, match="wrong schema"):
            read_line_rows(message_of(table_of(columns), named))
