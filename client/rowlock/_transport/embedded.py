"""The private server of a folder: found through the folder, or started there.

1. `folder/address` names the folder's socket, on which a server lets clients in. A client that reaches it, and learns
   that it serves this very folder, has joined; nothing else is done. (Servers before 0.2 listen on a port instead, and
   another program may have got that port since.)
2. Otherwise a server process is started on the folder, in a session of its own. The server takes the folder by an
   flock, so of several started at once one wins, writes `address` and prints a line; the others exit with code 4.
3. A client whose process exited with 4 joins the winner: back to 1, until the time is over.

A folder that somebody else could have written the files to is not asked; the server refuses it, and says why. Nothing
here trusts a process id, and a stale `address` only costs one refused connection.
"""

from __future__ import annotations

import os
import re
import selectors
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from rowlock_proto.unix_sockets import PREFIX

from rowlock.errors import EmbeddedServerError, ServerUnavailableError

C = TypeVar("C")

ADDRESS_FILE = "address"
FORMAT_FILE = "format"
# Recovery of a large log takes its time.
START_SECONDS_MAX = 120.0
_FOLDER_IN_USE = 4
_LOOK_AGAIN_SECONDS = 0.05
# How long to look for the address of another process's server before it is tried whether that still runs.
_LOOK_SECONDS_MAX = 0.5
# More than any path has.
_FILE_BYTES_MAX = 1 << 16
_FORMAT_LINE = re.compile(r"rowlock data folder, format \d{1,9}, id ([0-9a-f]{32})\n")


@dataclass(frozen=True, slots=True)
class FolderServer:
    """Where a folder says that its server is, and the folder's id, which that server must have."""

    address: str
    folder_id: str


def running_server(folder: Path, join: Callable[[FolderServer], C]) -> C:
    """What `join` makes of the folder's server, which is started if need be.

    `join` raises ServerUnavailableError for an address where the folder's server does not answer. Raises
    EmbeddedServerError when no server can be started or reached.
    """
    deadline = time.monotonic() + START_SECONDS_MAX
    met: Exception | None = None
    while time.monotonic() < deadline:
        server = named_server(folder)
        if server is not None:
            try:
                return join(server)
            except ServerUnavailableError as error:
                met = error
        if not start_server(folder, deadline):
            # Another process's server has the folder, and is about to let clients in, or to end.
            _wait_for_address(folder, min(deadline, time.monotonic() + _LOOK_SECONDS_MAX))
    raise EmbeddedServerError(
        f"a server has the folder {folder}, and could not be reached within {START_SECONDS_MAX:g} s"
        + (f": {met}" if met is not None else "")
    )


def named_server(folder: Path) -> FolderServer | None:
    """The server that the folder names, None when it names none at this moment.

    Raises EmbeddedServerError when somebody else could have written it.
    """
    folder = folder.resolve()
    try:
        # Through one descriptor, so that what is judged is what is read.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            address = _read(ADDRESS_FILE, descriptor).strip()
            line = _FORMAT_LINE.fullmatch(_read(FORMAT_FILE, descriptor))
            is_ours = _is_ours(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EmbeddedServerError(f"the server of {folder} can't be found: {error}") from error
    if not is_ours:
        raise EmbeddedServerError(
            f"the folder {folder} is not this user's alone, so somebody else could have named the server in it; make "
            f"it so by 'chown' and 'chmod go-w {folder}', or name another folder"
        )
    if not address or line is None:
        return None
    if address.startswith(PREFIX):
        # The socket is in the folder, whichever path the server knows that by.
        address = f"{PREFIX}{folder / Path(address).name}"
    return FolderServer(address, line[1])


def _is_ours(status: os.stat_result) -> bool:
    """Nobody but this user, or root, could have put anything into the folder."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(name: str, folder: int) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.fsdecode(os.read(descriptor, _FILE_BYTES_MAX))
    finally:
        os.close(descriptor)


def _wait_for_address(folder: Path, deadline: float) -> None:
    while not (folder / ADDRESS_FILE).exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_SECONDS)


def start_server(folder: Path, deadline: float) -> bool:
    """Starts a server and blocks until it is ready; whether it is, and not another one that has the folder.

    Raises EmbeddedServerError with the server's last words if it ended otherwise, or was not ready in time.
    """
    # Not a pipe: the server outlives us and may want to say something later.
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowlock_regionserver", "--data", os.fspath(folder), "--embedded"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            start_new_session=True,
        )
        assert process.stdout is not None, "it was asked for"
        with process.stdout as output:
            line = _first_line(output, deadline)
        if line:
            # It lives on by itself, also after us; as long as we live its end must be noticed, or it stays as a zombie.
            threading.Thread(target=process.wait, name="rowlock server", daemon=True).start()
            return True
        if line is None:
            process.kill()
        exit_code = process.wait()
        if exit_code == _FOLDER_IN_USE:
            return False
        words.seek(0)
        last = words.read().decode(errors="backslashreplace").strip().splitlines()[-1:]
        raise EmbeddedServerError(
            f"the server on {folder} "
            + (f"ended with code {exit_code}" if line is not None else "was not ready in time")
            + (f": {last[0]}" if last else "")
        )


def _first_line(output: IO[bytes], deadline: float) -> bytes | None:
    """The first line that a process prints; empty if it ended without one, None when the time is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            return None
    return output.readline()
