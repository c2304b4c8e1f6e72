"""What a region holds, apart from the log it writes to: made from its manifest, then filled by replay.

A region is opened in two steps, because the log can be written only after it was read: first every region's contents
are there and take the log's records, then the log is open and regions serve (region.py).
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.commit.gate import Gate
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError, StoppingError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.apply import Applier
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path
from rowlock_regionserver.region.flush import Flusher
from rowlock_regionserver.region.idempotency.answers_file import read_answers
from rowlock_regionserver.region.idempotency.requests import RequestIds
from rowlock_regionserver.region.idempotency.saved_answers import AnswerSource, with_answers
from rowlock_regionserver.region.live_files import LiveFiles
from rowlock_regionserver.region.manifest import Manifest, read_manifest, write_manifest
from rowlock_regionserver.region.region_files import greatest_file_number, unnamed_files
from rowlock_regionserver.region.replay import Replay
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.region.stores import Stores
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import TEMPORARY_SUFFIX
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.record import NOWHERE, Position


class RegionContents:
    """The stores, numbers and kept answers of one region."""

    def __init__(
        self,
        region_id: int,
        bounds: tuple[bytes, bytes],
        table: Table,
        folder: Path,
        shared: SharedParts,
    ) -> None:
        """Reads the manifest and opens its store files. Raises CorruptionError, and OSError for what can't be read."""
        self.region_id = region_id
        self.start, self.stop = bounds
        self.table = table
        self.shared = shared
        self.memory = shared.memory
        self._log: Log | None = None
        files, clock = shared.files, shared.clock
        live = read_manifest(files, folder)
        self.manifest_generation = live.generation  # as it was found
        manifest = live.manifest
        if manifest.region_id != region_id:
            raise CorruptionError(folder, 0, f"the manifest of region {region_id}", f"that of {manifest.region_id}")
        _remove_temporary(files, folder)
        # What the manifest does not name. Whether it is a leftover is known when the log was read.
        self.unnamed = unnamed_files(manifest, files, folder)
        live = replace(live, manifest=_beyond_unnamed(manifest, files, folder))
        self.mvcc = Mvcc(manifest.flushed_write_number, clock)
        self.gate = Gate(region_id, clock)
        config = shared.config
        # The largest request, and as many small ones as there may be at a time, can be sent again whole.
        answers_max = max(config.rows_per_request_max, config.requests_in_flight_max)
        self.requests = RequestIds(clock, shared.request_ids, config.request_ids_forgotten_after_ms, answers_max)
        in_files = (read_answers(files, folder, file, table.name_by_number) for file in manifest.answers_files)
        self.requests.restore((*itertools.chain.from_iterable(in_files), *manifest.answers), manifest.forgotten_ms_ago)
        self.stores = Stores(table, _open_store_files(folder, manifest, table, shared.cache, shared.open_files))
        self.applier = Applier(self.stores, shared.memory, self.mvcc.read_spans, shared.on_fatal)
        self.live_files = LiveFiles(live, self.stores, files, self._committed)
        self.flusher = Flusher(
            self.live_files,
            self.stores,
            self.mvcc,
            self.gate,
            self.requests,
            shared,
            self._flushed,
            self.log_waits_for_space,
            self._log_position,
        )
        # Bulk files that the log's records name, with the write number of each: they stay until they are flushed.
        # Guarded by the gate held alone (adding), and by the flush that runs (removing).
        self.bulk_files: dict[int, int] = {}
        self.replay = Replay(table, self.stores, self.mvcc, self.requests, shared)

    def recovered(self) -> None:
        """Replay is over, or at a pause: what it brought can be read."""
        self.replay.settle()
        self.bulk_files.update(self.replay.bulk_files)

    def flush_while_recovering(self) -> None:
        """Replay has passed the memory limit: what it brought so far goes to store files."""
        self.recovered()
        self.flusher.flush()

    def abandon(self) -> None:
        """The region will not be served: its memory is given back, and its bulk files are left to salvage."""
        self.requests.discard()
        self.replay.forget_packed()
        self.replay.count_memory()
        self.memory.add(-self.stores.memstore_bytes)

    def remove_store_files(self) -> set[Path]:
        """The region is gone: each of its store files goes from the disk when nobody reads it any more. Gives them all.

        The folder goes with the last one, if nothing else is in it. Removed is what nobody reads now; blocks.
        """
        paths = self.stores.remove_files_when_unused()
        self.stores.retire()
        self.shared.open_files.tidy()
        return paths

    def remove_bulk_files(self, through: int) -> None:
        """Removes the bulk files of writes up to this number, which replay will pass over."""
        for file_number, write_number in list(self.bulk_files.items()):
            if write_number <= through:
                del self.bulk_files[file_number]
                with contextlib.suppress(OSError):  # What nobody reads any more; the next start tries again.
                    self.shared.files.remove_if_there(bulk_file_path(self.shared.bulk_folder, file_number))

    def write_to(self, log: Log) -> None:
        """The log is open: it is told how far the region is flushed, now and after each flush."""
        self._log = log
        log.flushed(self.region_id, self.live_files.manifest.flushed_write_number)

    def log_waits_for_space(self) -> bool:
        """No write is published until there is disk space."""
        return self._log is not None and self._log.waits_for_space

    def _log_position(self) -> Position:
        return NOWHERE if self._log is None else self._log.durable

    def _committed(self, generation: int) -> None:
        """The manifest of this generation is durable. The log is told, so that it is missed if it gets lost."""
        if self._log is not None:  # Else replay goes on; `Region` tells it.
            with contextlib.suppress(StoppingError), self._log.order:  # The server is ending.
                self._log.note_manifest(self.region_id, generation)

    def _flushed(self, write_number: int) -> None:
        self.remove_bulk_files(write_number)
        if self._log is not None:  # Else replay goes on; `write_to` tells it.
            self._log.flushed(self.region_id, write_number)


def make_region_folder(
    files: Files, folder: Path, region_id: int, table: Table, config: Config, answers: AnswerSource | None = None
) -> None:
    """A new region's folder with its first manifest; durable when it returns. `answers`: of the region it replaces."""
    files.make_folder(folder)
    manifest = Manifest(region_id, table.table_id)
    if answers is not None:
        bytes_max = config.manifest_answers_bytes_max
        manifest = with_answers(manifest, answers, 0, files, folder, table.number_by_name, bytes_max)
    write_manifest(files, folder, 1, manifest)
    files.fsync_folder(folder.parent)


def _open_store_files(
    folder: Path, manifest: Manifest, table: Table, cache: BlockCache, open_files: OpenFiles
) -> dict[int, tuple[StoreFile, ...]]:
    return {
        number: tuple(
            StoreFile.open(store_file_path(folder, number, info.number), info, cache, open_files) for info in infos
        )
        for number, infos in manifest.store_files.items()
        if number in table.name_by_number
    }


def _remove_temporary(files: Files, folder: Path) -> None:
    """Removes what a flush was writing when it was cut short."""
    for name in files.list_folder(folder):
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove_if_there(folder / name)


def _beyond_unnamed(manifest: Manifest, files: Files, folder: Path) -> Manifest:
    """The manifest with a number for the next file that no file has, so that a flush overwrites none."""
    return replace(manifest, next_file_number=max(manifest.next_file_number, greatest_file_number(files, folder) + 1))
