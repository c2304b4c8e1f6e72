"""Named snapshots that are read: each like a table of the name `@NAME`, which nothing changes.

The regions of a snapshot are opened when somebody looks the snapshot up, from their folders, and closed when nobody has
named them for a while, because an open region has the indexes of its store files in memory. A request that names a
closed region is refused like one of a region that was split: the client looks it up again, which opens it. So a request
on the event loop never waits for a disk here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.catalog.names import SNAPSHOT_PREFIX
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.host.opening import damage_of, open_region
from rowlock_regionserver.host.region_folder import region_folder
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts

_CLOSED_UNUSED_S = 300.0


def is_snapshot(name: str) -> bool:
    """Whether the name of a table is that of a named snapshot."""
    return name.startswith(SNAPSHOT_PREFIX)


@dataclass(slots=True)
class _Opened:
    """The open regions of a snapshot, in row order."""

    regions: Sequence[Region]
    used_at: float  # on the monotonic clock

    @property
    def is_read(self) -> bool:
        """Whether a scan or a snapshot reads a region now."""
        return any(region.statistics().mvcc.registered_readers for region in self.regions)


class ReadSnapshots:
    """The open regions of named snapshots. Thread-safe; `regions_of` blocks on the disk."""

    def __init__(self, folder: Path, shared: SharedParts, state: Callable[[], CatalogState]) -> None:
        """`state` returns the current catalog."""
        self._folder = folder
        self._shared = shared
        self._state = state
        self._lock = threading.Lock()  # held for a whole opening
        # Guarded by self._lock: by the table id of the snapshot.
        self._opened: dict[int, _Opened] = {}
        # By region id; replaced by one assignment, and read without the lock.
        self._by_id: dict[int, _Opened] = {}

    def entry(self, name: str) -> TableEntry:
        """The table that the snapshot is read as. Raises SnapshotNotFoundError."""
        entry = self._state().snapshot(name.removeprefix(SNAPSHOT_PREFIX)).entry
        return replace(entry, table=replace(entry.table, name=name))

    def regions_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> list[Region]:
        """The regions of the snapshot that overlap [start, stop), in row order. Opens all of them if they are closed.

        Raises SnapshotNotFoundError, CorruptionError, TooManyOpenFilesError and OutOfMemoryError. A later call tries
        again to open what could not be opened.
        """
        with self._lock:
            entry = self.entry(name)
            opened = self._opened.get(entry.table.table_id)
            if opened is None:
                opened = self._opened[entry.table.table_id] = self._open(entry)
                self._note()
            opened.used_at = self._shared.clock.monotonic()
            inside = {region.region_id for region in entry.regions if region.overlaps(start, stop)}
            return [region for region in opened.regions if region.region_id in inside]

    def region(self, region_id: int) -> Region | None:
        """An open region; None if there is none of this id. Never waits."""
        opened = self._by_id.get(region_id)
        if opened is None:
            return None
        opened.used_at = self._shared.clock.monotonic()
        return next(region for region in opened.regions if region.region_id == region_id)

    def _open(self, entry: TableEntry) -> _Opened:
        regions: list[Region] = []
        with contextlib.ExitStack() as undo:
            for each in entry.regions:
                try:
                    regions.append(open_region(self._folder, entry.table, each, self._shared))
                except OSError as error:  # A file is missing, for instance.
                    raise damage_of(error, region_folder(self._folder, each.region_id)) from error
                undo.callback(regions[-1].abandon)
            undo.pop_all()
        for region in regions:
            region.serve_reads()
        return _Opened(regions, 0.0)

    def remove(self, snapshot: NamedSnapshot) -> set[Path]:
        """Closes the regions of a snapshot that the catalog no longer has, and removes their store files.

        Returns these files. One that a scan reads is removed when the scan has ended, and the folder with the last one.
        """
        with self._lock:
            opened = self._opened.pop(snapshot.entry.table.table_id, None)
            self._note()
        read: set[Path] = set()
        for region in opened.regions if opened is not None else ():
            region.close()
            read |= region.discard()
        return read

    def close_unused(self) -> None:
        """Closes regions that nobody reads, and nobody has named for some minutes."""
        unused_since = self._shared.clock.monotonic() - _CLOSED_UNUSED_S
        if all(opened.used_at > unused_since for opened in list(self._opened.values())):
            return
        with self._lock:
            unused = {
                table_id: opened
                for table_id, opened in self._opened.items()
                if opened.used_at <= unused_since and not opened.is_read
            }
            for table_id in unused:
                del self._opened[table_id]
            self._note()
        for opened in unused.values():
            for region in opened.regions:
                region.close()
                region.release()

    def _note(self) -> None:
        """Publishes the open regions by their ids. The caller holds the lock."""
        self._by_id = {region.region_id: opened for opened in self._opened.values() for region in opened.regions}
