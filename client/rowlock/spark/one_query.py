"""A DataFrame that pushes filters serves one filtered query: others are refused where they can be seen.

Spark keeps what the last query pushed with the load()ed table, and a scan that it plans meanwhile or later may read by
another query's filters, so lose rows. The planning of each scan runs in a Python process of its own, on the driver's
machine; a small file there, named by the DataFrame's id, remembers what the first scan pushed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

from rowlock.errors import InvalidArgumentError

# Long after any DataFrame is used.
_KEPT_S = 7 * 86_400.0


def check_one_query(frame_id: bytes, filters: list[str], folder: Path | None = None) -> None:
    """Raises InvalidArgumentError if other filters were pushed for the DataFrame of this id before.

    filters: in words, in any order; none stands for a scan that pushes nothing.
    """
    pushed = hashlib.sha256("\n".join(sorted(filters)).encode()).hexdigest()
    try:
        first = _first_pushed(frame_id, pushed, folder)
    except OSError as error:
        raise InvalidArgumentError(
            f"the option pushdown=true notes on the driver's machine what was pushed, and can't: {error}. Set TMPDIR "
            "to a folder that can be written to, or leave pushdown out"
        ) from None
    if first != pushed:
        raise InvalidArgumentError(
            "a DataFrame with the option pushdown=true serves one filtered query, and this is another one: PySpark "
            "would let it lose rows. Call spark.read...load() once for each query that filters, or leave pushdown out "
            "and use the options start, stop, prefix and where, which hold for every query of a DataFrame"
        )


def _first_pushed(frame_id: bytes, pushed: str, folder: Path | None) -> str:
    """What was pushed first for the DataFrame of this id, which may be this."""
    place = _private_folder() if folder is None else folder
    path = place / frame_id.hex()
    with contextlib.suppress(FileExistsError):
        _forget_old(place)
        _write_new(path, pushed)
    return path.read_text()


def _write_new(path: Path, text: str) -> None:
    """Whole or not at all, and never over one that is there: FileExistsError."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as made:
        made.write(text)
    try:
        os.link(made.name, path)
    finally:
        os.unlink(made.name)


def _private_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"rowlock-pushdown-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    # Of a link itself: it could lead to a folder of the user's where the old files are no notes.
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise InvalidArgumentError(
            f"{folder} is no folder or belongs to another user; remove it, or set TMPDIR to a folder of your own"
        )
    return folder


def _forget_old(folder: Path) -> None:
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()
