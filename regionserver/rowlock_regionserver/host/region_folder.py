"""The folder of a region: where it lies, how it goes, and how there is room for a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import Unnamed
from rowlock_regionserver.host.set_aside import set_aside
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


def room_for_region(folder: Path, shared: SharedParts, region_id: int, made: set[int]) -> Path:
    """Where a new region's folder goes; nothing is there any more. Raises OSError.

    `made`: the regions that this server has tried to make; this one is added. What an earlier try left is removed. What
    else has the name was left by a start that could not move it, and is set aside now.
    """
    path = region_folder(folder, region_id)
    if region_id in made:
        remove_region_folder(shared.files, path)
    elif path.name in shared.files.list_folder(path.parent):
        unnamed = Unnamed(path, "the catalog does not name it, and a new region has its id", is_leftover=False)
        set_aside(folder, shared.files, shared.clock, unnamed, region_id)
    made.add(region_id)
    return path
