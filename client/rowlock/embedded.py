"""The private server of a folder: found through the folder, or started there.

1. `folder/address` names a server that lets clients in. Whoever reaches it has joined; nothing else is done.
2. Otherwise a server process is started on the folder, in a session of its own. The server takes the folder by an
   flock, so of several started at once one wins, writes `address` and prints a line; the others exit with code 2.
3. Whoever's process exited with 2 joins the winner: back to 1, until the time is over.

Nothing here trusts a process id, and a stale `address` only costs one refused connection.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from rowlock.errors import EmbeddedServerError, ServerUnavailableError

C = TypeVar("C")

ADDRESS_FILE = "address"
# Recovery of a large log takes its time.
START_SECONDS_MAX = 120.0
_FOLDER_IN_USE = 2
_RETRY_SECONDS = 0.05


def running_server(folder: Path, join: Callable[[str], C]) -> C:
    """What `join` makes of the address of the folder's server, started if need be.

    `join` raises ServerUnavailableError for an address where nobody answers. Raises EmbeddedServerError when no server
    can be started or reached.
    """
    deadline = time.monotonic() + START_SECONDS_MAX
    met: Exception | None = None
    while time.monotonic() < deadline:
        address = read_address(folder)
        if address is not None:
            try:
                return join(address)
            except ServerUnavailableError as error:
                met = error
        started = start_server(folder, deadline)
        if started is not None:
            return join(started)
        # Another process's server has the folder, and is about to let clients in, or to end.
        time.sleep(_RETRY_SECONDS)
    raise EmbeddedServerError(
        f"a server has the folder {folder}, and could not be reached within {START_SECONDS_MAX:g} s"
        + (f": {met}" if met is not None else "")
    )


def read_address(folder: Path) -> str | None:
    """The address of the folder's server, None when it has none at this moment."""
    try:
        return (folder / ADDRESS_FILE).read_text().strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EmbeddedServerError(f"{folder / ADDRESS_FILE} can't be read: {error}") from error


def start_server(folder: Path, deadline: float) -> str | None:
    """Starts a server and blocks until it is ready; its address, or None if another one has the folder.

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
            return read_address(folder)
        if line is None:
            process.kill()
        exit_code = process.wait()
        if exit_code == _FOLDER_IN_USE and read_address(folder) is not None:
            return None
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
