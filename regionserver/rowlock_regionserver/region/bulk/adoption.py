"""The store files that a region adopts in one commit of a bulk write. docs/bulk_writes.md, "Large writes".

link      before the gates: the files of a spill get a second name, in the region's folder
prepare   with the gate held, and everything flushed: the files get their write numbers, and the manifest names them on
          condition of the commit
adopt     the commit is durable: readers see the files when the read point moves over their numbers
withdraw  there is no commit: the files are removed, and the next manifest does not name them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.process_limits import memory_error_final
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_segments import segments_of
from rowlock_regionserver.region.bulk.spilled import SpilledRun, write_segments
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.clipping import clipped_info
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.unneeded_files import remove_unneeded


@dataclass(frozen=True, slots=True)
class _LinkedRun:
    """A run in the region's folder. timestamp: of all cells, 0: they have their own; None: the stamp of the commit."""

    number_count: int
    timestamp: int | None
    files: tuple[tuple[int, StoreFileInfo], ...]  # by family number


class Adoption:
    """For one region and one commit, by one thread."""

    def __init__(self, parts: RegionParts) -> None:
        self._parts = parts
        self._live_files = parts.live_files
        self._runs: list[_LinkedRun] = []  # the oldest first
        self._paths: list[Path] = []  # what `withdraw` removes
        self._files: dict[int, tuple[StoreFile, ...]] = {}  # by family number, newest first
        self._is_prepared = False

    @property
    def folder(self) -> Path:
        """The region's folder."""
        return self._live_files.folder

    @property
    def has_files(self) -> bool:
        """Whether there is something to adopt."""
        return bool(self._runs)

    def link(self, folder: Path, run: SpilledRun) -> None:
        """Gives the files of a run, which is newer than those before, names in the region's folder.

        Only those that may have rows of the region. Raises OSError and CorruptionError.
        """
        files = []
        for family_number, written in run.files:
            path = store_file_path(folder, family_number, written.number)
            try:
                info = self._clipped(path, written, run)
                if info is not None:
                    files.append((family_number, replace(info, number=self._new_number(family_number), made_ms=0)))
                    self._parts.shared.files.link(path, self._paths[-1])
            except FileNotFoundError as error:
                raise CorruptionError.missing(path, "a store file of a bulk write", "no file") from error
        if files:
            self._runs.append(_LinkedRun(run.number_count, None if run.is_stamped else 0, tuple(files)))

    def _clipped(self, path: Path, written: StoreFileInfo, run: SpilledRun) -> StoreFileInfo | None:
        """Returns the entry of a file for the region; None if it has no rows of it."""
        start, stop = self._parts.start, self._parts.stop
        info = replace(written, written_number=written.number)
        if start <= run.first_row and (not stop or run.last_row < stop):
            return info
        shared = self._parts.shared
        return clipped_info(StoreFile.open(path, info, shared.cache, shared.open_files), start, stop)

    def _new_number(self, family_number: int) -> int:
        number = self._live_files.new_file_number()
        self._paths.append(self._live_files.path_of(family_number, number))
        return number

    def hide(self, tombstones: FamilyParts, timestamp: int) -> None:
        """Writes tombstones as files, which are older than all others. Raises DiskFullError and OSError."""
        files = []
        for family_number, segment in segments_of(tombstones, 1, timestamp):
            number = self._new_number(family_number)
            family = self._parts.stores.of(family_number).family
            shared = self._parts.shared
            info = write_segments(self._paths[-1], [segment], family, number, shared.files, shared.config)
            files.append((family_number, info))
        self._runs.insert(0, _LinkedRun(1, 0, tuple(files)))

    def prepare(self, commit_number: int, stamp: int, take_numbers: Callable[[int], int]) -> None:
        """Names the files in the manifest. `take_numbers` takes n write numbers, and returns the one before.

        Raises DiskFullError, TooManyOpenFilesError, OutOfMemoryError, UnknownOutcomeError, CorruptionError and OSError.
        """
        shared, made_ms = self._parts.shared, self._parts.shared.clock.now_ms()
        for run in self._runs:
            base = take_numbers(run.number_count)
            for family_number, written in run.files:
                timestamp = stamp if run.timestamp is None else run.timestamp
                info = replace(written.adopted(base, timestamp, commit_number), made_ms=made_ms)
                path = self._live_files.path_of(family_number, info.number)
                file = StoreFile.open(path, info, shared.cache, shared.open_files)
                self._files[family_number] = (file, *self._files.get(family_number, ()))
        if self._runs:
            self._live_files.prepare(self._files)
            self._is_prepared = True

    def adopt(self) -> None:
        """Publishes the files. Never fails."""
        if self._is_prepared:
            self._live_files.adopt(self._files)

    def withdraw(self) -> None:
        """Removes the files. What can't be removed is removed by the next start, as no manifest has it then.

        Raises UnknownOutcomeError for a lack of memory if the next manifest would name them.
        """
        if self._is_prepared:
            with memory_error_final(self.folder):
                self._live_files.withdraw()
            self._is_prepared = False
        self._files = {}
        remove_unneeded(self._parts.shared.files, self._paths)
