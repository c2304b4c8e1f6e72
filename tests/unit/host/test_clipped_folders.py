"""A data folder with clipped and renumbered store files: server, verify and salvage see only the rows that count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rowlock_regionserver.data_folder import FORMAT, FORMAT_VERSION
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.salvage import salvage
from rowlock_regionserver.inspection.verify import verify
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.region.manifest import read_manifest
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.info import StoreFileInfo

from .stopped_folder import FAMILIES, opened, put, rows_of

ROWS = [b"a", b"b", b"c", b"d"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stopped server with one file in each family, of which b and c count; the files have other numbers."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / FORMAT).write_text(f"rowlock data folder, format {FORMAT_VERSION}, id {'0' * 32}\n")
    server = opened(folder)
    server.create_table("t", FAMILIES)
    put(server, "t", *ROWS)
    server.flush("t")
    server.stop()
    (region,) = (folder / "regions").iterdir()
    live = read_manifest(Files(), region)
    store_files: dict[int, tuple[StoreFileInfo, ...]] = {}
    for family, (info,) in live.manifest.store_files.items():
        number = 100 + family
        Files().link(store_file_path(region, family, info.number), store_file_path(region, family, number))
        Files().remove(store_file_path(region, family, info.number))
        changed = replace(info, number=number, written_number=info.number, clip_start=b"b", clip_stop=b"d")
        store_files[family] = (changed,)
    live.replaced(Files(), replace(live.manifest, store_files=store_files, next_file_number=200))
    return folder


def test_a_server_serves_the_rows_that_count(folder: Path) -> None:
    server = opened(folder)
    expected = {row: [b"f", b"g"] for row in (b"b", b"c")}
    assert rows_of(server, "t") == expected
    (region,) = server.regions_of("t")
    with region.scan(ScanPlan(reverse=True)) as (_, answers):
        assert [row for answer in answers for row in answer.table.column("row").to_pylist()] == [b"c", b"c", b"b", b"b"]
    put(server, "t", b"a")
    server.flush("t")
    assert rows_of(server, "t") == {b"a": [b"f", b"g"], **expected}
    server.stop()


def test_its_files_are_intact(folder: Path) -> None:
    found = verify(folder, Files())
    assert (found.damage, found.store_file_count) == ([], 2)


def test_of_a_damaged_file_the_rows_that_count_are_salvaged(folder: Path, tmp_path: Path) -> None:
    (damaged, _) = sorted(folder.glob("regions/*/*.store"))
    (region,) = (folder / "regions").iterdir()
    info = read_manifest(Files(), region).manifest.store_files[1][0]
    data = bytearray(damaged.read_bytes())
    data[info.metadata_offset + 70] ^= 1
    damaged.write_bytes(data)
    damage: list[CorruptionError] = []
    (table,) = salvage(folder, tmp_path / "out", Files(), damage)
    assert damage
    cells = pq.read_table(table.path).to_pylist()
    assert sorted((cell["row"], cell["family"]) for cell in cells) == [
        (row, family) for row in (b"b", b"c") for family in (b"f", b"g")
    ]
