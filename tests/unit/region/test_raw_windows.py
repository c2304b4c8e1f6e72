"""What a flush reads: all cells of several segments, in small pieces, with a pause between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Cell, Durability, from_then_on
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.segment import RowSegment
from rowlock_regionserver.operations import Put
from rowlock_regionserver.process import give_way
from rowlock_regionserver.region import flush
from rowlock_regionserver.region.raw_windows import raw_windows
from rowlock_regionserver.scan.columns import cells_table
from rowlock_regionserver.sources import Source

from .conftest import Engine, bulk_batch


def cell(write_number: int) -> Cell:
    return (b"q", -1, -write_number, 0, b"v" * 100)


def rows_of(table: pa.Table) -> list[bytes]:
    return [row.as_py() for row in table.column("row")]


def test_a_pause_stands_between_all_that_is_read_and_made() -> None:
    rows = [b"%03d" % number for number in range(90)]
    written = RowSegment(1)
    for row in rows[::3]:
        written.apply(row, [cell(1)], lambda: from_then_on(0))
    written.seal()
    bulk = [ArrowSegment(cells_table(rows[first::3], [[cell(first + 1)]] * 30)) for first in (1, 2)]
    events: list[object] = []
    windows = raw_windows([written, *bulk], 500, between=lambda: events.append("pause"))
    for window in windows:
        events.append(window)
    tables = [event for event in events if isinstance(event, pa.Table)]
    assert [row for table in tables for row in rows_of(table)] == rows
    assert len(tables) > 10
    assert all(table.nbytes < 3000 for table in tables)
    assert all("pause" in events[place - 1 : place] for place, event in enumerate(events) if event != "pause")


@pytest.mark.parametrize(("batch_count", "bytes_each"), [(0, 4000), (1, 4000), (3, 2500)])
def test_a_flush_reads_less_of_each_segment_when_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_count: int, bytes_each: int
) -> None:
    asked: list[tuple[int, int, object]] = []

    def recorded(sources: Sequence[Source], bytes_max: int, *, between: Callable[[], None]) -> Iterator[pa.Table]:
        asked.append((len(sources), bytes_max, between))
        return raw_windows(sources, bytes_max, between=between)

    monkeypatch.setattr(flush, "raw_windows", recorded)
    config = Config(flush_window_bytes=4000, flush_merge_window_bytes=10_000, bulk_file_bytes_min=0)
    engine = Engine(tmp_path, config, Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    for number in range(batch_count):
        engine.bulk(bulk_batch((b"r%d" % number, b"f", b"q", None, b"v")))
    engine.server.flush("t")
    assert asked[0] == (batch_count + 1, bytes_each, give_way)
    assert len(engine.scan()) == batch_count + 1
    engine.server.stop()
