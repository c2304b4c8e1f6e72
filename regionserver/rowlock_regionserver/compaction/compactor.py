"""Rewrites some store files of one family as one, without the cells that no reader can see any more.

Of clipped inputs the runs have only the rows that count, so the output is never clipped.

The inputs are merged window by window by the loop that flushes use (scan/retained_tables.py), so the memory is that of
some windows, however large the files are. Nothing is changed until the output is durable under its own name: then the
region exchanges the files in one edit (region/live_files.py).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Family
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.process_limits import lack_of_memory_refused
from rowlock_regionserver.region.background_pacing import COMPACTION, COMPACTION_BEHIND, BackgroundPacing, Permit
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file
from rowlock_regionserver.versions.retention import Retention

# Of what was read of the inputs, this many windows are held at most, beside the present one.
_WINDOWS_HELD = 8
# How often a throttled compaction looks whether it was cancelled.
_CHECK_AGAIN_S = 0.1
# With more inputs than that, more files wait than an idle store has, and pauses get no longer beside a busy event loop.
_INPUTS_BEHIND = 10


def compact_files(
    inputs: Sequence[StoreFile],
    family: Family,
    retention: Retention,
    path: Path,
    number: int,
    files: Files,
    *,
    window_bytes: int,
    bytes_per_second: int,
    progress: Progress,
    pacing: BackgroundPacing,
) -> StoreFileInfo | None:
    """Writes one durable file of the cells of `inputs` to retain; returns None if there are none.

    A window has about `window_bytes` of cells. `bytes_per_second` of the inputs are read at most; 0: as many as
    there is time for. Blocks on the disk. Raises CompactionCancelledError, CorruptionError if an input is damaged,
    DiskFullError, OutOfMemoryError and OSError; then nothing is left.
    """
    merge = _Merge(inputs, retention, family.versions, window_bytes, bytes_per_second, progress, pacing)
    with contextlib.closing(merge.pieces()) as pieces:
        first = next(pieces, None)
        if first is None:
            return None
        info = write_store_file(path, itertools.chain([first], pieces), family, files, number=number)
    progress.bytes_written += info.file_bytes
    return info


class _Merge:
    """One run through the inputs: it counts, stops when it is cancelled, and keeps to the pace. Used by one thread."""

    def __init__(
        self,
        inputs: Sequence[StoreFile],
        retention: Retention,
        versions: int,
        window_bytes: int,
        bytes_per_second: int,
        progress: Progress,
        pacing: BackgroundPacing,
    ) -> None:
        self._inputs = inputs
        self._sources = [run for file in inputs for run in file.runs]
        self._retention = retention
        self._versions = versions
        self._window_bytes = window_bytes
        self._bytes_per_second = bytes_per_second
        self._progress = progress
        self._pacing = pacing
        self._cell_count = sum(file.estimated(file.info.cell_count) for file in inputs)
        self._byte_count = sum(file.byte_count for file in inputs)
        self._cells_read = 0
        self._bytes_read_before = progress.bytes_read
        self._begun = pacing.clock.monotonic()

    def pieces(self) -> Generator[pa.Table | Lines, None, None]:
        """Yields what remains, paced until the last piece is written, but not during the sync."""
        pace = COMPACTION_BEHIND if len(self._inputs) > _INPUTS_BEHIND else COMPACTION
        with self._pacing.permit(pace) as permit:

            def between() -> None:
                permit.yield_now()
                self._wait_for_throttle(permit)

            try:
                with lack_of_memory_refused(self._inputs[0].path):
                    yield from retained_tables(
                        self._sources,
                        self._retention,
                        self._versions,
                        self._window_bytes,
                        self._window_bytes,
                        lines_bytes=self._window_bytes,
                        bytes_held_max=_WINDOWS_HELD * self._window_bytes,
                        merging=self._count,
                        between=between,
                    )
            except OSError as error:  # Of a read: what the writer raises does not come here.
                raise CorruptionError.of(error, self._inputs[0].path) from error
        self._count(self._cell_count)

    def _count(self, cell_count: int) -> None:
        """Counts cells that were read, from which the bytes are estimated."""
        self._cells_read = min(self._cells_read + cell_count, self._cell_count)
        read = self._byte_count * self._cells_read // max(1, self._cell_count)
        self._progress.bytes_read = self._bytes_read_before + read
        self._progress.check()

    def _wait_for_throttle(self, permit: Permit) -> None:
        if not self._bytes_per_second:
            return
        bytes_read = self._progress.bytes_read - self._bytes_read_before
        due = self._begun + bytes_read / self._bytes_per_second
        while (ahead := due - self._pacing.clock.monotonic()) > 0:
            with permit.released():
                self._pacing.sleep(min(ahead, _CHECK_AGAIN_S))
            self._progress.check()
