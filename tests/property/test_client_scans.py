"""Scans under random cuts of batches and random losses: every row whole, once, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock.errors import ServerUnavailableError
from rowlock.scan_message import parse_scan_message
from rowlock.scan_plan import scan_plan
from rowlock.scan_progress import CELL_SCHEMA, ScanProgress
from rowlock.schema import Region
from rowlock.selection import Selection
from rowlock_proto.v1 import region_pb2

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


def answer(request: region_pb2.ScanRequest, batch_cells: int) -> Iterator[region_pb2.ScanBatch]:
    """What a region answers, cut after every so many cells, in the middle of rows too."""
    cells = [
        cell
        for cell in CELLS
        if any(item.start <= cell[0] and (not item.stop or cell[0] < item.stop) for item in request.ranges)
    ]
    rows = sorted({row for row, _ in cells}, reverse=request.reverse)
    if request.row_limit:
        rows = rows[: request.row_limit]
    ordered = [cell for row in rows for cell in cells if cell[0] == row]
    for at in range(0, len(ordered), batch_cells):
        part = ordered[at : at + batch_cells]
        goes_on = at + batch_cells < len(ordered) and ordered[at + batch_cells][0] == part[-1][0]
        rows_of_part, names = [row for row, _ in part], [name for _, name in part]
        columns: dict[str, list[object]] = {
            "row": [*rows_of_part],
            "family": [b"f"] * len(part),
            "qualifier": [*names],
            "timestamp": [1] * len(part),
            "value": [b""] * len(part),
        }
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, CELL_SCHEMA) as writer:
            writer.write_batch(pa.RecordBatch.from_pydict(columns, CELL_SCHEMA))
        yield region_pb2.ScanBatch(arrow=sink.getvalue().to_pybytes(), row_continues=goes_on)


@settings(deadline=None, max_examples=200)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 41), st.integers(0, 41)).map(sorted), min_size=1, max_size=4),
    reverse=st.booleans(),
    limit=st.none() | st.integers(1, 45),
    batch_cells=st.integers(1, 30),
    losses=st.lists(st.integers(0, 6), max_size=8),
)
def test_every_row_comes_whole_once_and_in_order(
    ranges: list[list[int]], reverse: bool, limit: int | None, batch_cells: int, losses: list[int]
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
    progress = ScanProgress(plan, 10.0)
    seen: list[tuple[bytes, bytes]] = []

    def take(table: pa.Table | None) -> None:
        if table is not None:
            seen.extend(zip(table.column("row").to_pylist(), table.column("qualifier").to_pylist(), strict=True))  # type: ignore[arg-type]

    while not progress.is_done:
        region, request = progress.request_for(touching(progress.bounds))
        left = losses.pop(0) if losses else None
        is_lost = False
        for number, batch in enumerate(answer(request, batch_cells)):
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
    assert seen == [cell for row in rows for cell in CELLS if cell[0] == row]
