"""The cells that were only in memory when a region was split or merged: the new region's manifest has them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.data_folder import FORMAT
from rowlock_regionserver.data_folder import FORMAT_VERSION as FOLDER_VERSION
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.salvage import salvage
from rowlock_regionserver.inspection.verify import verify
from rowlock_regionserver.operations import Delete, DeleteKind, Put, ScanPlan, Selection
from rowlock_regionserver.region.manifest import FORMAT_VERSION, NAME, Manifest, read_manifest
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.unflushed_cells import stream_of, taken_over

from tests.unit.region.conftest import abandon, bulk_batch

from .serving_table import CONFIG, Serving, after_flushes
from .writes_meanwhile import memory_is_counted, put_bulk

ALL_VERSIONS = Selection(versions=100)
CELLS = cells_table([b"r"], [[(b"q", -1, -1, 0, b"v")]])
STREAM = stream_of(CELLS)
CUT_STREAM = STREAM[: len(STREAM) // 2 + 100]
NO_CELLS = stream_of(CELLS.slice(0, 0))


def stream_of_another_schema() -> bytes:
    table = pa.table({"row": [b"r"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "data").mkdir()
    serving = Serving(tmp_path / "data")
    yield serving
    serving.server.stop()


def nothing() -> None: ...


def manifest_of(table: Serving, region: Region) -> Manifest:
    return read_manifest(Files(), table.folder / "regions" / str(region.region_id)).manifest


def unflushed_rows(table: Serving) -> list[list[bytes]]:
    """Returns by region, in row order, the rows of the cells in its manifest."""
    return [
        [cell["row"] for cells in manifest_of(table, region).unflushed_cells.values() for cell in cells.to_pylist()]
        for region in table.regions
    ]


def split_with_last(table: Serving, write: Callable[[], object]) -> None:
    """Splits at r3, and writes after each flush of the split."""
    with after_flushes(write):
        table.split(b"r3")


def test_the_manifest_has_them_until_the_first_flush(table: Serving) -> None:
    table.put(b"r2", b"flushed")
    table.put(b"r6", b"flushed")

    def write() -> None:
        table.put(b"r2", b"last")
        table.put(b"r5", b"last")

    split_with_last(table, write)
    assert unflushed_rows(table) == [[b"r2"], [b"r5"]]
    assert [manifest_of(table, region).format_version for region in table.regions] == [FORMAT_VERSION] * 2
    assert memory_is_counted(table)
    assert min(region.memstore_bytes for region in table.regions) > 0
    expected = [(b"r2", b"last"), (b"r5", b"last"), (b"r6", b"flushed")]
    for begin_again in (nothing, table.crash, table.restart):
        begin_again()
        assert table.scan() == expected
    table.server.flush("t")
    assert unflushed_rows(table) == [[], []]
    assert [region.memstore_bytes for region in table.regions] == [0, 0]
    assert max(manifest_of(table, region).format_version for region in table.regions) < FORMAT_VERSION
    assert memory_is_counted(table)
    table.crash()
    assert table.scan() == expected


def test_the_first_flush_writes_them_to_the_newest_file_though_nothing_was_written_since(table: Serving) -> None:
    """The oldest file has no older cells below it, and a compaction with it drops tombstones."""
    table.put(b"r2", b"flushed")
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    table.crash()
    assert table.server.flush("t").cell_count == 1
    (files,) = [files for files in table.regions[0].live_store_files().values() if files]
    numbers = [file.info.write_number_max for file in files]
    assert len(numbers) == 2
    assert numbers == sorted(numbers, reverse=True)
    assert table.get(b"r2") == [b"last"]
    assert table.server.flush("t").cell_count == 0


def test_they_come_from_all_kinds_of_segments_with_all_versions_and_tombstones(tmp_path: Path) -> None:
    table = Serving(tmp_path, replace(CONFIG, bulk_file_bytes_min=1))  # Each bulk batch becomes a segment.
    table.put(b"r1", b"deleted")
    table.put(b"r4", b"hidden", 5, b"g")

    def write() -> None:
        table.put(b"r4", b"old", 1, b"g")
        (old,) = table.regions
        with old.without_flushes(), old.sealed(math.inf):
            pass
        put_bulk(table, bulk_batch((b"r1", b"f", b"q", None, None), (b"r2", b"f", b"q", None, b"bulk")))
        put_bulk(table, bulk_batch((b"r2", b"f", b"a", None, b"bulk"), (b"r5", b"f", b"a", None, b"bulk")))
        table.put(b"r4", b"new", 9, b"g")
        table.change(b"r4", Delete(DeleteKind.VERSION, b"g", b"q", 5))
        assert table.regions[0].segment_count > 1

    split_with_last(table, write)
    whole = ScanPlan(selection=ALL_VERSIONS)
    expected = [(b"r2", b"bulk"), (b"r2", b"bulk"), (b"r4", b"new"), (b"r4", b"old"), (b"r5", b"bulk")]
    for then in (nothing, table.crash, lambda: table.server.flush("t"), table.crash, table.compact):
        then()
        assert table.scan(whole) == expected
        assert memory_is_counted(table)
    for region in table.regions:
        region._check()
    table.server.stop()


def test_writes_after_the_split_are_newer(table: Serving) -> None:
    table.put(b"r2", b"flushed")
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    table.put(b"r2", b"newer")
    table.change(b"r5", Put(b"f", b"n", b"new"))
    for begin_again in (nothing, table.crash, table.restart):
        begin_again()
        assert table.scan() == [(b"r2", b"newer"), (b"r5", b"new")]


def test_a_merged_region_has_those_of_both_though_they_have_the_same_write_numbers(table: Serving) -> None:
    for row in (b"r1", b"r2", b"r5", b"r6"):
        table.put(row, b"flushed")
    table.split(b"r3")

    def write() -> None:
        for row in (b"r2", b"r6"):
            table.put(row, b"last")
            table.change(row[:-1] + b"%d" % (int(row[1:]) - 1), Delete(DeleteKind.ROW))

    with after_flushes(write):
        table.merge()
    assert set(unflushed_rows(table)[0]) == {b"r1", b"r2", b"r5", b"r6"}
    for then in (nothing, table.crash, lambda: table.server.flush("t"), table.crash):
        then()
        assert table.scan() == [(b"r2", b"last"), (b"r6", b"last")]


def test_a_snapshot_from_before_does_not_read_them(table: Serving) -> None:
    table.put(b"r2", b"before")
    snapshot = b"snapshot is 16 b"
    table.server.make_snapshot("t", snapshot, 0, "")
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    for then in (nothing, lambda: table.server.flush("t")):
        then()
        assert table.scan(snapshot_id=snapshot) == [(b"r2", b"before")]
        assert table.scan() == [(b"r2", b"last")]


def test_a_compaction_before_the_first_flush_keeps_them(table: Serving) -> None:
    table.put(b"r2", b"flushed")
    table.put(b"r1", b"flushed")
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    table.compact()
    assert unflushed_rows(table) == [[b"r2"], []]
    table.crash()
    assert table.scan() == [(b"r1", b"flushed"), (b"r2", b"last")]


def test_many_bytes_are_flushed_once_more_instead(table: Serving) -> None:
    large = bytes(300_000)
    split_with_last(table, lambda: table.put(b"r2", large))
    assert unflushed_rows(table) == [[], []]
    table.crash()
    assert table.scan() == [(b"r2", large)]


def test_a_region_with_some_can_be_split_and_copied(table: Serving) -> None:
    table.put(b"r1", b"flushed")

    def write() -> None:
        table.put(b"r2", b"last")
        table.put(b"r1", b"last")

    split_with_last(table, write)
    table.split(b"r2")
    assert [bounds for bounds, _ in table.bounds] == [b"", b"r2", b"r3"]
    expected = [(b"r1", b"last"), (b"r2", b"last")]
    assert table.scan() == expected
    with after_flushes(write):
        table.merge()
    table.server.create_named_snapshot("s", "t")
    table.server.restore_named_snapshot("s", "restored")
    restored = scan_of(table, "restored")
    assert restored == expected
    table.crash()
    assert (table.scan(), scan_of(table, "restored")) == (expected, expected)


def scan_of(table: Serving, name: str) -> list[tuple[bytes, bytes]]:
    """Returns a scan of another table."""
    usual, table.name = table.name, name
    try:
        return table.scan()
    finally:
        table.name = usual


def test_those_of_a_dropped_family_are_gone(table: Serving) -> None:
    def write() -> None:
        table.put(b"r2", b"stays")
        table.put(b"r2", b"goes", family=b"g")

    split_with_last(table, write)
    table.server.alter_table("t", drop_families=[b"g"])
    assert unflushed_rows(table) == [[b"r2"], []]
    for begin_again in (nothing, table.crash):
        begin_again()
        assert table.scan() == [(b"r2", b"stays")]
        assert memory_is_counted(table)


def test_each_half_has_memory_of_its_own_cells_only() -> None:
    rows = [b"%03d" % number for number in range(100)]
    cells = cells_table(rows, [[(b"q", -1, -1, 0, b"v" * 1000)]] * 100)
    left, right = (taken_over([{1: cells}], *bounds)[1] for bounds in ((b"", b"001"), (b"001", b"")))
    assert (left.num_rows, right.num_rows) == (1, 99)
    assert left.get_total_buffer_size() < 3000
    assert pa.concat_tables([left, right]).equals(cells)


def test_they_are_verified_and_salvaged(table: Serving, tmp_path: Path) -> None:
    table.put(b"r2", b"flushed")

    def write() -> None:
        table.put(b"r2", b"last")
        table.put(b"r6", b"last")

    split_with_last(table, write)
    abandon(table.server)
    assert unflushed_rows(table) == [[b"r2"], [b"r6"]]
    (table.folder / FORMAT).write_text(f"rowlock data folder, format {FOLDER_VERSION}, id {'0' * 32}\n")
    assert not verify(table.folder, Files()).damage
    damage: list[CorruptionError] = []
    (salvaged,) = salvage(table.folder, tmp_path / "out", Files(), damage)
    assert not damage
    assert (salvaged.row_count, salvaged.cell_count) == (2, 2)
    found = pa_parquet.read_table(salvaged.path).to_pylist()
    assert [(cell["row"], cell["value"]) for cell in found] == [(b"r2", b"last"), (b"r6", b"last")]
    table.server = table.open()


def test_they_are_salvaged_from_a_region_that_no_catalog_names(table: Serving, tmp_path: Path) -> None:
    """Its store files and the log don't say that it has the family."""
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    abandon(table.server)
    (table.folder / FORMAT).write_text(f"rowlock data folder, format {FOLDER_VERSION}, id {'0' * 32}\n")
    for path in (table.folder / "catalog").iterdir():
        path.unlink()
    damage: list[CorruptionError] = []
    found = [
        cell["value"]
        for region in salvage(table.folder, tmp_path / "out", Files(), damage)
        for cell in pa_parquet.read_table(region.path).to_pylist()
    ]
    assert b"last" in found


def test_a_server_of_version_4_refuses_a_manifest_with_some(table: Serving) -> None:
    """It would ignore the field, and lose the cells."""
    split_with_last(table, lambda: table.put(b"r2", b"last"))
    folder = table.folder / "regions" / str(table.regions[0].region_id)
    with pytest.raises(DataFolderError, match="version 5, but this rowlock reads up to 4; use a newer one"):
        generations.read_newest(Files(), folder, NAME, version_max=4)


@pytest.mark.parametrize("stream", [b"", b"no stream", CUT_STREAM, NO_CELLS, stream_of_another_schema()])
@pytest.mark.parametrize("is_encoded", [True, False])
def test_cells_that_are_no_stream_are_damage(tmp_path: Path, stream: bytes, is_encoded: bool) -> None:
    text = base64.b64encode(stream).decode() if is_encoded else "%%%"
    fields = json.loads(Manifest(1, 1).encode()) | {"unflushed_cells": {"1": text}}
    generations.write(Files(), tmp_path, NAME, 1, json.dumps(fields).encode(), version=FORMAT_VERSION)
    with pytest.raises(CorruptionError, match="a manifest of this version"):
        read_manifest(Files(), tmp_path)
