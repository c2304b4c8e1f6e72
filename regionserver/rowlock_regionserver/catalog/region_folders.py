"""The folders of regions in the data folder: where they are, how their place is cleared, and how they are removed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from rowlock_regionserver.catalog.leftovers import Unnamed, holds_what_a_create_makes
from rowlock_regionserver.catalog.set_aside import set_aside
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.shared_parts import SharedParts


def region_folder(folder: Path, region_id: int) -> Path:
    """Where the data folder keeps a region."""
    return folder / "regions" / str(region_id)


def remove_region_folder(files: Files, folder: Path, but: Collection[Path] = ()) -> None:
    """Removes what nobody names any more, if it is there. What can't be removed is left to the next start.

    `but`: files that are removed by who reads them last, and the folder with the last of them.
    """
    with contextlib.suppress(OSError):
        for name in files.list_folder(folder):
            if folder / name not in but:
                files.remove_if_there(folder / name)
        files.remove_folder(folder)


def cleared_place(folder: Path, region_id: int, shared: SharedParts) -> Path:
    """Where a region is about to be made. What an earlier try left there is removed, anything else is set aside.

    Raises OSError, and then what was there is still there.
    """
    path = region_folder(folder, region_id)
    try:
        is_leftover = holds_what_a_create_makes(path, shared.files)
    except FileNotFoundError:
        return path
    if is_leftover:
        remove_region_folder(shared.files, path)
    else:
        unnamed = Unnamed(path, "a new region was given its id", is_leftover=False)
        set_aside(folder, shared.files, shared.clock, unnamed, region_id)
    return path
