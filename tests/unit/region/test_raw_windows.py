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
from rowlock_regionserver.region import flush
from rowlock_regionserver.region import raw_windows as windows_module
from rowlock_regionserver.region.long_work import Turn
from rowlock_regionserver.region.raw_windows import raw_windows
from rowlock_regionserver.scan.columns import cells_table
from rowlock_regionserver.sources import Chunk, Source

from .conftest import Engine, bulk_batch


def cell(write_number: int) -> Cell:
    return (b"q", -1, -write_number, 0, b"v" * 100)


def rows_of(table: pa.Table) -> list[bytes]:
    return [row.as_py() for row in table.column("row")]


def test_a_pause_stands_between_windows_of_all_cells_in_order() -> None:
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
    assert events[1::2] == ["pause"] * len(tables)


def test_sources_that_are_merged_are_read_in_smaller_pieces_and_later_ones_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows_module, "SOURCE_BYTES_MIN", 100)
    asked: dict[int, list[int]] = {}

    class Recorded(ArrowSegment):
        def read_rows(self, start: bytes, stop: bytes, bytes_max: int, *, reverse: bool = False) -> Chunk:
            asked.setdefault(id(self), []).append(bytes_max)
            return super().read_rows(start, stop, bytes_max, reverse=reverse)

    def segment(first: int, stop: int, write_number: int) -> Recorded:
        rows = [b"%03d" % number for number in range(first, stop)]
        return Recorded(cells_table(rows, [[cell(write_number)]] * len(rows)))

    alone = segment(0, 40, 1)
    three = [segment(40, 80, number) for number in (2, 3, 4)]
    tables = list(raw_windows([*three, alone], 1200, 1500))
    assert [row for table in tables for row in rows_of(table)] == sorted(
        [*(b"%03d" % number for number in range(40)), *3 * [b"%03d" % number for number in range(40, 80)]]
    )
    assert set(asked[id(alone)]) == {1200}
    for merged in three:
        assert asked[id(merged)][0] == 1200, "what comes later was read once, and waited"
        assert set(asked[id(merged)][2:]) == {500}


def test_a_flush_reads_as_it_is_configured_and_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    given_way: list[Turn] = []
    monkeypatch.setattr(Turn, "give_way", lambda turn: given_way.append(turn))

    def recorded(
        sources: Sequence[Source], bytes_max: int, merge_bytes_max: int, *, between: Callable[[], None]
    ) -> Iterator[pa.Table]:
        asked.append((bytes_max, merge_bytes_max))
        return raw_windows(sources, bytes_max, merge_bytes_max, between=between)

    monkeypatch.setattr(flush, "raw_windows", recorded)
    config = Config(flush_window_bytes=4000, flush_merge_window_bytes=10_000, bulk_file_bytes_min=0)
    engine = Engine(tmp_path, config, Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.bulk(bulk_batch((b"s", b"f", b"q", None, b"v")))
    engine.server.flush("t")
    assert asked[0] == (4000, 10_000)
    assert given_way
    assert len(engine.scan()) == 2
    engine.server.stop()
