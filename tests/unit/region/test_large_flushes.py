"""A flush of more bytes than an Arrow column can hold: in one row, in one column, in many large cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow import columns
from rowlock_regionserver.arrow.columns import BINARY_COLUMN_BYTES_MAX
from rowlock_regionserver.cells import DELETE_FAMILY, NEWEST, PUT, Cell, Durability, Family, from_then_on
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import Put, ScanPlan
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.versions.retention import Retention

from tests.drawn_cases import drawn

from .lone_region import LoneRegion

FAMILY = Family(1, b"f")
# Cells of tests share one value or key in memory, so that a segment of gigabytes takes none.
LARGE = bytes(10 * MIB)
LONG_ROW = b"r" * 32_767


def sealed(row: bytes, cells: Sequence[Cell]) -> RowSegment:
    """Returns a segment that holds all cells, visible or not."""
    segment = RowSegment(FAMILY.versions, prune_cells_min=1 << 40)
    segment.apply(row, sorted(cells), lambda: from_then_on(0))
    segment.seal()
    return segment


def flushed(segments: Sequence[RowSegment], family: Family = FAMILY) -> Iterator[pa.Table]:
    """Returns what a flush with default settings writes of the segments, without readers at older read points."""
    config = Config()
    for table in retained_tables(
        segments,
        Retention(from_then_on(NEWEST)),
        family.versions,
        config.flush_window_bytes,
        config.flush_merge_window_bytes,
    ):
        assert isinstance(table, pa.Table)
        # No more than a window, or a cell, and what comes with its last cell.
        assert table.num_rows == 1 or table.get_total_buffer_size() < 4 * config.flush_merge_window_bytes
        yield table


def test_many_large_cells_of_a_row() -> None:
    cells = [(b"%04d" % number, -1, -1, PUT, LARGE) for number in range(230)]
    tables = list(flushed([sealed(b"r", cells)]))
    assert sum(table.column("value").nbytes for table in tables) > BINARY_COLUMN_BYTES_MAX
    assert [qualifier.as_py() for table in tables for qualifier in table.column("qualifier")] == [
        cell[0] for cell in cells
    ]
    assert all(value.as_py() == LARGE for table in tables[::50] for value in table.column("value"))


def test_many_cells_of_a_row_with_a_long_key() -> None:
    """The default settings can reach this: in memory the key is stored once."""
    count = 1 + BINARY_COLUMN_BYTES_MAX // len(LONG_ROW)
    segment = sealed(LONG_ROW, [(b"%08d" % number, -1, -1, PUT, b"") for number in range(count)])
    assert segment.bytes_held < 32 * MIB
    found = 0
    last = b""
    for table in flushed([segment]):
        first, last_before = table.column("qualifier")[0].as_py(), last
        last = table.column("qualifier")[-1].as_py()
        assert last_before < first <= last
        assert table.column("row")[0].as_py() == LONG_ROW
        found += table.num_rows
    assert found == count


@pytest.mark.parametrize("versions", drawn([1, 3, 1 << 30], 1, "versions"))
def test_many_versions_of_a_column_with_a_long_key(versions: int) -> None:
    """One column alone is more than Arrow can hold: versions are chosen by their numbers."""
    count = 1 + BINARY_COLUMN_BYTES_MAX // len(LONG_ROW)
    cells = [(b"q", -number, -number, PUT, b"") for number in range(1, count + 1)]
    tables = flushed([sealed(LONG_ROW, cells)], replace(FAMILY, versions=versions))
    timestamps = np.concatenate([table.column("timestamp").to_numpy() for table in tables])
    assert timestamps.tolist() == list(range(count, max(0, count - versions), -1))


def test_a_large_cell_that_was_replaced_again_and_again() -> None:
    """Copies only the value that remains."""
    cells = [(b"q", -number, -number, PUT, LARGE) for number in range(1, 300)]
    before = pa.total_allocated_bytes()
    (table,) = flushed([sealed(b"r", cells[:100]), sealed(b"r", cells[100:])])
    assert table.column("timestamp").to_pylist() == [299]
    assert pa.total_allocated_bytes() - before < 32 * MIB


def test_family_tombstones_count_in_every_part_of_a_row() -> None:
    """Of the puts before the tombstones, those that one of them hides are dropped, of later ones the surplus."""
    old = [(b"%08d" % number, -at, -at, PUT, b"v" * 1000) for number in range(5000) for at in (1, 2)]
    tombstones = [(b"", -1, -3, DELETE_FAMILY, b""), (b"", 0, -4, DELETE_FAMILY, b"")]
    new = [(b"%08d" % number, -at, -at, PUT, b"v" * 1000) for number in range(5000) for at in (5, 6)]
    written = pa.concat_tables(flushed([sealed(b"r", [*old, *tombstones, *new])]))
    counts = np.unique(written.column("write_number").to_numpy(), return_counts=True)
    assert dict(zip(*(each.tolist() for each in counts), strict=True)) == {2: 5000, 3: 1, 4: 1, 6: 5000}


@pytest.mark.parametrize("kind", ["large cells", "many cells", "versions"])
def test_a_region_whose_memstore_holds_more_than_a_column_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """With Arrow columns of 300 kB, and settings scaled to that as the real ones are to 2 GiB."""
    monkeypatch.setattr(columns, "BINARY_COLUMN_BYTES_MAX", 300_000)
    config = Config(
        flush_window_bytes=20_000,
        flush_merge_window_bytes=50_000,
        scan_window_bytes=50_000,
        merge_window_bytes_max=100_000,
    )
    lone = LoneRegion(tmp_path, config, Clock(), Files(), Durability.OS)
    row = b"r" * 10_000 if kind == "many cells" else b"r"
    large = b"v" * 25_000
    for number in range(60):
        match kind:
            case "large cells":
                lone.change(row, Put(b"f", b"%03d" % (number % 30), large))
            case "many cells":
                lone.change(row, Put(b"f", b"%03d" % number, b"%d" % number))
            case _:
                lone.region.open_read_point()  # Nobody may drop what this reads.
                lone.change(row, Put(b"f", b"q", b"%d" % number + large))
    before = lone.scan()
    assert len(before) == {"large cells": 30, "many cells": 60, "versions": 1}[kind]
    held = lone.parts.stores.of(1).memstore
    assert sum(len(row) + len(cell[4]) for cell in held.active.row_cells(row)) > columns.BINARY_COLUMN_BYTES_MAX
    assert lone.flush().cell_count == {"large cells": 30, "many cells": 60, "versions": 60}[kind]
    assert lone.scan() == before
    assert [(row, *cell) for cell in lone.cells(row)] == before
    assert lone.scan(ScanPlan(reverse=True, row_limit=1)) == before
    lone.crash()
    assert lone.scan() == before
    lone.stop()


def test_tables_follow_one_another() -> None:
    cells = [(b"%04d" % number, -1, -1, PUT, b"v" * 5000) for number in range(2000)]
    tables = list(flushed([sealed(b"r", cells[::2]), sealed(b"r", cells[1::2])]))
    for before, after in pairwise(tables):
        assert before.column("qualifier")[-1].as_py() < after.column("qualifier")[0].as_py()
