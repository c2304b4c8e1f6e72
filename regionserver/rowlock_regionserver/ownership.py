"""Ownership of the data folder: refuses a folder into which another user could have put a file or a symbolic link.

A server writes, truncates and removes files by their names. In a folder that another user may write to, such a name
can be a link to any file of the server's user. So a data folder must belong to the user of the server, or to root, who
can do everything anyway; no other user may write to it or to a folder in it; and it contains no link. Then only that
user can change this while the server runs. The folders above it are not checked.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.errors import DataFolderError

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ACCEPT = "or use --insecure if all users who can write to it may read and change everything"


def close_to_others(descriptor: int) -> None:
    """Removes the write permission of other users from an open folder, if this user owns it."""
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)


def check_own(path: Path, status: os.stat_result) -> None:
    """Raises DataFolderError when the folder of this status belongs to another user, or others may write to it."""
    if status.st_uid not in (os.geteuid(), 0):
        raise DataFolderError(
            f"{path} belongs to user {status.st_uid}, who could direct this server, which user {os.geteuid()} runs, to "
            f"any file; run it as that user, or 'chown -R' the folder, {_ACCEPT}"
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise DataFolderError(
            f"users other than its owner may write to {path} (mode {stat.S_IMODE(status.st_mode):03o}), and could "
            f"direct this server to any file; run 'chmod go-w {path}', or name a new folder, {_ACCEPT}"
        )


def check_contents(path: Path, *, is_shared: bool) -> None:
    """Raises DataFolderError for a link below the folder and, unless it is shared, for a folder of another user.

    Takes a microsecond or two for each file.
    """
    for entry in _entries(path):
        if entry.is_symlink():
            raise DataFolderError(
                f"{entry.path} is a symbolic link, which could direct this server to any file, so it follows no links "
                "in a data folder; replace the link by its target, or by a mount"
            )
        if entry.is_dir(follow_symlinks=False) and not is_shared:
            check_own(Path(entry.path), entry.stat(follow_symlinks=False))


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """Yields everything below the folder. Skips folders without read permission, which the server can't use either."""
    folders = [os.fspath(path)]
    while folders:
        with contextlib.suppress(PermissionError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
