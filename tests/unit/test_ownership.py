"""A data folder into which another user could have put a file is refused, and the message says what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.data_folder import DataFolder
from rowlock_regionserver.errors import DataFolderError
from rowlock_regionserver.files import Files

SOMEBODY = 12345


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a folder another user's."""

    def give_away(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, SOMEBODY, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)

    return give_away


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    DataFolder.open(path, Files()).close()
    (path / "regions").mkdir(mode=0o700)
    return path


def test_the_folder_of_another_user_is_refused(folder: Path, give_away: Callable[[Path], None]) -> None:
    give_away(folder)
    with pytest.raises(DataFolderError, match=r"belongs to user \d+.*run it as that user, or 'chown -R'"):
        DataFolder.open(folder, Files())
    DataFolder.open(folder, Files(), is_shared=True).close()


def test_the_empty_folder_of_another_user_is_refused_and_left_empty(
    tmp_path: Path, give_away: Callable[[Path], None]
) -> None:
    give_away(tmp_path)
    with pytest.raises(DataFolderError, match="belongs to user"):
        DataFolder.open(tmp_path, Files())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
@pytest.mark.parametrize("below", [".", "regions"])
def test_a_folder_that_others_may_write_to_is_refused(folder: Path, mode: int, below: str) -> None:
    (folder / below).chmod(mode)
    with pytest.raises(
        DataFolderError, match=f"users other than its owner may write to .*chmod go-w {folder / below}'"
    ):
        DataFolder.open(folder, Files())
    assert (folder / below).stat().st_mode & 0o7777 == mode
    DataFolder.open(folder, Files(), is_shared=True).close()


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o2755])
def test_others_may_read(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    DataFolder.open(folder, Files()).close()
    assert folder.stat().st_mode & 0o7777 == mode


def test_an_empty_folder_of_ours_is_closed_to_others_and_taken(tmp_path: Path) -> None:
    """A folder that a user has just made, where groups are private and may write."""
    tmp_path.chmod(0o775)
    DataFolder.open(tmp_path, Files()).close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("place", ["log", "regions/7", "regions/manifest-0000000000000001.temporary"])
def test_a_link_anywhere_below_is_refused(folder: Path, tmp_path: Path, place: str, is_shared: bool) -> None:
    (tmp_path / "photos").mkdir()
    (folder / place).symlink_to(tmp_path / "photos")
    with pytest.raises(DataFolderError, match=f"{folder / place} is a symbolic link"):
        DataFolder.open(folder, Files(), is_shared=is_shared)
