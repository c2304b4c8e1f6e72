"""The folder of a region: its path, its removal, and the preparation for a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from rowlock_regionserver.errors import TooManyOpenFilesError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import Unnamed
from rowlock_regionserver.host.set_aside import set_aside
from rowlock_regionserver.region.shared_parts import SharedParts


def region_folder(folder: Path, region_id: int) -> Path:
    """The path of a region's folder in the data folder."""
    return folder / "regions" / str(region_id)


def remove_region_folder(files: Files, folder: Path, but: Collection[Path] = ()) -> None:
    """Removes the folder of a region that no catalog names any more. The next start removes what can't be removed.

    `but`: files that their last reader removes, and the folder with the last of them.
    """
    with contextlib.suppress(OSError, TooManyOpenFilesError):
        for name in files.list_folder(folder):
            if folder / name not in but:
                files.remove_if_there(folder / name)
        files.remove_folder(folder)


def free_region_path(folder: Path, shared: SharedParts, region_id: int, made: set[int]) -> Path:
    """Frees and returns the path of a new region's folder. Raises OSError.

    `made`: the regions that this server has tried to make; this one is added. Removes the files of an earlier attempt.
    Sets anything else of that name aside: a start could not move it.
    """
    path = region_folder(folder, region_id)
    if region_id in made:
        remove_region_folder(shared.files, path)
    elif path.name in shared.files.list_folder(path.parent):
        unnamed = Unnamed(path, "the catalog does not name it, and a new region has its id", is_leftover=False)
        set_aside(folder, shared.files, shared.clock, unnamed, region_id)
    made.add(region_id)
    return path
