"""Temporary folders of a campaign."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Creates a folder, in memory if the system supports it, because these campaigns need no real disk."""
    root = Path(tempfile.mkdtemp(prefix="rowlock-crash-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def copied(source: Path, target: Path) -> Path:
    """Copies a data folder, which has only flat files and folders."""
    shutil.copytree(source, target)
    return target
