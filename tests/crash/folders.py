"""Folders of a campaign's own, gone when it is done with them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A fresh folder, in memory where the system has a place for that: these campaigns need no real disk."""
    root = Path(tempfile.mkdtemp(prefix="rowlock-crash-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def copied(source: Path, target: Path) -> Path:
    """A copy of a data folder, flat files and folders only."""
    shutil.copytree(source, target)
    return target
