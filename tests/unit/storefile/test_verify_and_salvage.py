"""verify reports all damage of a file; salvage returns every intact block."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.cells import PUT
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.inspection.folder import StoredRegion
from rowlock_regionserver.inspection.salvaged_cells import SalvagedRegion
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.table import Table

from tests.unit.storefile import flipping
from tests.unit.storefile.store_file_case import SMALL_FAMILY, Case, RowCell, cells_of, simple_cells


def salvaged(path: Path) -> tuple[list[RowCell], list[CorruptionError]]:
    cells: list[RowCell] = []
    damages = []
    for found in salvage(path, Files()):
        if isinstance(found, CorruptionError):
            damages.append(found)
        else:
            cells += cells_of(found)
    return cells, damages


def test_a_whole_file_has_no_damage_and_is_salvaged_whole(case: Case) -> None:
    cells = simple_cells(50, 3)
    info = case.write(cells)
    assert verify_store_file(case.path, info, case.files) == []
    assert salvaged(case.path) == (cells, [])


def test_an_empty_file_is_whole(case: Case) -> None:
    info = case.write([])
    assert verify_store_file(case.path, info, case.files) == []
    assert salvaged(case.path) == ([], [])


def test_each_damaged_block_is_named_with_its_place(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    parts = flipping.structures(bench)
    places = [parts["block payloads"][2][0] + 9, parts["block headers"][5][0] + 3, parts["block payloads"][9][0] + 70]
    for place in places:
        flipping.flip(bench.path, place, 5)
    damages = verify_store_file(bench.path, bench.info, Files())
    assert [damage.offset for damage in damages] == [
        parts["block payloads"][2][0],
        parts["block headers"][5][0],
        parts["block payloads"][9][0],
    ]
    assert {damage.path for damage in damages} == {bench.path}


def test_damage_of_a_page_of_lmdb_is_found_though_no_read_needs_it(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    flipping.flip(bench.path, 4096 + 30, 1)
    assert flipping.read_everything(bench, bench.open_file().runs) == "right"
    (damage,) = verify_store_file(bench.path, bench.info, Files())
    assert "LMDB" in damage.expected


def test_a_missing_file_is_named(case: Case) -> None:
    info = case.write(simple_cells(3))
    case.path.unlink()
    (damage,) = verify_store_file(case.path, info, case.files)
    assert damage.path == case.path


def test_properties_that_do_not_fit_the_cells_are_found(case: Case) -> None:
    info = case.write(simple_cells(20))
    # As if the manifest named a file with the same bytes but other properties.
    (damage,) = verify_store_file(case.path, replace(info, row_count=19), case.files)
    assert damage.path == case.path


def test_all_blocks_but_the_damaged_ones_are_salvaged(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    parts = flipping.structures(bench)
    flipping.flip(bench.path, parts["block payloads"][4][0] + 80, 0)
    cells, damages = salvaged(bench.path)
    assert [damage.offset for damage in damages] == [parts["block payloads"][4][0]]
    assert 0 < len(bench.cells) - len(cells) < 10
    assert cells == [cell for cell in bench.cells if cell in set(cells)]


def test_a_block_with_a_damaged_header_is_salvaged_by_the_index(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    flipping.flip(bench.path, flipping.structures(bench)["block headers"][4][0] + 20, 0)
    assert salvaged(bench.path) == (bench.cells, [])


def test_without_metadata_every_block_is_found_by_its_own_header(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    for part in ("metadata header", "metadata payload"):
        place = flipping.structures(bench)[part][0][0] + 30
        flipping.flip(bench.path, place, 0)
        cells, (damage,) = salvaged(bench.path)
        assert cells == bench.cells
        assert "metadata" in damage.expected
        flipping.flip(bench.path, place, 0)


def test_a_cut_file_gives_the_blocks_before_the_cut(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    os.truncate(bench.path, flipping.structures(bench)["block payloads"][10][0] + 5)
    cells, damages = salvaged(bench.path)
    assert cells == bench.cells[: len(cells)]
    assert len(cells) >= 10
    assert len(damages) == 1


def test_another_store_file_in_the_place_of_one_gives_nothing(case: Case) -> None:
    """Its cells are of another family or table. With intact metadata they were taken for those of the missing file."""
    info = case.write(simple_cells(5))
    case.write(simple_cells(7))
    (damage,) = salvage(case.path, case.files, info)
    assert isinstance(damage, CorruptionError)
    assert damage.found == "another store file"


def test_a_store_file_inside_a_value_is_not_taken_for_blocks(case: Case) -> None:
    case.write(simple_cells(20))
    inner = case.path.read_bytes()
    cells: list[RowCell] = [(b"a", (b"q", -1, -1, PUT, bytes(shift) + inner)) for shift in [0]]
    cells += [(b"b", (b"q", -1, -1, PUT, b"v"))]
    case.write(cells)
    assert salvaged(case.path) == (cells, [])


def test_more_than_a_segment_should_hold_becomes_several(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    bench.path.rename(store_file_path(tmp_path, SMALL_FAMILY.number, 1))
    table = Table("t", 1, (SMALL_FAMILY,))
    region = SalvagedRegion(StoredRegion(tmp_path, RegionEntry(1, b"", b""), table, None), segment_bytes_max=2000)
    region.add_store_files(OpenFiles(Files()), BlockCache(0), [])
    ((_, segments),) = region.view()
    chunks = [segment.read_rows(b"", b"", NO_LIMIT) for segment in segments]
    assert len(chunks) > 2
    assert all(chunk.table.nbytes < 4000 for chunk in chunks), "a block more at most"
    found = [cell for chunk in chunks for cell in cells_of(chunk.table)]
    assert sorted(found) == sorted(bench.cells)
