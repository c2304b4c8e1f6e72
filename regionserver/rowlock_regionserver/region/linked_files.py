"""The store files of a new region: hard links to those of the regions whose rows it takes over.

Linking and opening files takes most of the time of a split, so they are linked while the old regions still take writes,
and again when nothing is written any more: then only the files of the last flush are new.

1. A link is of one file of one old region, under the same number, or a free one if two old regions have used it.
2. `follow` makes the links those of the files that are live now. A file that a compaction has replaced meanwhile has no
   link afterwards: its cells are in another one, and the new region would not know that it is to be removed.
3. Files that are linked already are not opened again, unless their entry has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.clipping import clipped_info
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile

# By family number, newest first.
LiveStoreFiles = Mapping[int, Sequence[StoreFile]]


@dataclass(frozen=True, slots=True)
class _Link:
    """A link in the new folder, and the file that was opened by it."""

    family_number: int
    file: StoreFile


class LinkedFiles:
    """The links in one new folder. For one thread at a time."""

    def __init__(self, folder: Path, bounds: tuple[bytes, bytes], shared: SharedParts) -> None:
        """`folder` is empty. `bounds`: start and stop of the new region."""
        self.folder = folder
        self.bounds = bounds
        self._shared = shared
        self._links: dict[Path, _Link] = {}  # by the path in the old region's folder
        self._greatest_number = 0

    def follow(self, olds: Sequence[LiveStoreFiles]) -> dict[int, tuple[StoreFileInfo, ...]]:
        """Links what has rows of the new region, and removes other links. Returns the new files by family number.

        `olds`: the live files of the old regions, in row order, which stay on the disk meanwhile. The links are durable
        when the folder is synced. Raises DataFolderError and OSError.
        """
        self._greatest_number = max(
            [self._greatest_number, *(file.info.number for old in olds for files in old.values() for file in files)]
        )
        stale = set(self._links)
        infos: dict[int, tuple[StoreFileInfo, ...]] = {}
        for old in olds:
            for family_number, files in old.items():
                for file in files:
                    info = clipped_info(file, *self.bounds)
                    if info is None:
                        continue
                    if len(olds) > 1:
                        info = replace(info, is_base=False)
                    stale.discard(file.path)
                    link = self._linked(family_number, file, info)
                    infos[family_number] = (*infos.get(family_number, ()), link.file.info)
        for path in stale:
            self._shared.files.remove(self._links.pop(path).file.path)
        return infos

    def opened(self) -> Mapping[Path, StoreFile]:
        """Returns the files by their paths in the new folder."""
        return {link.file.path: link.file for link in self._links.values()}

    def new_number(self) -> int:
        """Returns a number that no file of the old regions has, nor one of the new region."""
        self._greatest_number += 1
        return self._greatest_number

    def _linked(self, family_number: int, file: StoreFile, info: StoreFileInfo) -> _Link:
        """Returns the link to the file. Makes and opens it, or opens it again if its entry has changed."""
        shared, link = self._shared, self._links.get(file.path)
        if link is None:
            number = info.number
            if any(
                each.family_number == family_number and each.file.info.number == number for each in self._links.values()
            ):
                number = self.new_number()
            target = store_file_path(self.folder, family_number, number)
            shared.files.link(file.path, target)
        else:
            number, target = link.file.info.number, link.file.path
        if number != info.number:
            info = replace(info, number=number, written_number=info.header_number)
        if link is None or link.file.info != info:
            link = _Link(family_number, file.linked(target, info, shared.cache, shared.open_files))
            self._links[file.path] = link
        return link
