"""Removes files that nothing names any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files


def remove_unneeded(files: Files, paths: Iterable[Path]) -> None:
    """Removes files, if they are there. One that can't be removed stays until the next start of the server."""
    for path in paths:
        with contextlib.suppress(OSError, RegionServerError, MemoryError):
            files.remove_if_there(path)
