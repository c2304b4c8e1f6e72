"""Scans under random cuts of batches and random disconnects: every row whole, once, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock._codec.row_form import FormColumn
from rowlock._codec.scan_message import parse_scan_message
from rowlock._core.scan_plan import in_row_form, scan_plan
from rowlock._core.scan_progress import CELL_SCHEMA, ScanProgress
from rowlock.errors import ServerUnavailableError
from rowlock.schema import Region
from rowlock.selection import Selection
from rowlock_proto.v1 import region_pb2

from tests.unit.client.plain_row_form import as_requested, stream_of

# Rows 00 to 39, of 1 to 4 cells each.
CELLS = [(b"%02d" % row, b"%d" % cell) for row in range(40) for cell in range(1 + row % 4)]
STARTS = [b"", b"07", b"20", b"33"]
REGIONS = tuple(
    Region(number, "t", start, stop, "s")
    for number, (start, stop) in enumerate(zip(STARTS, [*STARTS[1:], b""], strict=True))
)


def touching(bounds: tuple[bytes, bytes]) -> tuple[Region, ...]:
    start, stop = bounds
    return tuple(item for item in REGIONS if (not stop or item.start < stop) and (not item.stop or start < item.stop))


def answer(
    request: region_pb2.ScanRequest, batch_cells: int, rows_between_signs: int
) -> Iterator[region_pb2.ScanBatch]:
    """A region's answers, cut after a number of cells, also within rows.

    After every so many rows it says how far it has come, once with a row and once without.
    """
    for batch, last_row in batches(request, batch_cells):
        if batch.row_continues or int(last_row) % rows_between_signs:
            yield batch
            continue
        batch.row_reached = last_row if request.reverse else last_row + b"\0"
        yield batch
        reached = b"%02dx" % (int(last_row) - 1) if request.reverse else last_row + b"x"
        empty = region_pb2.ScanBatch(arrow=stream_of(CELL_SCHEMA.empty_table()), row_reached=reached)
        yield as_requested(request, empty)


def batches(request: region_pb2.ScanRequest, batch_cells: int) -> Iterator[tuple[region_pb2.ScanBatch, bytes]]:
    """Yields each batch with its last row."""
    cells = [
        cell
        for cell in CELLS
        if any(item.start <= cell[0] and (not item.stop or cell[0] < item.stop) for item in request.ranges)
    ]
    rows = sorted({row for row, _ in cells}, reverse=request.reverse)
    if request.row_limit:
        rows = rows[: request.row_limit]
    ordered = [cell for row in rows for cell in cells if cell[0] == row]
    if request.HasField("row_form"):
        for at in range(0, len(rows), batch_cells):
            part = [cell for row in rows[at : at + batch_cells] for cell in ordered if cell[0] == row]
            yield as_requested(request, region_pb2.ScanBatch(arrow=stream_of(table_of(part)))), part[-1][0]
        return
    for at in range(0, len(ordered), batch_cells):
        part = ordered[at : at + batch_cells]
        goes_on = at + batch_cells < len(ordered) and ordered[at + batch_cells][0] == part[-1][0]
        yield region_pb2.ScanBatch(arrow=stream_of(table_of(part)), row_continues=goes_on), part[-1][0]


def table_of(cells: list[tuple[bytes, bytes]]) -> pa.Table:
    columns: dict[str, list[object]] = {
        "row": [row for row, _ in cells],
        "family": [b"f"] * len(cells),
        "qualifier": [name for _, name in cells],
        "timestamp": [1] * len(cells),
        "value": [b""] * len(cells),
    }
    return pa.Table.from_pydict(columns, CELL_SCHEMA)


@settings(deadline=None, max_examples=200)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 41), st.integers(0, 41)).map(sorted), min_size=1, max_size=4),
    reverse=st.booleans(),
    limit=st.none() | st.integers(1, 45),
    batch_cells=st.integers(1, 30),
    losses=st.lists(st.integers(0, 6), max_size=8),
    in_form=st.booleans(),
    rows_between_signs=st.integers(1, 50),
)
def test_every_row_comes_whole_once_and_in_order(
    ranges: list[list[int]],
    reverse: bool,
    limit: int | None,
    batch_cells: int,
    losses: list[int],
    in_form: bool,
    rows_between_signs: int,
) -> None:
    plan = scan_plan(
        "t",
        start=None,
        stop=None,
        prefix=None,
        ranges=[(b"%02d" % start, b"%02d" % stop) for start, stop in ranges],
        selection=Selection(),
        limit=limit,
        reverse=reverse,
        strict=False,
        batch_bytes=0,
    )
    if in_form:
        # Every row has this column.
        plan = in_row_form(plan, [FormColumn(b"f", b"0")])
    progress = ScanProgress(plan, 10.0)
    seen: list[tuple[bytes, bytes]] = []

    def take(table: object) -> None:
        if table is not None:
            assert isinstance(table, pa.Table), table
            names = table.column(1 if in_form else "qualifier").to_pylist()
            seen.extend(zip(table.column("row").to_pylist(), names, strict=True))  # type: ignore[arg-type]

    while not progress.is_done:
        region, request = progress.request_for(touching(progress.bounds))
        left = losses.pop(0) if losses else None
        is_lost = False
        for number, batch in enumerate(answer(request, batch_cells, rows_between_signs)):
            if number == left:
                progress.failed(ServerUnavailableError("cut"), 0.0)
                is_lost = True
                break
            take(progress.received(parse_scan_message(batch.SerializeToString())))
            if progress.is_done:
                break
        if not is_lost and not progress.is_done:
            take(progress.region_is_done(region))
    wanted = {row for row, _ in CELLS if any(b"%02d" % start <= row < b"%02d" % stop for start, stop in ranges)}
    rows = sorted(wanted, reverse=reverse)[:limit]
    if in_form:
        assert seen == [(row, b"") for row in rows]
    else:
        assert seen == [cell for row in rows for cell in CELLS if cell[0] == row]
