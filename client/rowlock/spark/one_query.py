"""All queries of a DataFrame that pushes filters are read by those of the first one; what that would lose is refused.

Spark keeps what the last query pushed with the load()ed table, and a scan that it plans meanwhile or later may read by
another query's filters. So that this loses no rows:

1. The first query that is planned decides which filters may be pushed: all of its own.
2. Of a later one only these are pushed, in the same order, so that the server takes the same of them and Spark may
   read by the one's plan or the other's. What it has besides, Spark evaluates.
3. A later one that lacks a filter of the first is refused: it may be read by that filter.

The planning of each scan runs in a Python process of its own, on the driver's machine; a small file there, named by
the DataFrame's id, remembers the filters of the first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from rowlock.errors import InvalidArgumentError

# Long after any DataFrame is used.
_KEPT_S = 7 * 86_400.0


def pushable(frame_id: bytes, filters: Collection[str], folder: Path | None = None) -> list[str]:
    """Those of a query's filters that may be pushed, sorted; raises InvalidArgumentError for a query to be refused.

    frame_id: the DataFrame's. filters: in words, all that the query has; none stands for a scan that pushes nothing.
    """
    # A filter may hold what is nobody's business, or be long.
    by_hash = {hashlib.sha256(words.encode()).hexdigest(): words for words in sorted(filters)}
    try:
        first = _first_pushed(frame_id, "\n".join(by_hash), folder).split()
    except OSError as error:
        raise InvalidArgumentError(
            f"the option pushdown=true notes on the driver's machine what was pushed, and can't: {error}. Set TMPDIR "
            "to a folder that can be written to, or leave pushdown out"
        ) from None
    if not by_hash.keys() >= set(first):
        raise InvalidArgumentError(
            "a DataFrame with the option pushdown=true is read by the filters of its first query, and this one lacks "
            "some of them: PySpark would let it lose rows. Call spark.read...load() once for each query that filters "
            "in its own way, or leave pushdown out and use the options start, stop, prefix and where, which hold for "
            "every query of a DataFrame"
        )
    return [by_hash[one] for one in by_hash if one in first]


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
