"""Edits of the live files, without a region: real store files and manifests, and a disk that fails on demand."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import PUT, Family, from_then_on
from rowlock_regionserver.errors import DiskFullError, FamilyNotFoundError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.region.live_files import Edit, LiveFiles, Replacement
from rowlock_regionserver.region.manifest import Manifest, read_manifest, write_manifest
from rowlock_regionserver.region.stores import Store, Stores
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file
from rowlock_regionserver.table import Table

from tests.unit.storefile.store_file_case import simple_cells, table_of

F, G = Family(1, b"f"), Family(2, b"g")
TABLE = Table("t", 1, (F, G))


class FailingFiles(Files):
    """Refuses new manifests, or fails to sync the folder that names them."""

    def __init__(self) -> None:
        self.no_space = False
        self.no_sync = False
        self.before_rename: Callable[[], object] = lambda: None

    def rename(self, source: Path, target: Path) -> None:
        self.before_rename()
        if self.no_space:
            raise OSError(errno.ENOSPC, "no space", str(target))
        super().rename(source, target)

    def fsync_folder(self, path: Path) -> None:
        if self.no_sync:
            raise OSError(errno.EIO, "the disk failed", str(path))
        super().fsync_folder(path)


class Region:
    """The live files of a region with families f and g, and the parts of an edit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = FailingFiles()
        self.open_files = OpenFiles(self.files)
        write_manifest(self.files, folder, 1, Manifest(region_id=1, table_id=1))
        self.stores = Stores(TABLE, {})
        for store in self.stores.all():
            store.memstore.recovered()
        self.committed: list[int] = []
        self.live = LiveFiles(read_manifest(self.files, folder), self.stores, self.files, self.committed.append)

    def sealed(self, family: Family) -> Sequence[Segment]:
        """Returns the family's segments, with one cell in them."""
        memstore = self.stores.of(family.number).memstore
        memstore.apply(b"r", [(b"q", -1, -1, PUT, b"v")], lambda: from_then_on(0))
        sealed: list[Segment] = []
        self.stores.change(lambda: sealed.extend(memstore.switch()))
        return sealed

    def file(self, family: Family) -> StoreFile:
        number = self.live.new_file_number()
        path = self.live.path_of(family.number, number)
        info = write_store_file(path, [table_of(simple_cells(3))], family, self.files, number=number)
        return StoreFile.open(path, info, BlockCache(0), self.open_files)

    def sources(self, family: Family) -> tuple[object, ...]:
        """Returns the sources of a reader without the active segment."""
        return self.stores.view[family.number][1][1:]

    def named(self) -> dict[int, list[int]]:
        """Returns the store files that the manifest on the disk names."""
        manifest = read_manifest(self.files, self.folder).manifest
        return {number: [info.number for info in infos] for number, infos in manifest.store_files.items()}

    def stored(self) -> list[str]:
        return sorted(path.name.replace("0", "") for path in self.folder.glob("*.store"))


@pytest.fixture
def region(tmp_path: Path) -> Region:
    return Region(tmp_path)


def test_a_file_takes_the_place_of_its_segments(region: Region) -> None:
    segments, file = region.sealed(F), region.file(F)
    assert region.sources(F) == tuple(segments)
    region.live.apply_edit(Edit(added={1: file}, flushed={1: segments}))
    assert region.sources(F) == file.runs
    assert (region.named(), region.live.generation, region.committed) == ({1: [1]}, 2, [2])
    assert region.live.manifest.next_file_number == 2


def test_the_newest_file_comes_first(region: Region) -> None:
    first = region.file(F)
    region.live.apply_edit(Edit(added={1: first}))
    second = region.file(F)
    region.live.apply_edit(Edit(added={1: second}))
    assert region.sources(F) == (*second.runs, *first.runs)
    assert region.named() == {1: [2, 1]}


def test_segments_of_only_dropped_cells_are_removed_without_a_file(region: Region) -> None:
    segments = region.sealed(F)
    region.live.apply_edit(Edit(flushed={1: segments}))
    assert (region.sources(F), region.named()) == ((), {})


def test_an_edit_is_durable_before_a_reader_sees_it(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, file = region.sealed(F), region.file(F)
    seen: list[tuple[object, ...]] = []
    replaced = region.files.fsync_folder

    def fsync_folder(path: Path) -> None:
        seen.append(region.sources(F))
        replaced(path)

    monkeypatch.setattr(region.files, "fsync_folder", fsync_folder)
    region.live.apply_edit(Edit(added={1: file}, flushed={1: segments}))
    assert set(seen) == {tuple(segments)}


def test_an_edit_without_space_changes_nothing_and_leaves_no_file(region: Region) -> None:
    segments, file = region.sealed(F), region.file(F)
    region.files.no_space = True
    with pytest.raises(DiskFullError):
        region.live.apply_edit(Edit(added={1: file}, flushed={1: segments}))
    assert region.sources(F) == tuple(segments)
    assert (region.named(), region.stored(), region.committed, region.live.generation) == ({}, [], [], 1)


def test_after_a_failed_sync_of_the_manifest_its_files_stay(region: Region) -> None:
    """The manifest may be on the disk, and then the next start reads the files."""
    segments, file = region.sealed(F), region.file(F)
    region.files.no_sync = True
    with pytest.raises(UnknownOutcomeError, match="the disk failed"):
        region.live.apply_edit(Edit(added={1: file}, flushed={1: segments}))
    assert region.sources(F) == tuple(segments)
    assert (region.stored(), region.committed) == (["1-1.store"], [])


def test_after_a_lack_of_memory_behind_the_commit_the_files_stay(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction removed its output, although the manifest named it."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    file = region.file(F)
    monkeypatch.setattr(LiveFiles, "_publish", no_memory)
    with pytest.raises(UnknownOutcomeError, match="lacked memory"):
        region.live.apply_edit(Edit(added={1: file}))
    assert region.named() == {1: [file.info.number]}
    assert file.path.exists()


def test_files_of_a_dropped_family_are_removed_after_their_last_reader(region: Region) -> None:
    region.live.apply_edit(Edit(added={1: region.file(F)}))
    region.live.apply_edit(Edit(added={2: region.file(G)}))
    reader = region.stores.view
    dropped = region.stores.alter(Table("t", 1, (F,)), 8, 0)
    region.live.apply_edit(Edit(dropped=dropped))
    del dropped
    assert region.named() == {1: [1]}
    assert region.stored() == ["1-1.store", "2-2.store"], "a reader has it still"
    del reader
    gc.collect()
    region.open_files.close_released()
    assert region.stored() == ["1-1.store"]


def test_files_of_a_family_that_was_dropped_without_space_are_removed_by_the_next_edit(region: Region) -> None:
    """They stayed until a restart, on a disk that was full."""
    region.live.apply_edit(Edit(added={2: region.file(G)}))
    dropped = region.stores.alter(Table("t", 1, (F,)), 8, 0)
    region.files.no_space = True
    with pytest.raises(DiskFullError):
        region.live.apply_edit(Edit(dropped=dropped))
    del dropped
    gc.collect()
    region.open_files.close_released()
    assert (region.named(), region.stored()) == ({2: [1]}, ["2-1.store"]), "the manifest still names it"
    region.files.no_space = False
    region.live.apply_edit(Edit(added={1: region.file(F)}))
    gc.collect()
    region.open_files.close_released()
    assert (region.named(), region.stored()) == ({1: [2]}, ["1-2.store"])


def test_the_same_manifest_names_the_files_and_the_flushed_write_number(region: Region) -> None:
    segments, file = region.sealed(F), region.file(F)
    flushed = Manifest(region_id=1, table_id=1, flushed_write_number=7)
    region.live.apply_edit(Edit(added={1: file}, flushed={1: segments}), flushed)
    manifest = read_manifest(region.files, region.folder).manifest
    assert (manifest.flushed_write_number, [info.number for info in manifest.store_files[1]]) == (7, [1])


def test_files_take_the_place_of_their_neighbours(region: Region) -> None:
    files = [region.file(F) for _ in range(4)]
    for file in files:
        region.live.apply_edit(Edit(added={1: file}))
    output = region.file(F)
    region.live.apply_edit(Edit(replaced={1: Replacement([files[2], files[1]], [output])}))
    assert region.named() == {1: [4, 5, 1]}
    assert region.stores.of(1).files == (files[3], output, files[0])


def test_an_input_may_stay(region: Region) -> None:
    first, second = region.file(F), region.file(F)
    for file in (first, second):
        region.live.apply_edit(Edit(added={1: file}))
    region.live.apply_edit(Edit(replaced={1: Replacement([second, first], [first.as_base()])}))
    del first, second, file
    gc.collect()
    region.open_files.close_released()
    assert region.named() == {1: [1]}
    assert read_manifest(region.files, region.folder).manifest.store_files[1][0].is_base
    region.stores.retire()
    gc.collect()
    region.open_files.close_released()
    assert region.stored() == ["1-1.store"], "it goes with its last reader, though the manifest names it"


def test_a_replaced_file_is_removed_after_its_last_reader(region: Region) -> None:
    first = region.file(F)
    region.live.apply_edit(Edit(added={1: first}))
    reader = region.sources(F)
    region.live.apply_edit(Edit(replaced={1: Replacement([first], [region.file(F)])}))
    del first
    gc.collect()
    region.open_files.close_released()
    assert region.stored() == ["1-1.store", "1-2.store"]
    del reader
    gc.collect()
    region.open_files.close_released()
    assert region.stored() == ["1-2.store"]


def test_without_space_for_the_manifest_the_outputs_are_removed_and_the_inputs_stay(region: Region) -> None:
    first = region.file(F)
    region.live.apply_edit(Edit(added={1: first}))
    output = region.file(F)
    region.files.no_space = True
    with pytest.raises(DiskFullError):
        region.live.apply_edit(Edit(replaced={1: Replacement([first], [output])}))
    assert (region.named(), region.stored()) == ({1: [1]}, ["1-1.store"])
    assert region.stores.of(1).files == (first,)


def test_an_edit_keeps_what_another_one_changed_meanwhile(region: Region) -> None:
    """A flush prepares its manifest before a compaction commits one."""
    files = [region.file(F) for _ in range(2)]
    for file in files:
        region.live.apply_edit(Edit(added={1: file}))
    prepared = replace(region.live.manifest, flushed_write_number=9)
    region.live.apply_edit(Edit(replaced={1: Replacement([files[1], files[0]], [region.file(F)])}))
    region.live.apply_edit(Edit(added={1: region.file(F)}), prepared)
    assert region.named() == {1: [4, 3]}
    assert region.live.manifest.flushed_write_number == 9
    assert region.live.manifest.next_file_number == 5


def test_a_family_that_is_dropped_while_a_replacement_of_its_files_is_committed_leaves_none(region: Region) -> None:
    """The commit failed by KeyError after its manifest was live, and its files were removed."""
    first = region.file(F)
    region.live.apply_edit(Edit(added={1: first}))
    replaced = Edit(replaced={1: Replacement([first], [region.file(F)])}, settled={1: 5})
    del first
    dropped: list[Store] = []

    def drop() -> None:
        region.files.before_rename = lambda: None
        dropped.extend(region.stores.alter(Table("t", 1, (G,)), 8, 0))

    region.files.before_rename = drop
    region.live.apply_edit(replaced)
    del replaced
    assert (region.named(), region.stored()) == ({1: [2]}, ["1-1.store", "1-2.store"])
    region.live.apply_edit(Edit(dropped=dropped))
    dropped.clear()
    gc.collect()
    region.open_files.close_released()
    assert (region.named(), region.stored()) == ({}, [])


def test_files_of_a_dropped_family_are_not_replaced(region: Region) -> None:
    first = region.file(F)
    region.live.apply_edit(Edit(added={1: first}))
    output = region.file(F)
    dropped = region.stores.alter(Table("t", 1, (G,)), 8, 0)
    region.live.apply_edit(Edit(dropped=dropped))
    with pytest.raises(FamilyNotFoundError):
        region.live.apply_edit(Edit(replaced={1: Replacement([first], [output])}))
    assert region.named() == {}
