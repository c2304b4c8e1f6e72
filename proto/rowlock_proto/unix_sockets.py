"""Unix sockets as addresses: `unix:PATH`, as users write it, and the target name for gRPC.

The system limits a socket's path to 107 bytes (macOS 103), and gRPC takes a comma for the end of a path. If the path is
longer, or has other than plain characters, the socket gets a short name through its folder: an open descriptor of the
folder where /proc lists descriptors, else a link to the folder in a temporary folder of our own.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from urllib.parse import quote

PREFIX = "unix:"

_PATH_BYTES_MAX = 100
# A longer name would make the short path too long again.
_NAME_BYTES_MAX = 60
_PLAIN = re.compile(r"[A-Za-z0-9_./+~-]+")
_DESCRIPTORS = "/proc/self/fd"


def socket_path(address: str) -> str:
    """Returns the absolute path of `unix:PATH`; a relative PATH starts at the current folder. Raises ValueError."""
    path = address.removeprefix(PREFIX)
    if path.startswith("//"):
        path = "/" + path.lstrip("/")  # unix:///PATH, as URLs are written
    if not address.startswith(PREFIX) or not path.strip("/") or "\0" in path:
        raise ValueError(f"{address!r} is not the address of a Unix socket; that is 'unix:PATH'")
    return os.path.abspath(path)


class SocketName:
    """A name of a socket that the system and gRPC accept; valid until `close`. Not thread-safe."""

    def __init__(self, path: str, descriptors: str = _DESCRIPTORS) -> None:
        """`path` is absolute. `descriptors`: the folder in which the system shows open ones, if it does.

        The socket need not exist, its folder must: else OSError. Raises ValueError if the socket's own name is too
        long or has a comma.
        """
        self._descriptors = descriptors
        self._folder: int | None = None
        self._link: str | None = None
        if len(os.fsencode(path)) <= _PATH_BYTES_MAX and _PLAIN.fullmatch(path):
            self.path = path
            return
        folder, name = os.path.split(path)
        if "," in name or len(os.fsencode(name)) > _NAME_BYTES_MAX:
            raise ValueError(f"{name!r} can't name a socket: it has a comma, or more than {_NAME_BYTES_MAX} bytes")
        self.path = f"{self._short(folder)}/{name}"

    @property
    def target(self) -> str:
        """The target name for gRPC."""
        return PREFIX + quote(self.path)

    def _short(self, folder: str) -> str:
        if os.path.isdir(self._descriptors):
            self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            return f"{self._descriptors}/{self._folder}"
        os.stat(folder)
        self._link = tempfile.mkdtemp(prefix="rowlock-", dir=_short_temporary_folder())
        os.symlink(folder, f"{self._link}/folder")
        return f"{self._link}/folder"

    def close(self) -> None:
        """Frees the name. Existing connections stay. Idempotent."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(OSError):
                os.unlink(f"{link}/folder")
                os.rmdir(link)


def _short_temporary_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _NAME_BYTES_MAX // 2 and _PLAIN.fullmatch(folder) else "/tmp"
