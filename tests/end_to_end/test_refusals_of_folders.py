"""Folders that a server may not read or write: refused in one line, and left as they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import rowlock

from tests.end_to_end.server_command import ServerCommand

# Root may write everywhere, so a server that root starts first gives up the rights CAP_DAC_OVERRIDE (1) and
# CAP_DAC_READ_SEARCH (2), by capset(2).
WITHOUT_RIGHTS = """
import ctypes, os, struct
from rowlock_regionserver.__main__ import main
if os.geteuid() == 0:
    system = ctypes.CDLL(None, use_errno=True)
    header, rights = struct.pack("<Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    assert system.capget(header, rights) == 0, os.strerror(ctypes.get_errno())
    effective, permitted, inheritable, *others = struct.unpack("<6I", rights)
    kept = ~(1 << 1 | 1 << 2)
    rights = struct.pack("<6I", effective & kept, permitted & kept, inheritable & kept, *others)
    assert system.capset(header, rights) == 0, os.strerror(ctypes.get_errno())
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a stopped server; writable again at the end."""
    path = tmp_path / "data"
    with ServerCommand("--data", path, "--listen", "127.0.0.1:0") as server:
        server.ready()
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")
    yield path
    for name in (".", *(str(below.relative_to(path)) for below in path.iterdir() if below.is_dir())):
        (path / name).chmod(0o700)


def refused(path: Path | str) -> str:
    """Returns the message of a server without special rights that can't start on the folder."""
    with ServerCommand("--data", path, "--listen", "127.0.0.1:0", program=("-c", WITHOUT_RIGHTS)) as server:
        code, output, errors = server.ended()
    assert (code, output) == (2, "")
    assert errors.startswith("rowlock-server: can't start: ")
    assert errors.count("\n") == 1
    return errors


def test_a_read_only_folder_is_refused_and_left_as_it_is(folder: Path) -> None:
    (folder / "lock").chmod(0o400)
    folder.chmod(0o500)
    before = sorted(os.listdir(folder))
    assert f"{folder} can't be written; make it writable for this user" in refused(folder)
    assert sorted(os.listdir(folder)) == before
    assert f"{folder / 'new'} can't be written" in refused(folder / "new")


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_folder_within_that_cannot_be_written_is_named_with_what_to_do(folder: Path, mode: int) -> None:
    (folder / "log").chmod(mode)
    errors = refused(folder)
    assert str(folder / "log") in errors
    assert "let this user read and write it" in errors


def test_an_empty_path_is_not_taken_for_the_current_folder() -> None:
    assert "--data is empty; name a folder" in refused("")


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_second_server_is_refused_also_when_the_lock_file_was_cleaned_away(folder: Path, change: str) -> None:
    """Programs that clean temporary files remove it."""
    with ServerCommand("--data", folder, "--listen", "127.0.0.1:0") as server:
        address = server.ready()
        with rowlock.connect(address) as db:
            table = db.create_table("t", ["f"])
            table.put("r", {"f:a": "acknowledged"})
            (folder / "lock").unlink()
            if change == "replaced":
                (folder / "lock").touch(0o600)
            assert "is in use by another rowlock-server" in refused(folder)
            assert table.row("r") == {b"f:a": b"acknowledged"}


@pytest.mark.parametrize("name", ["lock", "format.temporary", "address.temporary", "catalog", "log", "bulk", "regions"])
def test_links_in_a_folder_lead_the_server_nowhere(tmp_path: Path, name: str) -> None:
    """Another user can make such a link if they know the folder's future name."""
    photos, letters = tmp_path / "photos", tmp_path / "letters.txt"
    (photos / "1").mkdir(parents=True)
    (photos / "1" / "cat.jpg").write_text("a cat")
    letters.write_text("years of letters")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).symlink_to(letters if name == "lock" or "." in name else photos)
    assert str(tmp_path / "data") in refused(tmp_path / "data")
    assert letters.read_text() == "years of letters"
    assert (photos / "1" / "cat.jpg").read_text() == "a cat"
    assert sorted(path.name for path in photos.iterdir()) == ["1"]


def test_a_folder_that_others_may_write_to_needs_the_option_insecure(folder: Path) -> None:
    folder.chmod(0o777)
    assert f"run 'chmod go-w {folder}'" in refused(folder)
    with ServerCommand("--data", folder, "--listen", "127.0.0.1:0", "--insecure") as server:
        server.ready()


@pytest.mark.parametrize("words", [("verify",), ("salvage", "out"), ("remove-set-aside",)])
def test_a_folder_that_may_not_be_read_is_refused_in_words(
    folder: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder.chmod(0)
    command, *others = words
    out = [tmp_path / name for name in others]
    with ServerCommand(command, folder, *out, program=("-c", WITHOUT_RIGHTS)) as server:
        assert server.ended() == (2, "", f"rowlock-server {command}: {folder}: Permission denied\n")
