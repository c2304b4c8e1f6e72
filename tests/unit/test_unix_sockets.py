"""A socket is reached under a path of any length."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pytest
from rowlock_proto.unix_sockets import SocketName, socket_path


def folders(tmp_path: Path) -> list[Path]:
    return [tmp_path / "plain", tmp_path / ("long" * 50), tmp_path / "a b#%41,c;é?"]


def descriptors_of(folder: Path) -> list[str]:
    """Returns the open descriptors of files in the folder. Others come and go with threads of earlier tests."""
    opened = []
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):
            target = os.readlink(link)
            if target.startswith(str(folder)):
                opened.append(target)
    return opened


Naming = Callable[[str], SocketName]


@pytest.fixture(params=["descriptors", "links"])
def naming(request: pytest.FixtureRequest, tmp_path: Path) -> Naming:
    """How a folder is reached whose path is too long: as on Linux, and as on a system without /proc."""
    return SocketName if request.param == "descriptors" else partial(SocketName, descriptors=str(tmp_path / "no proc"))


@pytest.mark.parametrize("number", range(3))
def test_a_socket_in_any_folder_is_reached(tmp_path: Path, naming: Naming, number: int) -> None:
    folder = folders(tmp_path)[number]
    folder.mkdir()
    name = naming(str(folder / "socket"))
    assert "," not in name.target
    path = name.path
    assert unquote(name.target) == f"unix:{path}"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as caller:
        listening.bind(path)
        listening.listen()
        assert (folder / "socket").is_socket()
        if path.startswith("/proc"):
            folder.rename(tmp_path / "moved")
        caller.connect(path)
    name.close()
    name.close()
    assert descriptors_of(tmp_path) == []
    if path.startswith("/tmp/rowlock-"):
        assert not Path(path).parent.parent.exists()


def test_a_missing_folder_is_named(tmp_path: Path, naming: Naming) -> None:
    with pytest.raises(FileNotFoundError, match="longlong"):
        naming(str(tmp_path / ("long" * 50) / "socket"))


def test_a_name_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    for name in ("n" * 108, "a,b"):
        with pytest.raises(ValueError, match="can't name a socket"):
            SocketName(str(tmp_path / name))


def test_an_address_is_read_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert socket_path("unix:/run/rowlock.sock") == "/run/rowlock.sock"
    assert socket_path("unix:///run/rowlock.sock") == "/run/rowlock.sock"
    assert socket_path("unix:data/socket") == str(tmp_path / "data" / "socket")
    for address in ("unix:", "unix:/", "unix:a\0b", "127.0.0.1:7460", "/run/rowlock.sock"):
        with pytest.raises(ValueError, match="'unix:PATH'"):
            socket_path(address)
