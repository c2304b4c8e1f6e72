"""The embedded server: clients find it through its folder, and it stops after the last one has disconnected.

1. It listens on the Unix sockets `socket` and `direct` in the folder and has no port. Programs of other users can't
   connect: folder and sockets belong to its user alone.
2. `address` in the folder holds unix:PATH and a line end, 0600. It exists, complete, only while the server accepts
   clients: a rename makes it after the server begins to, and it is removed before the server stops doing so. One that a
   killed server left is removed by the next server, which holds the folder's lock. A client takes the name of the
   socket from it, and its own path of the folder: a folder may be moved, or have another path in another container.
3. A client counts as connected while it has a direct connection or an active call, so as long as its point stream is
   open, however it ends. When there was no client for the linger time, the server stops.
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

# The process that started the server needs a moment until it connects.
FIRST_CLIENT_SECONDS = 10.0


class AddressFile:
    """The file `address` of a data folder. The caller holds the folder's lock."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / ADDRESS
        self._files = files

    def write(self, address: str) -> None:
        """Publishes the address for clients; blocks on the disk."""
        replace_file(self._files, self._path, os.fsencode(f"{address}\n"))

    def remove(self) -> None:
        """Removes the address: no server accepts clients."""
        self._files.remove_if_there(self._path)


class Presence:
    """Whether a client is connected; calls `when_over` after the linger time without one. For the event loop."""

    def __init__(self, linger_seconds: float | None, when_over: Callable[[], None]) -> None:
        self.is_idle = asyncio.Event()  # set while no client is connected
        self.is_idle.set()
        self._linger_seconds = linger_seconds
        self._when_over = when_over
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._open_count = 0

    def begin(self) -> None:
        """Clients are accepted from now on; earlier ones were refused with a retry."""
        self._has_begun = True
        if self._linger_seconds is not None and self.is_idle.is_set():
            self._timer = self._loop.call_later(max(self._linger_seconds, FIRST_CLIENT_SECONDS), self._when_over)

    def counter(self) -> Callable[[int], None]:
        """Returns a function that sets the number of clients of one kind."""
        count = 0

        def set_count(new_count: int) -> None:
            nonlocal count
            change, count = new_count - count, new_count
            self._count_changed(change)

        return set_count

    def _count_changed(self, change: int) -> None:
        self._open_count += change
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open_count:
            self.is_idle.clear()
            return
        self.is_idle.set()
        if self._linger_seconds is not None and self._has_begun:
            self._timer = self._loop.call_later(self._linger_seconds, self._when_over)
