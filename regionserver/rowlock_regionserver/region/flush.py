"""Flush: a region's memstore segments become store files, and the log may forget them.

1. Switch: the gate is held exclusively for a moment. No write is between BEGIN and APPLY, so everything up to the
   newest write number is in the segments that are sealed now, of all families together, and nothing later is.
2. Wait until the read point has passed the switch: only durable, published cells may stand in a file, because after the
   manifest names it the log's records are gone. A log that waits for disk space is not waited for.
3. Write: each family's sealed segments are merged window by window, freed of what no reader can see any more
   (scan/retained_tables.py), and written as one store file, synced, renamed, and opened.
4. Commit and show: one edit of the live files (live_files.py). The next manifest generation names the new files and the
   flushed write number, and keeps the request ids that the log would forget (manifest_answers.py). Readers then see the
   files instead of the segments, in one step.
5. The log may forget what was flushed, and bulk files are removed.

A flush that fails before 4 has changed nothing but names that no manifest knows: the segments stay, sealed. The next
flush writes them first, and seals the active segments only when that succeeds: however often a full disk refuses, there
is one more segment to read, and not one for each try. A crash anywhere leaves either the old manifest and the log, or
the new manifest.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.cells import Family, ProtectedReadPoints
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.memstore.segment import RowSegment
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.idempotency.manifest_answers import with_answers
from rowlock_regionserver.region.live_files import Edit
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.scan.retained_tables import RetentionRule, retained_tables
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file
from rowlock_regionserver.versions.visibility_columns import retained

# Rows and their keys that are freed in one stretch: some 0.1 ms for rows of ten cells.
FREED_AT_ONCE = 128
_TAKEN_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What a flush wrote."""

    store_file_count: int
    cell_count: int


@dataclass(frozen=True, slots=True)
class _Sealed:
    """What is sealed: each family's immutable segments and the number they reach to."""

    segments: tuple[tuple[Family, tuple[Segment, ...]], ...]
    write_number: int


class Flusher:
    """Flushes one region; one flush at a time. Blocks for as long as the disk takes."""

    def __init__(self, parts: RegionParts, flushed: Callable[[int], None]) -> None:
        """`flushed(write_number)` is called when everything up to the number is in live store files."""
        self._live_files = parts.live_files
        self._folder = parts.live_files.folder
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._gate = parts.gate
        self._requests = parts.requests
        self._log = parts.log
        shared = parts.shared
        self._memory = shared.memory
        self._pacing = shared.pacing
        self._cache = shared.cache
        self._open_files = shared.open_files
        self._files = shared.files
        self._config = shared.config
        self._flushed = flushed
        self._lock = threading.Lock()
        # Guarded by self._lock, which is held for a whole flush or alter:
        self._is_closed = False
        # Nothing up to this number is left to flush.
        self._clean_up_to = self._live_files.manifest.flushed_write_number
        # Of a flush that sealed and did not commit, the number that it sealed up to.
        self._sealed_up_to: int | None = None
        # What manifests say from now on.
        self._stamps_are_own = self._live_files.manifest.stamps_are_own

    def flush(self) -> FlushResult:
        """Writes everything that is in memory now to store files; returns when they are live.

        Raises OSError when the disk refuses, and DiskFullError also when the log waits for space for what is to be
        flushed: nothing is lost, the segments stay; nor after TooManyOpenFilesError. NotServingRegionError after
        `close`.
        """
        with self._lock:
            if self._is_closed:
                raise NotServingRegionError(f"the region in {self._folder} is closed and is not flushed any more")
            left = FlushResult(0, 0) if self._sealed_up_to is None else self._flush(self._left(self._sealed_up_to))
            write_number = self._switch()
            if write_number == self._clean_up_to:
                return left
            self._sealed_up_to = write_number
            # Given away, not kept: what is held here too would be freed in one stretch, after `_let_go`.
            rest = self._flush(self._left(write_number))
            return FlushResult(left.store_file_count + rest.store_file_count, left.cell_count + rest.cell_count)

    def _flush(self, sealed: _Sealed) -> FlushResult:
        """Steps 2 to 5."""
        self._mvcc.wait_until_published(sealed.write_number, self._log.waits_for_space)
        spans = self._mvcc.protected_read_points()
        manifest = self._with_answers(sealed.write_number)
        try:
            written = self._write_all(sealed, spans, manifest.next_file_number)
        except BaseException:
            self._live_files.discard(manifest, ())
            raise
        self._live_files.apply_edit(
            Edit(
                added={family.number: file for family, file in written},
                flushed={family.number: segments for family, segments in sealed.segments},
            ),
            manifest,
        )
        self._sealed_up_to = None
        self._clean_up_to = sealed.write_number
        self._flushed(sealed.write_number)
        freed_bytes = sum(segment.bytes_held for _, segments in sealed.segments for segment in segments)
        pieces = _taken_apart(sealed)
        del sealed
        _let_go(pieces)
        self._memory.flushed(freed_bytes)
        return FlushResult(len(written), sum(file.info.cell_count for _, file in written))

    def _left(self, write_number: int) -> _Sealed:
        """What is sealed up to the number and in no file yet, of the families that there are now, which come by name.

        Nothing below its number is in the active segments or was sealed by somebody else since.
        """
        return _Sealed(
            tuple(
                (store.family, tuple(s for s in store.memstore.sources()[1:] if s.write_number_max <= write_number))
                for store in self._stores.all()
            ),
            write_number,
        )

    def begin_serving(self, first_unused: int, last_unused: int, *, stamps_are_own: bool) -> None:
        """Before the first write. `stamps_are_own`: what manifests say from now on.

        The numbers from `first_unused` to `last_unused` are given to no write: they were reserved, and may have been
        used by what was lost. A region with nothing else stays as it is on disk.
        """
        self._stamps_are_own = stamps_are_own
        if self._clean_up_to == first_unused - 1:
            self._clean_up_to = last_unused

    def _switch(self) -> int:
        """1. Seals all active segments together; gives the write number that they reach to."""

        def seal() -> None:
            for store in self._stores.all():
                store.memstore.switch()

        with self._gate.exclusive():
            write_number = self._mvcc.last
            self._stores.change(seal)
        return write_number

    def _with_answers(self, write_number: int) -> Manifest:
        """4. The manifest that will say that all up to this number is flushed, but for its store files."""
        numbers = {store.family.name: store.family.number for store in self._stores.all()}
        served = set(numbers.values())
        live = self._live_files.manifest
        manifest = replace(
            live,
            store_files={number: infos for number, infos in live.store_files.items() if number in served},
            flushed_write_number=write_number,
            stamps_are_own=self._stamps_are_own,
            log_position=max(live.log_position, self._log.durable()),
        )
        bytes_max = self._config.manifest_answers_bytes_max
        return with_answers(manifest, self._requests, write_number, self._files, self._folder, numbers, bytes_max)

    def _write_all(
        self, sealed: _Sealed, spans: ProtectedReadPoints, first_number: int
    ) -> list[tuple[Family, StoreFile]]:
        """3. An open store file for each family that has cells; none of them stays when one fails."""
        written: list[tuple[Family, StoreFile]] = []
        paths: list[Path] = []
        try:
            for family, segments in sealed.segments:
                number = first_number + len(written)
                paths.append(self._live_files.path_of(family.number, number))
                info = self._write(family, segments, number, paths[-1], spans)
                if info is not None:
                    # Before the commit: a file that can't be opened changes nothing.
                    written.append((family, StoreFile.open(paths[-1], info, self._cache, self._open_files)))
        except BaseException:
            for path in paths:
                self._files.remove_if_there(path)
            raise
        return written

    def _write(
        self, family: Family, segments: Sequence[Source], number: int, path: Path, spans: ProtectedReadPoints
    ) -> StoreFileInfo | None:
        """3. One store file of the family's segments; None when they hold nothing."""
        with contextlib.closing(self._tables(segments, partial(retained, protected=spans, family=family))) as tables:
            first = next(tables, None)
            if first is None:
                return None
            return write_store_file(path, itertools.chain([first], tables), family, self._files, number=number)

    def _tables(self, segments: Sequence[Source], judge: RetentionRule) -> Generator[pa.Table, None, None]:
        """What stays of the cells, in a turn that lasts until the last table is written, and not to the sync."""
        window_bytes, merge_bytes = self._config.flush_window_bytes, self._config.flush_merge_window_bytes
        with self._pacing.permit(frees_memory=True) as permit:
            yield from retained_tables(segments, judge, window_bytes, merge_bytes, between=permit.yield_now)

    def close(self) -> None:
        """Waits for the flush that runs; none begins after it, so the folder may be removed."""
        with self._lock:
            self._is_closed = True

    @contextlib.contextmanager
    def no_flush(self) -> Iterator[None]:
        """Waits for the flush that runs, and lets none begin."""
        with self._lock:
            yield


def _taken_apart(sealed: _Sealed) -> list[object]:
    """What the segments hold, so that it can be freed piece by piece."""
    pieces: list[object] = []
    for segment in itertools.chain.from_iterable(segments for _, segments in sealed.segments):
        held = segment.pieces() if isinstance(segment, RowSegment) else iter([segment])
        while some := list(itertools.islice(held, _TAKEN_AT_ONCE)):
            pieces += some
            yield_now()
    return pieces


def _let_go(pieces: list[object]) -> None:
    """Frees flushed segments, so that other threads run in between."""
    while pieces:
        del pieces[-FREED_AT_ONCE:]
        yield_now()
