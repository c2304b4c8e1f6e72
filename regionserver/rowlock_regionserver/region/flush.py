"""Flush: writes a region's memstore segments to store files, so that their log records may be removed.

1. Switch: holds the gate exclusively for a moment and seals the active segments of all families. No write is between
   BEGIN and APPLY then, so the sealed segments hold everything up to the newest write number, and nothing later.
2. Wait until the read point has passed the switch. Only durable, published cells may be in a store file, because the
   log's records may be removed after the manifest names the file. If the log waits for disk space, the flush fails.
3. Write: merges each family's sealed segments window by window, drops the cells that no reader can see any more
   (scan/retained_tables.py), and writes one store file, which is synced, renamed, and opened. If the store has no file
   yet, no older cell exists, so tombstones go too (versions/retention.py).
4. Commit and publish: one edit of the live files (live_files.py). The next manifest generation names the new files and
   the flushed write number, and saves the answers that the log would forget (manifest_answers.py). Readers then see the
   files instead of the segments, in one step.
5. The log may remove the flushed records, and bulk files are removed.

A flush that fails before 4 leaves nothing but files that no manifest names; the segments stay sealed. The next flush
writes them first, and seals the active segments only when that succeeds. So however often a full disk fails a flush,
reads have one more segment to look at, not one for each attempt. A crash at any point leaves either the old manifest
and the log, or the new manifest.

A lack of memory in 3, and in 4 while the manifest is written, fails the flush as a full disk does. In 1, where some
families may be sealed and not published, and after the manifest's rename it ends the server: such a flush can't be
repeated.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import NEWEST, Family, ProtectedReadPoints
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.process_limits import lack_of_memory_refused, memory_error_final, memory_error_refused
from rowlock_regionserver.region.background_pacing import FLUSH
from rowlock_regionserver.region.idempotency.manifest_answers import with_answers
from rowlock_regionserver.region.live_files import Edit
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file
from rowlock_regionserver.versions.retention import Retention, retention_of

# Rows and their keys that are freed before yielding: some 0.1 ms for rows of ten cells.
FREED_AT_ONCE = 128
_COLLECTED_AT_ONCE = 8192
# Instead of a write number: the manifest has unflushed cells, so the next flush is not skipped.
_NONE_IS_FLUSHED = -1


@dataclass(frozen=True, slots=True)
class FlushResult:
    """How many store files and cells a flush wrote."""

    store_file_count: int
    cell_count: int

    def __add__(self, other: FlushResult) -> FlushResult:
        return FlushResult(self.store_file_count + other.store_file_count, self.cell_count + other.cell_count)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Each family's sealed segments, and the newest write number in them."""

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
        self._idempotency = parts.idempotency
        self._log = parts.log
        shared = parts.shared
        self._memory = shared.memory
        self._pacing = shared.pacing
        self._cache = shared.cache
        self._open_files = shared.open_files
        self._files = shared.files
        self._config = shared.config
        self._clock = shared.clock
        self._flushed = flushed
        self._lock = threading.Lock()
        # Guarded by self._lock, which is held for a whole flush or alter:
        self._is_closed = False
        manifest = self._live_files.manifest
        # Every write up to this number is flushed.
        self._clean_up_to = _NONE_IS_FLUSHED if manifest.unflushed_cells else manifest.flushed_write_number
        # The number that a flush sealed up to, if it did not commit; else None.
        self._sealed_up_to: int | None = None
        # The value for the next manifests.
        self._stamps_are_own = manifest.stamps_are_own

    def flush(self) -> FlushResult:
        """Writes everything that is in memory now to store files; returns when they are live.

        Raises OSError for a disk error, DiskFullError also if the log waits for space for the cells to be flushed,
        TooManyOpenFilesError and OutOfMemoryError; then the segments stay, and nothing is lost. Raises
        NotServingRegionError after `close`.
        """
        with self._lock:
            retried = self.flush_sealed()
            with self._gate.exclusive():
                write_number = self._seal()
            if write_number == self._clean_up_to:
                return retried
            # Passed on without a reference here: else the segments would be freed at once, after `_free_slowly`.
            return retried + self._flush(self._unflushed(write_number))

    @contextlib.contextmanager
    def all_flushed(self, deadline: float) -> Iterator[int]:
        """Returns a context in which every write is in live store files, and none begins. Inside `no_flush` only.

        Yields the newest write number. Holds the gate exclusively, and does not pause meanwhile, so flush before it.
        Raises the errors of `flush`, and DeadlineError.
        """
        self.flush_sealed()
        with self._gate.exclusive(deadline):
            yield self.flush_held()

    def flush_held(self) -> int:
        """Flushes everything, with the gate held exclusively, inside `no_flush` only. Returns the newest write number.

        Does not pause meanwhile. Raises the errors of `flush`.
        """
        assert self._lock.locked(), "another flush may begin"
        write_number = self._seal()
        if write_number != self._clean_up_to:
            self._flush(self._unflushed(write_number), is_paced=False)
        return write_number

    @property
    def stamps_are_own(self) -> bool:
        """The value for the next manifest."""
        return self._stamps_are_own

    @contextlib.contextmanager
    def sealed(self, deadline: float) -> Iterator[int]:
        """Returns a context in which every write is in a file or a sealed segment, and none begins.

        Yields the newest write number. Holds the gate exclusively, and waits for no disk. Inside `no_flush` only. Call
        `flush_sealed` before it, so that failed attempts leave no further segments, and after it. Raises DeadlineError.
        """
        assert self._lock.locked(), "another flush may begin"
        with self._gate.exclusive(deadline):
            yield self._seal()

    def flush_sealed(self) -> FlushResult:
        """Flushes what was sealed and is in no file: `sealed` left it, or a flush that failed. Inside `no_flush` only.

        Raises the errors of `flush`.
        """
        if self._is_closed:
            raise NotServingRegionError(f"the region in {self._folder} is closed, so it can't be flushed")
        if self._sealed_up_to is None:
            return FlushResult(0, 0)
        return self._flush(self._unflushed(self._sealed_up_to))

    def _flush(self, sealed: _Sealed, *, is_paced: bool = True) -> FlushResult:
        """Takes steps 2 to 5."""
        self._mvcc.wait_until_published(sealed.write_number, self._log.waits_for_space)
        spans = self._mvcc.protected_read_points()
        oldest_now_ms = self._mvcc.oldest_now_ms()
        with memory_error_refused(self._folder):
            manifest = self._with_answers(sealed.write_number)
        settled_through = min(spans[0][0], sealed.write_number)
        settled = {
            family.number: settled_through
            for family, _ in sealed.segments
            if family.past and not self._stores.of(family.number).files
        }
        try:
            with memory_error_refused(self._folder):
                written = self._write_all(sealed, spans, oldest_now_ms, is_paced=is_paced)
        except BaseException:
            self._live_files.discard(manifest, ())
            raise
        self._live_files.apply_edit(
            Edit(
                added={family.number: file for family, file in written},
                flushed={family.number: segments for family, segments in sealed.segments},
                settled=settled,
            ),
            manifest,
        )
        self._sealed_up_to = None
        self._clean_up_to = sealed.write_number
        self._flushed(sealed.write_number)
        freed_bytes = sum(segment.bytes_held for _, segments in sealed.segments for segment in segments)
        if is_paced:
            with contextlib.suppress(MemoryError):  # Then they are freed at once.
                pieces = _pieces_of(sealed)
                del sealed
                _free_slowly(pieces)
        self._memory.flushed(freed_bytes)
        return FlushResult(len(written), sum(file.info.cell_count for _, file in written))

    def _unflushed(self, write_number: int) -> _Sealed:
        """Returns the sealed segments up to the number that are in no file yet, of the current families, by name.

        No cell up to the number is in an active segment, and no other thread has sealed one since.
        """
        return _Sealed(
            tuple(
                (store.family, tuple(s for s in store.memstore.sources()[1:] if s.write_number_max <= write_number))
                for store in self._stores.all()
            ),
            write_number,
        )

    def begin_serving(self, first_unused: int, last_unused: int, *, stamps_are_own: bool) -> None:
        """Must be called before the first write. `stamps_are_own`: the value for the next manifests.

        No write gets a number from `first_unused` to `last_unused`: they were reserved, and lost writes may have used
        them. If nothing else is unflushed, the next flush writes nothing.
        """
        self._stamps_are_own = stamps_are_own
        if self._clean_up_to == first_unused - 1:
            self._clean_up_to = last_unused

    def _seal(self) -> int:
        """1. Seals all active segments, with the gate held exclusively. Returns the newest write number in them."""

        def seal() -> None:
            for store in self._stores.all():
                store.memstore.switch()

        write_number = self._mvcc.last
        with memory_error_final(self._folder):
            self._stores.change(seal)
        if write_number != self._clean_up_to:
            self._sealed_up_to = write_number
        return write_number

    def _with_answers(self, write_number: int) -> Manifest:
        """4. Prepares the manifest for a flush up to this number, still without the new store files."""
        numbers = {store.family.name: store.family.number for store in self._stores.all()}
        live = self._live_files.manifest
        manifest = replace(
            live,
            flushed_write_number=write_number,
            stamps_are_own=self._stamps_are_own,
            stamps_until=0,
            log_position=max(live.log_position, self._log.durable()),
            unflushed_cells={},
        )
        bytes_max = self._config.manifest_answers_bytes_max
        return with_answers(
            manifest,
            self._idempotency,
            write_number,
            self._files,
            self._folder,
            numbers,
            bytes_max,
            self._live_files.new_file_number,
        )

    def _write_all(
        self,
        sealed: _Sealed,
        spans: ProtectedReadPoints,
        oldest_now_ms: int,
        *,
        is_paced: bool,
    ) -> list[tuple[Family, StoreFile]]:
        """3. Writes and opens a store file for each family that has cells. If one fails, removes them all."""
        written: list[tuple[Family, StoreFile]] = []
        paths: list[Path] = []
        try:
            for family, segments in sealed.segments:
                number = self._live_files.new_file_number()
                paths.append(self._live_files.path_of(family.number, number))
                retention = retention_of(
                    family,
                    spans,
                    oldest_now_ms,
                    is_complete=not self._stores.of(family.number).files,
                    write_number_min=min([segment.write_number_min for segment in segments], default=NEWEST),
                    newer_from=sealed.write_number + 1,
                    retained_after=self._mvcc.retained_after,
                )
                info = self._write(family, segments, number, paths[-1], retention, is_paced)
                if info is not None:
                    info = replace(info, made_ms=self._clock.now_ms())
                    # Before the commit: a file that can't be opened changes nothing.
                    with lack_of_memory_refused(paths[-1]):
                        written.append((family, StoreFile.open(paths[-1], info, self._cache, self._open_files)))
        except BaseException:
            for path in paths:
                self._files.remove_if_there(path)
            raise
        return written

    def _write(
        self,
        family: Family,
        segments: Sequence[Source],
        number: int,
        path: Path,
        retention: Retention,
        is_paced: bool,
    ) -> StoreFileInfo | None:
        """3. Writes one store file of the family's segments. Returns None if no cell remains."""
        retained = self._retained(segments, retention, family.versions, is_paced=is_paced)
        with contextlib.closing(retained) as pieces:
            first = next(pieces, None)
            if first is None:
                return None
            cells = itertools.chain([first], pieces)
            return write_store_file(path, cells, family, self._files, number=number)

    def _retained(
        self, segments: Sequence[Source], retention: Retention, versions: int, *, is_paced: bool
    ) -> Generator[pa.Table | Lines, None, None]:
        """Yields what remains, paced until the last piece is written, but not during the sync."""
        window_bytes, merge_bytes = self._config.flush_window_bytes, self._config.flush_merge_window_bytes
        if not is_paced:
            yield from retained_tables(segments, retention, versions, window_bytes, merge_bytes)
            return
        with self._pacing.permit(FLUSH) as permit:
            between = permit.yield_now
            # Larger windows of lines take less work, but calls wait for longer.
            yield from retained_tables(
                segments, retention, versions, window_bytes, merge_bytes, lines_bytes=merge_bytes, between=between
            )

    def close(self) -> None:
        """Waits for a running flush, and lets no other begin, so that the folder may be removed."""
        with self._lock:
            self._is_closed = True

    def close_held(self) -> None:
        """Lets no other flush begin. Inside `no_flush` only."""
        assert self._lock.locked(), "another flush may be running"
        self._is_closed = True

    @contextlib.contextmanager
    def no_flush(self) -> Iterator[None]:
        """Returns a context: waits for a running flush, and lets none begin inside."""
        with self._lock:
            yield


def _pieces_of(sealed: _Sealed) -> list[object]:
    """Returns the objects that the segments hold, so that they can be freed in small steps."""
    pieces: list[object] = []
    for segment in itertools.chain.from_iterable(segments for _, segments in sealed.segments):
        held = segment.pieces() if isinstance(segment, RowSegment) else iter([segment])
        while some := list(itertools.islice(held, _COLLECTED_AT_ONCE)):
            pieces += some
            yield_now()
    return pieces


def _free_slowly(pieces: list[object]) -> None:
    """Frees the objects of flushed segments in small steps, between which other threads run."""
    while pieces:
        del pieces[-FREED_AT_ONCE:]
        yield_now()
