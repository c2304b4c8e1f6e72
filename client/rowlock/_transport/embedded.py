"""The private server of a folder: finds the one that runs, or starts one.

1. `folder/address` names the folder's socket, on which the server accepts clients. A client connects to it and checks
   the server's folder id; if it is this folder's, the client has joined. (Servers before 0.2 listen on a port, which
   another program may use by now.)
2. Otherwise the client starts a server process on the folder, in its own session. The server locks the folder with
   flock. So of several started at the same time one wins, writes `address` and prints a line; the others exit with
   code 4.
3. A client whose process exited with 4 joins the winner: back to 1, until the deadline. But a rowlock-server with an
   address of its own writes it into `folder/lock`; if it answers there, `open` fails.

The client does not read `address` in a folder that another user could have written to; the server refuses such a folder
and says why. Process ids are never used, and a stale `address` only costs one refused connection.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from rowlock_proto.server_modules import ADVICE, missing_server_modules
from rowlock_proto.unix_sockets import PREFIX

from rowlock.errors import EmbeddedServerError, ServerUnavailableError

C = TypeVar("C")

logger = logging.getLogger("rowlock")

ADDRESS_FILE = "address"
FORMAT_FILE = "format"
LOCK_FILE = "lock"
# Long, because a large log must be replayed.
START_SECONDS_MAX = 120.0
_FOLDER_IN_USE = 4
_LOOK_AGAIN_SECONDS = 0.05
# How long to wait for `address` from another process's server before checking whether it still runs: twice as long each
# time, because the check starts a process, half a second of a processor that a server needs that reads its log.
_LOOK_SECONDS_FIRST = 0.5
_LOOK_SECONDS_MAX = 8.0
# After this long it says what it is waiting for.
_NOTE_AFTER_SECONDS = 3.0
# More than any path.
_FILE_BYTES_MAX = 1 << 16
_FORMAT_LINE = re.compile(r"rowlock data folder, format \d{1,9}, id ([0-9a-f]{32})\n")


@dataclass(frozen=True, slots=True)
class FolderServer:
    """The address of a folder's server, as the folder has it, and the folder id that this server must have."""

    address: str
    folder_id: str


def running_server(
    folder: Path,
    join: Callable[[FolderServer], C],
    answers: Callable[[FolderServer], bool],
    settings: Sequence[str],
) -> C:
    """Finds or starts the folder's server, and returns join(server).

    join must raise ServerUnavailableError if the folder's server does not answer at the address; `answers` returns
    whether it does. settings: of the server, if it is started, each as NAME=VALUE. Raises EmbeddedServerError if no
    server can be started or reached, also if one that is not private has the folder.
    """
    began_at = time.monotonic()
    deadline = began_at + START_SECONDS_MAX
    last_error: Exception | None = None
    look_s = _LOOK_SECONDS_FIRST
    is_noted = False
    while time.monotonic() < deadline:
        server = named_server(folder)
        if server is not None:
            try:
                return join(server)
            except ServerUnavailableError as error:
                last_error = error
        if not start_server(folder, deadline, settings):
            # Another process's server has locked the folder.
            other = other_server(folder)
            if other is not None and answers(other):
                raise EmbeddedServerError(
                    f"a rowlock-server serves the folder {folder} at {other.address}; use "
                    f"rowlock.connect({other.address!r})"
                )
            # It will soon accept clients, or end.
            if not is_noted and time.monotonic() - began_at >= _NOTE_AFTER_SECONDS:
                is_noted = True
                logger.warning(
                    "waiting up to %g s for the server that another process runs on %s; if it is a rowlock-server with "
                    "an address of its own, use rowlock.connect(address)",
                    START_SECONDS_MAX,
                    folder,
                )
            _wait_for_address(folder, min(deadline, time.monotonic() + look_s))
            look_s = min(2 * look_s, _LOOK_SECONDS_MAX)
    raise EmbeddedServerError(
        f"another process's server has the folder {folder} and could not be reached within {START_SECONDS_MAX:g} s"
        + (f" ({last_error})" if last_error is not None else "")
        + "; if it is a rowlock-server with an address of its own, use rowlock.connect(address)"
    )


def named_server(folder: Path) -> FolderServer | None:
    """Returns the server that the folder names; None if it names none at this moment.

    Raises EmbeddedServerError if another user could have written the files.
    """
    folder = folder.resolve()
    server = _server_of(folder, ADDRESS_FILE, 0)
    if server is None or not server.address.startswith(PREFIX):
        return server
    # The socket is in the folder, even if the server knows the folder by another path.
    return FolderServer(f"{PREFIX}{folder / Path(server.address).name}", server.folder_id)


def other_server(folder: Path) -> FolderServer | None:
    """Returns the rowlock-server with an address of its own that serves the folder, or did; None for none.

    None also for a folder that can't be read or is not ours: the server that is started next says what is wrong.
    """
    try:
        return _server_of(folder.resolve(), LOCK_FILE, 1)
    except EmbeddedServerError:
        return None


def _server_of(folder: Path, name: str, line_number: int) -> FolderServer | None:
    """Returns the server whose address is this line of a file of the folder."""
    try:
        # Through one descriptor, so that the folder that is checked is the one that is read.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            lines = _read(name, descriptor).splitlines()
            line = _FORMAT_LINE.fullmatch(_read(FORMAT_FILE, descriptor))
            is_ours = _is_ours(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EmbeddedServerError(f"can't find the server of {folder}: {error}") from error
    if not is_ours:
        raise EmbeddedServerError(
            f"other users can write to the folder {folder}, or own it, so they could direct clients to a server of "
            f"theirs; run 'chown' and 'chmod go-w {folder}', or use another folder"
        )
    address = lines[line_number].strip() if len(lines) > line_number else ""
    return FolderServer(address, line[1]) if address and line is not None else None


def _is_ours(status: os.stat_result) -> bool:
    """Returns whether only this user and root can write to the folder."""
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


def start_server(folder: Path, deadline: float, settings: Sequence[str]) -> bool:
    """Starts a server and blocks until it is ready. Returns False if another server has the folder.

    settings: of the server, each as NAME=VALUE. Raises EmbeddedServerError, with the server's last line of output,
    if it ended otherwise or was not ready in time, and at once if only the client is installed.
    """
    missing = missing_server_modules()
    if missing:
        raise EmbeddedServerError(
            f"rowlock.open starts a server on {folder}, and this Python has no {', '.join(missing)}, which only the "
            f"server needs; run {ADVICE}"
        )
    # A file, not a pipe: the server outlives this process and may write to stderr later.
    configured = [f"--config={setting}" for setting in settings]
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowlock_regionserver", "--data", os.fspath(folder), "--embedded", *configured],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        assert process.stdout is not None, "stdout=PIPE was passed"
        with process.stdout as output:
            line = _first_line(output, deadline)
        if line:
            # The server may outlive this process. Until then a thread waits for its end, or it would become a zombie.
            threading.Thread(target=process.wait, name="rowlock server", daemon=True).start()
            return True
        if line is None:
            process.kill()
        exit_code = process.wait()
        if exit_code == _FOLDER_IN_USE:
            return False
        stderr.seek(0)
        last = stderr.read().decode(errors="backslashreplace").strip().splitlines()[-1:]
        raise EmbeddedServerError(
            f"the server on {folder} "
            + (f"ended with code {exit_code}" if line is not None else "was not ready in time")
            + (f": {last[0]}" if last else "")
            + ("" if line is not None else "; if another rowlock-server has the folder, use rowlock.connect(address)")
        )


def _first_line(output: IO[bytes], deadline: float) -> bytes | None:
    """Returns the first line of a process's output; empty if it ended without one, None at the deadline."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            return None
    return output.readline()
