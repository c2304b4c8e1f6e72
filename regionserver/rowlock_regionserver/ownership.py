"""Whether a folder is ours alone: who else could have put something into it, a symbolic link above all.

A server writes, truncates and removes files by their names. In a folder that somebody else may write to, such a name
can be a link to any file of the server's user. So a data folder belongs to the user of the server, or to root, who can
do everything anyway; nobody else may write to it or to a folder in it; and nothing in it is a link. Then nobody but
that user can change this while the server runs. The folders above it are not looked at.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.errors import DataFolderError

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ACCEPT = "or say --insecure if everybody who can write to it may read and change everything"


def close_to_others(descriptor: int) -> None:
    """Takes the right to write to an open folder from everybody but its owner, where that is us."""
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)


def check_own(path: Path, status: os.stat_result) -> None:
    """Raises DataFolderError when the folder of this status belongs to somebody else, or others may write to it."""
    if status.st_uid not in (os.geteuid(), 0):
        raise DataFolderError(
            f"{path} belongs to user {status.st_uid}, who could lead this server, which user {os.geteuid()} runs, to "
            f"any file; run it as that user, or 'chown -R' the folder, {_ACCEPT}"
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise DataFolderError(
            f"others than its owner may write to {path} (mode {stat.S_IMODE(status.st_mode):03o}), and could lead this "
            f"server to any file; run 'chmod go-w {path}', or name a new folder, {_ACCEPT}"
        )


def check_contents(path: Path, *, is_shared: bool) -> None:
    """Raises DataFolderError for a link anywhere below the folder and, unless it is shared, for a folder not ours.

    Takes a microsecond or two for each file.
    """
    for entry in _entries(path):
        if entry.is_symlink():
            raise DataFolderError(
                f"{entry.path} is a symbolic link, which could lead this server to any file, so it follows none in a "
                "data folder; move there what it points to, or mount it there"
            )
        if entry.is_dir(follow_symlinks=False) and not is_shared:
            check_own(Path(entry.path), entry.stat(follow_symlinks=False))


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below the folder, as far as it can be read; what can't be read can't be used either."""
    folders = [os.fspath(path)]
    while folders:
        with contextlib.suppress(PermissionError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
