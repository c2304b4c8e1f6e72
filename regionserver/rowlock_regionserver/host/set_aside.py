"""The folder `set-aside`: what nobody names and is no leftover by proof, moved there with the reason beside it.

    region-5                               the folder of a region
    region-5-2-000000000007.store          a store file of region 5
    region-5.txt, ...                      when and why each was set aside

Nothing in it is read again but by people. `rowlock-server remove-set-aside` removes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.durable_files import write_synced
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import Unnamed

SET_ASIDE = "set-aside"
_NOTE_SUFFIX = ".txt"


@dataclass(frozen=True, slots=True)
class SetAside:
    """One thing that was set aside, and what its note says."""

    path: Path
    note: str

    @property
    def note_path(self) -> Path:
        """Where the note lies, whether or not there is one."""
        return self.path.with_name(self.path.name + _NOTE_SUFFIX)


def set_aside(folder: Path, files: Files, clock: Clock, unnamed: Unnamed, region_id: int) -> SetAside:
    """Moves it out of the data folder's way; durable when this returns. Raises OSError, and then it is where it was."""
    target = folder / SET_ASIDE
    with contextlib.suppress(FileExistsError):
        files.make_folder(target)
        files.fsync_folder(folder)
    name = f"region-{region_id}" if unnamed.path.name == str(region_id) else f"region-{region_id}-{unnamed.path.name}"
    there = set(files.list_folder(target))
    number = 1
    while (moved := name if number == 1 else f"{name}.{number}") in there:
        number += 1
    when = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    aside = SetAside(target / moved, f"{when}: {unnamed.path} was set aside: {unnamed.why}")
    # Its name is durable with that of what it is about: after a crash between the two, a note alone says nothing wrong.
    write_synced(files, aside.note_path, f"{aside.note}\n".encode())
    files.rename(unnamed.path, aside.path)
    files.fsync_folder(target)
    files.fsync_folder(unnamed.path.parent)
    return aside


def list_set_aside(folder: Path, files: Files) -> list[SetAside]:
    """Everything in the data folder's `set-aside`, by name. Raises OSError."""
    try:
        names = files.list_folder(folder / SET_ASIDE)
    except FileNotFoundError:
        return []
    notes = {name for name in names if name.endswith(_NOTE_SUFFIX) and name.removesuffix(_NOTE_SUFFIX) in names}
    asides = (SetAside(folder / SET_ASIDE / name, "") for name in names if name not in notes)
    return [SetAside(aside.path, _note(aside.note_path, files)) for aside in asides]


def remove_set_aside(folder: Path, files: Files) -> Iterator[SetAside]:
    """Removes it all for good, one by one, and gives what is removed. Raises OSError."""
    for aside in list_set_aside(folder, files):
        _remove(files, aside.path)
        files.remove_if_there(aside.note_path)
        yield aside
    with contextlib.suppress(FileNotFoundError):
        files.remove_folder(folder / SET_ASIDE)


def _note(path: Path, files: Files) -> str:
    try:
        return files.read(path).decode(errors="replace").strip()
    except OSError:
        return "nothing says why"


def _remove(files: Files, path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        files.remove_if_there(path)
        return
    for name in files.list_folder(path):
        _remove(files, path / name)
    files.remove_folder(path)
