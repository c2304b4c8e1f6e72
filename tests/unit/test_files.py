"""No call of the file-system module follows a symbolic link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.files import Files

from tests.unit.storefile.store_file_case import Case, cells_of, simple_cells


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "letters.txt"
    path.write_text("years of letters")
    return path


@pytest.mark.parametrize(
    "call",
    [
        lambda path: Files().open(path, os.O_RDWR),
        lambda path: Files().open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC),
        lambda path: Files().read(path),
    ],
)
def test_a_link_is_not_opened(tmp_path: Path, victim: Path, call: Callable[[Path], object]) -> None:
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        call(tmp_path / "link")
    assert victim.read_text() == "years of letters"


@pytest.mark.parametrize("call", [Files().list_folder, Files().fsync_folder])
def test_a_link_to_a_folder_is_no_folder(tmp_path: Path, call: Callable[[Path], object]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    call(tmp_path / "folder")
    with pytest.raises(NotADirectoryError):
        call(tmp_path / "link")


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_new_file_replaces_a_link(tmp_path: Path, victim: Path, make: Callable[[Path, Path], None]) -> None:
    make(tmp_path / "new", victim)
    files = Files()
    descriptor = files.create(tmp_path / "new")
    files.pwrite(descriptor, b"ours", 0)
    files.close(descriptor)
    assert (tmp_path / "new").read_bytes() == b"ours"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "years of letters"


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_store_files_and_generations_are_written_past_links(
    tmp_path: Path, victim: Path, make: Callable[[Path, Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("store-1.temporary", "store-1", "manifest-0000000000000001.temporary", "manifest-0000000000000001"):
        make(folder / name, victim)
    case = Case(folder, Files())
    assert cells_of(case.written(simple_cells(10)).read_rows(b"", b"", 1 << 30).table) == simple_cells(10)
    generations.write(Files(), folder, "manifest", 1, b"body")
    assert generations.read_newest(Files(), folder, "manifest") == (1, b"body")
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert victim.read_text() == "years of letters"
