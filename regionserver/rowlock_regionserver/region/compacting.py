"""Compactions of one region: facts for the picker, and the exchange of files when a compaction has written its output.

1. Take the inputs, then the read points that readers may have, now or later. Cells that they see are retained.
2. Write each group of files with overlapping rows as one file (compaction/compactor.py).
3. Commit and publish: one edit of the live files. Until then readers, flushes and the manifest have the old files.

Reads and writes never wait. A flush may add newer files meanwhile; only one compaction of a store runs at a time. A
compaction that fails or is cancelled before 3 leaves nothing. A crash leaves either the old files or the new ones live,
and the next start removes the others, which the manifest does not name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rowlock_regionserver.cells import NEWEST, Family
from rowlock_regionserver.compaction.compactor import compact_files
from rowlock_regionserver.compaction.picker import FileFacts, Kind, Plan
from rowlock_regionserver.compaction.progress import CompactionCancelledError, CompactionResult, Progress
from rowlock_regionserver.compaction.tombstone_flushes import NOTHING_IN_MEMORY, MemoryFacts
from rowlock_regionserver.errors import DiskFullError, NotServingRegionError, UnknownOutcomeError
from rowlock_regionserver.process_limits import lack_of_memory_refused, memory_error_refused
from rowlock_regionserver.region.live_files import Edit, Replacement
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.stores import Store
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.versions.retention import expired_for_all, retention_of


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the picker and the operator need to know of a store."""

    family: Family
    files: tuple[FileFacts, ...]  # newest first
    memory: MemoryFacts = NOTHING_IN_MEMORY


class RegionCompactor:
    """Compacts the stores of one region, each by one thread at a time. Thread-safe."""

    def __init__(self, parts: RegionParts) -> None:
        self._folder = parts.live_files.folder
        self._live_files = parts.live_files
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        shared = parts.shared
        self._pacing = shared.pacing
        self._cache = shared.cache
        self._open_files = shared.open_files
        self._files = shared.files
        self._config = shared.config
        self._clock = shared.clock
        self._changed = threading.Condition()
        # Guarded by self._changed:
        self._is_closed = False
        self._running: dict[int, Progress] = {}  # by family number

    def facts(self) -> list[StoreFacts]:
        """Returns the facts of each store, by family name."""
        now_ms, protected = self._clock.now_ms(), self._mvcc.protected_read_points()
        readers = protected[0][0]
        oldest_now_ms = self._mvcc.oldest_now_ms()
        retained_after = self._mvcc.retained_after
        facts = []
        for store in self._stores.all():
            through = expired_for_all(store.family, protected, oldest_now_ms)
            files, of_store = [], store.files
            for place, file in enumerate(of_store):
                # Else a compaction because of expired cells would drop none of those that a change feed retains.
                expired = through if file.info.write_number_max <= retained_after else -1
                files.append(_facts_of(file, of_store[place + 1 :], store.family, now_ms, readers, expired))
            held = store.memstore.statistics()
            memory = MemoryFacts(held.row_count, held.tombstone_count)
            facts.append(StoreFacts(store.family, tuple(files), memory))
        return facts

    def compact(self, family_number: int, plan: Plan, progress: Progress) -> CompactionResult:
        """Makes the plan come true; returns when the new files are live. Blocks for as long as the disk takes.

        Raises CompactionCancelledError, also if the files or the family of the plan are gone; CorruptionError, which
        names the damaged input; DiskFullError, before it starts if the output may not fit; TooManyOpenFilesError;
        OutOfMemoryError; NotServingRegionError after `close`; UnknownOutcomeError and OSError. Unless the outcome is
        unknown, nothing has changed then.
        """
        with self._registered(family_number, progress):
            result = self._compact(family_number, plan, progress)
        self._open_files.close_released()  # The inputs, if no reader uses them.
        return result

    @contextmanager
    def _registered(self, family_number: int, progress: Progress) -> Iterator[None]:
        with self._changed:
            if self._is_closed:
                raise NotServingRegionError(f"the region in {self._folder} is closed, so it can't be compacted")
            assert family_number not in self._running, f"two compactions of family {family_number}"
            self._running[family_number] = progress
        try:
            yield
        finally:
            with self._changed:
                del self._running[family_number]
                self._changed.notify_all()

    def _compact(self, family_number: int, plan: Plan, progress: Progress) -> CompactionResult:
        store = self._store(family_number)
        inputs, older = _inputs_and_older(store, plan.inputs)
        unread = {*plan.moved, *plan.dropped}
        rewritten = [file for file in inputs if file.info.number not in unread]
        progress.bytes_total = sum(file.byte_count for file in rewritten)
        self._check_space(progress.bytes_total)
        settled = self._settled_through(family_number, [f for f in inputs if f.info.number not in plan.moved])
        written: list[StoreFile] = []
        try:
            with memory_error_refused(self._folder):
                for group in plan.groups:
                    files = [file for file in rewritten if file.info.number in group]
                    written += self._written(family_number, files, inputs, older, plan, progress)
            moved = [file.as_base() for file in inputs if file.info.number in plan.moved]
            outputs = sorted([*moved, *written], key=lambda file: file.info.write_number_max, reverse=True)
            progress.check()
            self._live_files.apply_edit(
                Edit(replaced={family_number: Replacement(inputs, outputs)}, settled={family_number: settled})
            )
        except UnknownOutcomeError:
            raise  # The manifest that names the new files may be on the disk.
        except BaseException:
            for file in written:
                self._files.remove_if_there(file.path)
            raise
        return CompactionResult(
            file_count_in=len(inputs),
            file_count_out=len(outputs),
            bytes_in=progress.bytes_total,
            bytes_out=sum(file.info.file_bytes for file in written),
            cells_in=sum(file.info.cell_count for file in rewritten),
            cells_out=sum(file.info.cell_count for file in written),
        )

    def _store(self, family_number: int) -> Store:
        try:
            return self._stores.of(family_number)
        except KeyError:
            raise CompactionCancelledError("the column family was dropped") from None

    def _check_space(self, byte_count: int) -> None:
        """Refuses a compaction whose output may not fit. The last `disk_free_bytes_min` are reserved for flushes."""
        needed = byte_count + self._config.disk_free_bytes_min
        free = self._files.free_bytes(self._folder)
        if byte_count and free < needed:
            raise DiskFullError(
                f"a compaction of {byte_count} bytes needs up to {needed} bytes of free disk space in {self._folder}, "
                f"and {free} are free; nothing was changed, free some disk space"
            )

    def _settled_through(self, family_number: int, rewritten: Sequence[StoreFile]) -> int:
        """Returns the write number up to which the store will have live cells alone when these files are rewritten."""
        through = self._mvcc.protected_read_points()[0][0]
        return min(through, self._oldest_outside(family_number, rewritten) - 1)

    def _oldest_outside(self, family_number: int, files: Sequence[StoreFile]) -> int:
        """Returns the write number of the store's oldest cell that is in none of these files."""
        read = {id(run) for file in files for run in file.runs}
        # One view: a flush moves cells from memory to a new file meanwhile.
        _, sources = self._stores.view.get(family_number, (None, ()))
        return min([source.write_number_min for source in sources if id(source) not in read], default=NEWEST)

    def _written(
        self,
        family_number: int,
        files: Sequence[StoreFile],
        inputs: Sequence[StoreFile],
        older: Sequence[StoreFile],
        plan: Plan,
        progress: Progress,
    ) -> list[StoreFile]:
        """Writes the cells of the files as one, and opens it; returns no file if no cell remains.

        The files are one group of `inputs`; `older` are the store's older files.
        """
        protected, oldest_now_ms = self._mvcc.protected_read_points(), self._mvcc.oldest_now_ms()
        family = self._store(family_number).family
        retention = retention_of(
            family,
            protected,
            oldest_now_ms,
            is_complete=not any(_overlap(file, other) for file in files for other in older),
            write_number_min=min(file.info.write_number_min for file in files),
            newer_from=self._oldest_outside(family_number, [*inputs, *older]),
            retained_after=self._mvcc.retained_after,
        )
        number = self._live_files.new_file_number()
        path = self._live_files.path_of(family.number, number)
        info = compact_files(
            files,
            family,
            retention,
            path,
            number,
            self._files,
            window_bytes=self._config.compaction_window_bytes,
            bytes_per_second=self._config.compaction_bytes_per_second,
            progress=progress,
            pacing=self._pacing,
        )
        if info is None:
            return []
        is_base = plan.kind is Kind.MAJOR
        made_ms = self._clock.now_ms() if is_base else min(file.info.made_ms for file in files)
        info = replace(info, is_base=is_base, made_ms=made_ms)
        try:
            with lack_of_memory_refused(path):
                return [StoreFile.open(path, info, self._cache, self._open_files)]
        except BaseException:
            self._files.remove_if_there(path)
            raise

    def cancel(self, family_number: int, reason: str) -> None:
        """Stops the compaction of a store, if one runs, without waiting for its end."""
        with self._changed:
            progress = self._running.get(family_number)
        if progress is not None:
            progress.cancel(reason)

    def close(self, reason: str) -> None:
        """Stops all compactions, waits for their ends, and lets no other begin, so that the folder may be removed."""
        with self._changed:
            self._is_closed = True
            for progress in self._running.values():
                progress.cancel(reason)
            self._changed.wait_for(lambda: not self._running)


def _inputs_and_older(store: Store, numbers: Sequence[int]) -> tuple[Sequence[StoreFile], Sequence[StoreFile]]:
    """Returns the files of these numbers, which must be neighbours, and the files after them."""
    files = store.files  # Once: a flush replaces it meanwhile.
    of_store = [file.info.number for file in files]
    place = of_store.index(numbers[0]) if numbers and numbers[0] in of_store else 0
    stop = place + len(numbers)
    if not numbers or tuple(of_store[place:stop]) != tuple(numbers):
        raise CompactionCancelledError(f"the files {list(numbers)} are not the store's any more, it has {of_store}")
    return files[place:stop], files[stop:]


def _overlap(one: StoreFile, other: StoreFile) -> bool:
    return one.first_row <= other.last_row and other.first_row <= one.last_row


def _facts_of(
    file: StoreFile, older: Sequence[StoreFile], family: Family, now_ms: int, oldest_read_point: int, through: int
) -> FileFacts:
    info = file.info
    is_expired = info.cell_count > 0 and info.timestamp_max <= through
    if is_expired and info.tombstone_count:
        # Else what they hide would be there again after a longer time to live.
        is_expired = not any(_overlap(file, other) for other in older)
    span = info.timestamp_max - info.timestamp_min + 1
    expired = min(span, max(0, through - info.timestamp_min + 1))
    return FileFacts(
        number=info.number,
        byte_count=file.byte_count,
        cell_count=file.estimated(info.cell_count),
        tombstone_count=file.estimated(info.tombstone_count),
        expired_count=file.estimated(info.cell_count * expired // span) if info.cell_count else 0,
        is_all_expired=is_expired,
        is_base=info.is_base,
        is_protected=oldest_read_point < info.write_number_max,
        age_ms=max(0, now_ms - info.made_ms) if info.made_ms else 0,
        first_row=file.first_row,
        last_row=file.last_row,
        row_count=file.estimated(info.row_count),
        family_tombstone_count=file.estimated(info.delete_family_count),
        has_surplus_versions=(info.has_versions and family.versions == 1)
        or any(limits.write_number > info.write_number_min for limits in family.past),
        is_clipped=info.is_clipped,
    )
