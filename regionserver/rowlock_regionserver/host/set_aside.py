"""The folder `set-aside`: unnamed files that are not proven to be leftovers are moved there, each with a note.

    region-5                               the folder of a region
    region-5-2-000000000007.store          a store file of region 5
    region-5.txt, ...                      when and why each was set aside

Only people read its files. `rowlock-server remove-set-aside` removes them.
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
    """A file or folder that was set aside, and the text of its note."""

    path: Path
    note: str

    @property
    def note_path(self) -> Path:
        """The path of the note, even if there is none."""
        return self.path.with_name(self.path.name + _NOTE_SUFFIX)


def set_aside(folder: Path, files: Files, clock: Clock, unnamed: Unnamed, region_id: int) -> SetAside:
    """Moves an unnamed file or folder to `set-aside`, durably. Raises OSError, after which it was not moved."""
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
    # Its name becomes durable together with the file's: after a crash between the two, a note alone is harmless.
    write_synced(files, aside.note_path, f"{aside.note}\n".encode(errors="backslashreplace"))
    files.rename(unnamed.path, aside.path)
    files.fsync_folder(target)
    files.fsync_folder(unnamed.path.parent)
    return aside


def list_set_aside(folder: Path, files: Files) -> list[SetAside]:
    """Lists the data folder's `set-aside`, by name. Raises OSError."""
    try:
        names = files.list_folder(folder / SET_ASIDE)
    except FileNotFoundError:
        return []
    notes = {name for name in names if name.endswith(_NOTE_SUFFIX) and name.removesuffix(_NOTE_SUFFIX) in names}
    asides = (SetAside(folder / SET_ASIDE / name, "") for name in names if name not in notes)
    return [SetAside(aside.path, _note(aside.note_path, files)) for aside in asides]


def remove_set_aside(folder: Path, files: Files) -> Iterator[SetAside]:
    """Removes everything in `set-aside` one by one, and yields what it has removed. Raises OSError."""
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
        return "the reason is not recorded"


def _remove(files: Files, path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        files.remove_if_there(path)
        return
    for name in files.list_folder(path):
        _remove(files, path / name)
    files.remove_folder(path)
