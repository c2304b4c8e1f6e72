"""A server that belongs to the clients of its folder: they find it there, and it ends after the last one.

1. It listens on the Unix socket `socket` in the folder, so that nobody else's programs reach it: the folder and the
   socket are its user's alone. It has no port.
2. `address` in the folder holds unix:PATH and a line end, 0600. It is there, whole, only while the server lets clients
   in: it appears by a rename once it does, and goes before it stops doing so. One that a killed server left behind is
   removed by the next one, which alone holds the folder's lock. A client takes the name of the socket from it, and its
   own path of the folder: a folder may be moved, or have another path in another container.
3. A client counts for as long as a call of its is under way, so for as long as it keeps its point stream open, however
   it ends. When none was there for the linger, the server stops.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from rowlock_regionserver.durable_files import replace_file
from rowlock_regionserver.files import Files

ADDRESS = "address"
SOCKET = "socket"

# Whoever started the server needs a moment until it connects.
FIRST_CLIENT_SECONDS = 10.0


class AddressFile:
    """Where the folder says who serves it. The caller holds the folder's lock."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / ADDRESS
        self._files = files

    def write(self, address: str) -> None:
        """Tells clients the address; blocks on the disk."""
        replace_file(self._files, self._path, os.fsencode(f"{address}\n"))

    def remove(self) -> None:
        """Tells clients that nobody serves the folder."""
        self._files.remove_if_there(self._path)


class Presence:
    """Knows whether a client is there, and with a linger tells when nobody was for that long. For the event loop."""

    def __init__(self, linger_seconds: float | None, when_over: Callable[[], None]) -> None:
        self.nobody = asyncio.Event()  # set while no call is under way
        self.nobody.set()
        self._linger_seconds = linger_seconds
        self._when_over = when_over
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Clients may come from now on; those that came before were told to wait."""
        self._has_begun = True
        if self._linger_seconds is not None and self.nobody.is_set():
            self._timer = self._loop.call_later(max(self._linger_seconds, FIRST_CLIENT_SECONDS), self._when_over)

    def count_changed(self, open_count: int) -> None:
        """So many calls are under way now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if open_count:
            self.nobody.clear()
            return
        self.nobody.set()
        if self._linger_seconds is not None and self._has_begun:
            self._timer = self._loop.call_later(self._linger_seconds, self._when_over)
