"""Spills the batches of large bulk writes: merges them into store files, which the commit adopts as they are.

What a bulk write has in bulk files comes into the memstores at its commit. So if it is about to have more than a
quarter of the memory for unflushed cells, the batches of one region are spilled, those of the region that has most.
Their bulk files are removed when the spill is durable (staging.py).

The commit gives spilled batches earlier write numbers than the others, and spills in their order. So a spill takes each
older batch that may have a row of its batches: one of a region that was split or merged since.

One spill runs at a time, and its cells count as unflushed cells meanwhile.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence

from rowlock_regionserver.errors import DiskFullError, InvalidRequestError, UnknownOutcomeError
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.staging import Staging
from rowlock_regionserver.region.background_pacing import SPILL
from rowlock_regionserver.region.bulk.bulk_file import read_staged_file, remove_bulk_files
from rowlock_regionserver.region.bulk.spilled import RunWriter, Spill
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.table import Table


class Spilling:
    """Spills for all bulk writes of a server. Thread-safe."""

    def __init__(self, shared: SharedParts, staging: Staging) -> None:
        self._shared = shared
        self._staging = staging
        self._one_at_a_time = threading.Lock()
        # What a bulk write may have in bulk files, unless it is one batch.
        self.bytes_max = shared.config.memstore_bytes_max // 4

    def make_room(self, write: BulkWrite, table: Table, byte_count: int) -> None:
        """Spills until `byte_count` more bytes of bulk files may be staged. Blocks.

        Raises RegionTooBusyError, InvalidRequestError and OSError; then nothing has changed. Raises UnknownOutcomeError
        if a spill may have been made.
        """
        if write.bulk_file_bytes + byte_count <= self.bytes_max:
            return
        with write.spilling():
            while write.bulk_file_bytes + byte_count > self.bytes_max:
                unspilled = write.unspilled()
                if not unspilled:
                    return  # It is one large batch.
                region_id = _largest_region(unspilled)
                with self._one_at_a_time:
                    self._spill(write, table, region_id, batches_to_spill(unspilled, region_id))

    def _spill(
        self, write: BulkWrite, table: Table, region_id: int, batches: Sequence[tuple[int, StagedBatch]]
    ) -> None:
        byte_count = _byte_count(batches)
        self._check(table, batches, byte_count)
        folder = self._staging.folder_of(write.write)
        shared = self._shared
        shared.memory.check(byte_count)
        shared.memory.add(byte_count)
        try:
            with shared.pacing.permit(SPILL) as permit:
                writer = RunWriter(
                    folder, table.families, shared.files, shared.config, write.new_file_number, permit.yield_now
                )
                runs = writer.write(
                    [(each, read_staged_file(shared.files, shared.bulk_folder, each.record)) for _, each in batches]
                )
        finally:
            shared.memory.add(-byte_count)
        self._replace(write, Spill(region_id, tuple(sorted({number for number, _ in batches})), runs), writer)
        remove_bulk_files(shared.files, shared.bulk_folder, [each.record.file_number for _, each in batches])

    def _replace(self, write: BulkWrite, spill: Spill, writer: RunWriter) -> None:
        """Makes the spill take the place of its batches."""
        try:
            write.add_spill(spill, self._staging)
        except UnknownOutcomeError:
            raise  # The spill may be on the disk.
        except BaseException:
            writer.remove(spill.runs)
            raise

    def _check(self, table: Table, batches: Sequence[tuple[int, StagedBatch]], byte_count: int) -> None:
        known = {family.number for family in table.families}
        if any(set(each.family_numbers) - known for _, each in batches):
            raise InvalidRequestError(
                f"a column family of the bulk write of table {table.name!r} was dropped since; abort it",
                table=table.name,
            )
        folder = self._shared.bulk_folder
        if self._shared.files.free_bytes(folder) < byte_count + self._shared.config.disk_free_bytes_min:
            raise DiskFullError(
                f"no space for store files of {byte_count} bytes of a bulk write beside {folder}; nothing was changed. "
                "Free disk space; writes then continue without a restart",
                retry_after_ms=self._shared.config.retry_after_ms,
            )


def _largest_region(batches: Sequence[tuple[int, StagedBatch]]) -> int:
    """Returns the region for which most bytes are staged."""
    bytes_of: Counter[int] = Counter()
    for _, each in batches:
        bytes_of[each.region_id] += each.record.file_bytes
    return max(bytes_of, key=lambda region_id: bytes_of[region_id])


def batches_to_spill(unspilled: Sequence[tuple[int, StagedBatch]], region_id: int) -> list[tuple[int, StagedBatch]]:
    """Returns the batches of a region, and every older one that may have a row of those returned, as they were sent."""
    chosen: list[list[tuple[int, StagedBatch]]] = []  # the newest first
    # The rows of the chosen batches are between these; no last one: none is chosen yet.
    first, last = b"", b""
    of_requests = [list(files) for _, files in itertools.groupby(unspilled, lambda each: each[0])]
    for files in reversed(of_requests):
        bounds = min([each.record.first_row for _, each in files]), max([each.last_row for _, each in files])
        if files[0][1].region_id == region_id or (bounds[0] <= last and first <= bounds[1]):
            first, last = (min(first, bounds[0]), max(last, bounds[1])) if chosen else bounds
            chosen.append(files)
    return [each for files in reversed(chosen) for each in files]


def _byte_count(batches: Sequence[tuple[int, StagedBatch]]) -> int:
    return sum([each.record.file_bytes for _, each in batches])
