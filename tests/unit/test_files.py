"""No call of the file-system module follows a symbolic link; hard links."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.errors import DataFolderError, TooManyOpenFilesError
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


def test_a_hard_link_is_a_second_name_of_a_file(tmp_path: Path, victim: Path) -> None:
    target = tmp_path / "link"
    Files().link(victim, target)
    assert target.samefile(victim)
    with pytest.raises(FileExistsError):
        Files().link(victim, target)
    Files().remove(victim)
    assert target.read_text() == "years of letters"
    with pytest.raises(FileNotFoundError):
        Files().link(victim, tmp_path / "other")


def test_a_hard_link_to_a_symbolic_link_is_none_to_its_target(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "symbolic").symlink_to(victim)
    Files().link(tmp_path / "symbolic", tmp_path / "hard")
    assert victim.stat().st_nlink == 1


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_named_with_what_to_do(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(source: Path, target: Path, *, follow_symlinks: bool) -> None:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(DataFolderError, match=r"nothing was changed: splits .* need a data folder .* with hard links"):
        Files().link(victim, tmp_path / "link")
    number = errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        Files().link(victim, tmp_path / "link")


# ---- removing large files


@pytest.fixture
def freed_to(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths to which files are cut and synced from now on."""
    lengths: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        lengths.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return lengths


def large_file(folder: Path) -> Path:
    path = folder / "large"
    with path.open("wb") as file:
        file.truncate((11 << 20) + 5)
    return path


def test_the_space_of_a_large_file_is_freed_in_pieces(tmp_path: Path, freed_to: list[int]) -> None:
    Files().remove_unread(large_file(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert freed_to == [(7 << 20) + 5, (3 << 20) + 5]


def test_a_file_with_another_name_is_not_cut(tmp_path: Path, freed_to: list[int]) -> None:
    path = large_file(tmp_path)
    Files().link(path, tmp_path / "linked")
    Files().remove_unread(path)
    assert (tmp_path / "linked").stat().st_size == (11 << 20) + 5
    assert freed_to == []


def test_a_large_file_that_cannot_be_opened_is_removed_at_once(tmp_path: Path, freed_to: list[int]) -> None:
    class NoDescriptors(Files):
        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            raise TooManyOpenFilesError("no file descriptor is left")

    NoDescriptors().remove_unread(large_file(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert freed_to == []


def test_a_small_file_is_removed_at_once_and_a_missing_one_is_an_error(tmp_path: Path, victim: Path) -> None:
    Files().remove_unread(victim)
    assert not victim.exists()
    with pytest.raises(FileNotFoundError):
        Files().remove_unread(victim)
