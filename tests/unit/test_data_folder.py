"""The data folder: made once, locked by one process, and unchanged when it is refused."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rowlock_regionserver.data_folder import FORMAT, LOCK, DataFolder
from rowlock_regionserver.errors import DataFolderError, FolderInUseError
from rowlock_regionserver.files import Files

from tests.crash.simulated_files import SimulatedFiles


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class FailingFiles(Files):
    """Files whose n-th change does not happen, but raises the given error."""

    def __init__(self, fails_at: int, error: BaseException) -> None:
        self._left = fails_at
        self._error = error

    def _change(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise self._error

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            self._change()
        return super().open(path, flags, mode)


def _counted(name: str) -> Callable[..., Any]:
    def method(self: FailingFiles, *arguments: Any) -> Any:
        self._change()
        return getattr(Files, name)(self, *arguments)

    return method


for _name in ("pwrite", "fsync", "fsync_folder", "truncate", "rename", "make_folder"):
    setattr(FailingFiles, _name, _counted(_name))


class PowerCut(BaseException):
    """The process ends here."""


def test_a_new_folder_is_made_for_its_owner_only_and_keeps_its_id(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with DataFolder.open(path, Files()) as folder:
        folder_id = folder.folder_id
        assert len(folder_id) == 32
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / FORMAT).stat().st_mode & 0o777 == 0o600
    assert (path / LOCK).stat().st_mode & 0o777 == 0o600
    with DataFolder.open(path, Files()) as again:
        assert again.folder_id == folder_id


@pytest.mark.parametrize("names", [[], ["lost+found"], [LOCK], ["format.temporary"]])
def test_an_empty_folder_is_taken(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    DataFolder.open(tmp_path, Files()).close()


def test_two_folders_have_different_ids(tmp_path: Path) -> None:
    with DataFolder.open(tmp_path / "a", Files()) as a, DataFolder.open(tmp_path / "b", Files()) as b:
        assert a.folder_id != b.folder_id


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_bytes(b"years of work")
    with pytest.raises(DataFolderError, match="not a rowlock data folder"):
        DataFolder.open(tmp_path, Files())
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"rowlock data folder, format 2, id 0123456789abcdef0123456789abcdef\n", "has format 2"),
        (b"", "damaged or of another program"),
        (b"rowlock data folder, format 1, id 0123\n", "damaged or of another program"),
        (b"\x00" * 100_000, "damaged or of another program"),
    ],
)
def test_another_version_or_a_damaged_format_is_refused_and_nothing_changed(
    tmp_path: Path, line: bytes, message: str
) -> None:
    (tmp_path / FORMAT).write_bytes(line)
    with pytest.raises(DataFolderError, match=message) as refused:
        DataFolder.open(tmp_path, Files())
    assert len(str(refused.value)) < 1000
    assert contents(tmp_path) == {FORMAT: line}


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with DataFolder.open(tmp_path, Files()):
        before = contents(tmp_path)
        with pytest.raises(DataFolderError, match=rf"in use by another rowlock-server \(process {os.getpid()}\)"):
            DataFolder.open(tmp_path, Files())
        assert contents(tmp_path) == before
    DataFolder.open(tmp_path, Files()).close()


def test_the_lock_file_has_the_address_of_the_server_until_the_next_one_takes_it(tmp_path: Path) -> None:
    with DataFolder.open(tmp_path, Files()) as folder:
        folder.note_address("127.0.0.1:7460")
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n127.0.0.1:7460\n"
        with pytest.raises(FolderInUseError, match=rf"\(process {os.getpid()}\)"):
            DataFolder.open(tmp_path, Files())
    with DataFolder.open(tmp_path, Files()):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"


def test_a_folder_is_held_also_when_its_lock_file_is_removed_or_replaced(tmp_path: Path) -> None:
    with DataFolder.open(tmp_path, Files()):
        for replaced in (False, True):
            (tmp_path / LOCK).unlink(missing_ok=True)
            if replaced:
                (tmp_path / LOCK).write_text("1\n")
            with pytest.raises(FolderInUseError, match="in use by another rowlock-server"):
                DataFolder.open(tmp_path, Files())
    DataFolder.open(tmp_path, Files()).close()


def test_a_server_of_the_version_before_holds_the_folder_by_its_lock_file(tmp_path: Path) -> None:
    DataFolder.open(tmp_path, Files()).close()
    with (tmp_path / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(FolderInUseError):
            DataFolder.open(tmp_path, Files())


def test_the_lock_file_is_enough_where_folders_have_no_locks(tmp_path: Path) -> None:
    class Nfs(Files):
        def lock(self, descriptor: int) -> bool:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EBADF, "Bad file descriptor")
            return super().lock(descriptor)

    with DataFolder.open(tmp_path, Nfs()), pytest.raises(FolderInUseError):
        DataFolder.open(tmp_path, Nfs())


@pytest.mark.parametrize("name", [LOCK, "format.temporary", FORMAT])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_link_in_the_place_of_a_file_is_refused_and_its_target_unharmed(
    tmp_path: Path, name: str, is_shared: bool
) -> None:
    victim, folder = tmp_path / "letters.txt", tmp_path / "data"
    victim.write_text("years of letters")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(DataFolderError, match="symbolic link"):
        DataFolder.open(folder, Files(), is_shared=is_shared)
    assert victim.read_text() == "years of letters"


def test_a_second_name_of_another_file_is_not_written_to(tmp_path: Path) -> None:
    victim, folder = tmp_path / "letters.txt", tmp_path / "data"
    victim.write_text("years of letters")
    folder.mkdir()
    (folder / LOCK).hardlink_to(victim)
    (folder / "format.temporary").hardlink_to(victim)
    DataFolder.open(folder, Files()).close()
    assert victim.read_text() == "years of letters"


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with DataFolder.open(tmp_path / "link", Files()) as folder:
        assert folder.path == tmp_path / "disk"
        with pytest.raises(FolderInUseError):
            DataFolder.open(tmp_path / "disk", Files())


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_is_refused_in_one_sentence(tmp_path: Path, code: int) -> None:
    DataFolder.open(tmp_path, Files()).close()
    before = contents(tmp_path)
    with pytest.raises(DataFolderError, match="can't be written; make it writable"):
        DataFolder.open(tmp_path, FailingFiles(1, OSError(code, os.strerror(code))))
    assert contents(tmp_path) == before


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="disk is full"):
        DataFolder.open(tmp_path / "data", FailingFiles(1, OSError(errno.ENOSPC, "No space left on device")))


@pytest.mark.parametrize(
    ("step", "error_number", "problem"),
    [
        ("create", errno.EDQUOT, "disk is full"),
        ("pwrite", errno.ENOSPC, "disk is full"),
        ("pwrite", errno.ENOMEM, "the process lacks memory or address space; give it more"),
        ("fsync", errno.EIO, "can't be used"),
        ("rename", errno.EACCES, "can't be written"),
        ("fsync_folder", errno.EIO, "can't be used .*format is written, but its folder could not be synced"),
    ],
)
def test_a_format_that_the_disk_refuses_is_an_error_and_the_next_try_works(
    tmp_path: Path, step: str, error_number: int, problem: str
) -> None:
    disk = SimulatedFiles(tmp_path / "data")
    (disk.root / LOCK).touch()
    disk.fail_next(step, error_number)
    with pytest.raises(DataFolderError, match=problem):
        DataFolder.open(disk.root, disk)
    assert set(disk.list_folder(disk.root)) <= {LOCK, FORMAT}
    disk.before_call = lambda call: None
    DataFolder.open(disk.root, disk).close()


def test_a_missing_file_below_an_existing_folder_does_not_name_the_folder_as_missing(tmp_path: Path) -> None:
    refusal = OSError(errno.ENOENT, "No such file or directory")
    with pytest.raises(DataFolderError, match=r"can't be used \(.*No such file") as caught:
        DataFolder.open(tmp_path / "data", FailingFiles(1, refusal))
    assert "is missing" not in str(caught.value)


def test_a_tilde_is_not_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataFolderError, match="~ does not stand for the home folder here; write the path in full"):
        DataFolder.open(Path("~/data"), Files())
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place_and_a_missing_parent_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderError, match="is not a folder"):
        DataFolder.open(tmp_path / "file", Files())
    with pytest.raises(DataFolderError, match=f"{tmp_path / 'no'} is missing"):
        DataFolder.open(tmp_path / "no" / "data", Files())
    assert not (tmp_path / "no").exists()


def test_without_create_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="there is no data folder"):
        DataFolder.open(tmp_path / "data", Files(), create=False)
    with pytest.raises(DataFolderError, match="is empty"):
        DataFolder.open(tmp_path, Files(), create=False)
    assert list(tmp_path.iterdir()) == []
    DataFolder.open(tmp_path, Files()).close()
    DataFolder.open(tmp_path, Files(), create=False).close()


def test_a_crash_at_any_change_leaves_a_folder_that_opens(tmp_path: Path) -> None:
    crashes = 0
    for fails_at in range(1, 100):
        path = tmp_path / str(fails_at)
        try:
            folder = DataFolder.open(path, FailingFiles(fails_at, PowerCut()))
        except PowerCut:
            crashes += 1
            DataFolder.open(path, Files()).close()
        else:
            folder.close()
            break
    assert crashes >= 8
