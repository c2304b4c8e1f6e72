"""The links in a new region's folder follow the old regions' files while these change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import Put
from rowlock_regionserver.region.linked_files import LinkedFiles
from rowlock_regionserver.storefile.reader import StoreFile

from .lone_region import LoneRegion

F = 1  # the number of family f
CONFIG = Config(log_segment_bytes=1 << 20, long_work_pause_percent=0)


def region_at(folder: Path) -> LoneRegion:
    folder.mkdir()
    return LoneRegion(folder, CONFIG)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LoneRegion]:
    region = region_at(tmp_path / "lone")
    yield region
    region.stop()
    assert not region.fatal


def flushed(lone: LoneRegion, *rows: bytes) -> StoreFile:
    """Returns the file of these rows."""
    for row in rows:
        lone.change(row, Put(b"f", b"q", b"v"))
    lone.flush()
    return lone.parts.stores.of(F).files[0]


def linked_files(lone: LoneRegion, folder: Path, start: bytes = b"", stop: bytes = b"") -> LinkedFiles:
    folder.mkdir()
    return LinkedFiles(folder, (start, stop), lone.parts.shared)


def test_files_with_rows_of_the_new_region_are_linked_and_opened(lone: LoneRegion, tmp_path: Path) -> None:
    outside, across, inside = flushed(lone, b"1"), flushed(lone, b"2", b"6"), flushed(lone, b"7", b"8")
    linked = linked_files(lone, tmp_path / "new", b"5")
    infos = linked.follow([{F: [inside, across, outside]}])[F]
    assert [(info.number, info.clip_start) for info in infos] == [(inside.info.number, b""), (across.info.number, b"5")]
    assert {path.name for path in linked.opened()} == {path.name for path in (tmp_path / "new").iterdir()}
    assert [file.info for file in linked.opened().values()] == list(infos)
    assert all(path.samefile(lone.folder / "regions" / "7" / path.name) for path in linked.opened())


def test_a_file_that_is_linked_is_not_opened_again(lone: LoneRegion, tmp_path: Path) -> None:
    first = flushed(lone, b"1")
    linked = linked_files(lone, tmp_path / "new")
    linked.follow([{F: [first]}])
    (opened,) = linked.opened().values()
    linked.follow([{F: [flushed(lone, b"2"), first]}])
    assert len(linked.opened()) == 2
    assert linked.opened()[opened.path] is opened


def test_a_file_that_is_replaced_has_no_link_any_more(lone: LoneRegion, tmp_path: Path) -> None:
    first, second = flushed(lone, b"1"), flushed(lone, b"2")
    linked = linked_files(lone, tmp_path / "new")
    linked.follow([{F: [first]}])
    assert [info.number for info in linked.follow([{F: [second]}])[F]] == [second.info.number]
    assert [path.name for path in (tmp_path / "new").iterdir()] == [second.path.name]


def test_a_file_that_became_the_base_is_the_base_of_the_new_region(lone: LoneRegion, tmp_path: Path) -> None:
    file = flushed(lone, b"1", b"2")
    linked = linked_files(lone, tmp_path / "new")
    assert [info.is_base for info in linked.follow([{F: [file]}])[F]] == [False]
    assert [info.is_base for info in linked.follow([{F: [file.as_base()]}])[F]] == [True]
    assert [opened.info.is_base for opened in linked.opened().values()] == [True]


def test_a_later_file_gets_another_number_than_a_link_that_has_its_own(tmp_path: Path) -> None:
    """Both regions to merge have a file 1, and the left one is flushed again after its files were linked."""
    left, right = (region_at(tmp_path / name) for name in ("left", "right"))
    linked = linked_files(left, tmp_path / "new")
    olds = [[flushed(left, b"1")], [flushed(right, b"1")]]
    olds[1].insert(0, flushed(right, b"2"))
    first = linked.follow([{F: old} for old in olds])[F]
    assert [(info.number, info.header_number) for info in first] == [(1, 1), (3, 3), (4, 1)]
    olds[0].insert(0, flushed(left, b"2"))
    later = linked.follow([{F: old} for old in olds])[F]
    assert [(info.number, info.header_number) for info in later] == [(5, 3), (1, 1), (3, 3), (4, 1)]
    assert linked.new_number() == 6
    assert sorted(linked.opened()) == sorted((tmp_path / "new").iterdir())
    left.stop()
    right.stop()
