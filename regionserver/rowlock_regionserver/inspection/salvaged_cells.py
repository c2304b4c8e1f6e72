"""The intact cells of a damaged folder, as sources for a scan.

They come from store files, from the intact part of damaged store files, and from the log. The cells from damaged store
files, and those that are only in the log, are held in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.merge import first_at_or_after
from rowlock_regionserver.cells import Family, from_then_on
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.folder import StoredFolder, StoredRegion
from rowlock_regionserver.inspection.log import check_log, intact_records
from rowlock_regionserver.inspection.unnamed import lost_generations
from rowlock_regionserver.inspection.unnamed_regions import unnamed_regions
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.region.applied_limits import with_applied_limits
from rowlock_regionserver.region.bulk.bulk_file import WrittenBulkFile, decode_parts, read_bulk_file
from rowlock_regionserver.region.bulk.bulk_segments import segments_of
from rowlock_regionserver.region.store_file_names import store_file_names, store_file_path
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.wal.mutation import BULK_KINDS, KIND_ROW, BulkRecord, decode_cells

# The bound of a segment of a damaged store file, all of which may be more than a column of Arrow can hold.
_SEGMENT_BYTES_MAX = 64 * MIB


class SalvagedRegion:
    """One region's sources by family. Built by one thread, then read."""

    def __init__(
        self,
        stored: StoredRegion,
        *,
        segment_bytes_max: int = _SEGMENT_BYTES_MAX,
        commits: frozenset[int] | None = None,
    ) -> None:
        """`commits`: the numbers of committed bulk writes; None: unknown, and all count."""
        self.stored = stored
        self._commits = commits
        self._segment_bytes_max = segment_bytes_max
        applied = {} if stored.manifest is None else stored.manifest.limits
        self._families = with_applied_limits(stored.table, applied).families
        self._segments: dict[int, RowSegment] = {}
        self._sources: dict[int, list[Source]] = {family.number: [] for family in stored.table.families}
        # Everything up to this write number is in store files or the manifest, if that is intact.
        self._last = 0
        if stored.manifest is not None:
            self._last = stored.manifest.flushed_write_number
            for number, table in stored.manifest.unflushed_cells.items():
                if number in self._sources:
                    self._sources[number].append(ArrowSegment(table))

    def view(self) -> list[tuple[Family, list[Source]]]:
        """The view for a scan: families by name, each with its sources."""
        return [
            (
                family,
                [
                    *self._sources[family.number],
                    *([self._segments[family.number]] if family.number in self._segments else []),
                ],
            )
            for family in self._families
        ]

    def add_store_files(self, open_files: OpenFiles, cache: BlockCache, damage: list[CorruptionError]) -> None:
        """Opens intact store files, and extracts the intact part of damaged ones."""
        files = open_files.files
        for family_number, path, info in _store_files(self.stored, files):
            if family_number not in self._sources:
                continue  # Its family was dropped.
            found = [] if info is None else verify_store_file(path, info, files)
            damage.extend(found)
            if info is not None and not found:
                self._sources[family_number] += StoreFile.open(path, info, cache, open_files).runs
            else:
                self._sources[family_number] += _intact_part(
                    path, info, files, damage if info is None else [], self._segment_bytes_max
                )

    def add_record(
        self,
        write_number: int,
        kind: int,
        payload: bytes,
        bulk_folder: Path,
        files: Files,
        damage: list[CorruptionError],
    ) -> None:
        """Adds a change of the log, unless it is in store files. Changes come in log order."""
        if write_number <= self._last:
            return
        self._last = write_number
        if kind == KIND_ROW:
            row, by_family, _, _ = decode_cells(payload, write_number)
            for family_number, cells in by_family:
                if family_number in self._sources:
                    self._segment(family_number).apply(row, cells, lambda: from_then_on(0))
        elif kind in BULK_KINDS:
            record = BulkRecord.decode(payload)
            if record.commit_number and self._commits is not None and record.commit_number not in self._commits:
                return  # The bulk write that it was a part of was not committed.
            try:
                self._add_bulk(write_number, record, bulk_folder, files)
            except CorruptionError as error:
                damage.append(error)
            except OSError as error:
                damage.append(CorruptionError.of(error, bulk_folder))

    def _add_bulk(self, write_number: int, record: BulkRecord, bulk_folder: Path, files: Files) -> None:
        if record.file_number:
            written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
            parts = read_bulk_file(files, bulk_folder, written)
        else:
            parts = decode_parts(record.cells)
        for family_number, segment in segments_of(parts, write_number, record.stamp):
            if family_number in self._sources:
                self._sources[family_number].append(segment)

    def _segment(self, family_number: int) -> RowSegment:
        if family_number not in self._segments:
            family = next(family for family in self._families if family.number == family_number)
            self._segments[family_number] = RowSegment(family.versions, past=family.past)
        return self._segments[family_number]


def read_cells(stored: StoredFolder, files: Files, damage: list[CorruptionError]) -> list[SalvagedRegion]:
    """Reads all intact cells of every region; adds damage to `damage`. Reads all files."""
    cache, open_files = BlockCache(0), OpenFiles(files)
    found = (*stored.regions, *unnamed_regions(stored, files, damage))
    regions = [SalvagedRegion(region, commits=stored.commits) for region in found]
    for region in regions:
        region.add_store_files(open_files, cache, damage)
    by_id = {region.stored.entry.region_id: region for region in regions}

    def apply(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
        if region_id in by_id:
            by_id[region_id].add_record(write_number, kind, payload, stored.bulk_folder, files, damage)

    log_damage: list[CorruptionError] = []
    recovered = check_log(stored, files, apply, log_damage).recovered
    if recovered is not None:
        with contextlib.suppress(OSError):  # Folders that can't be listed were reported.
            damage.extend(lost_generations(stored, files, recovered))
    if log_damage:
        damage.extend(log_damage)
        # Recovery delivers a region's records up to the first lost one; salvage takes later ones too.
        for record in intact_records(stored.log_folder, files):
            apply(record.region_id, record.write_number, record.kind, record.payload)
    return regions


def _store_files(stored: StoredRegion, files: Files) -> Iterator[tuple[int, Path, StoreFileInfo | None]]:
    """Yields (family number, path, info) of the manifest's files; without a manifest, of all files, without info."""
    if stored.manifest is not None:
        infos: Mapping[int, tuple[StoreFileInfo, ...]] = stored.manifest.store_files
        for family_number, family_infos in infos.items():
            for info in family_infos:
                yield family_number, store_file_path(stored.folder, family_number, info.number), info
    else:
        with contextlib.suppress(OSError):  # Folders that can't be listed were reported.
            for name in store_file_names(files, stored.folder):
                yield name.family_number, name.path, None


def _intact_part(
    path: Path, info: StoreFileInfo | None, files: Files, damage: list[CorruptionError], segment_bytes_max: int
) -> list[Source]:
    """Returns segments with the intact part of a store file, of a clipped one without the rows that do not count."""
    segments: list[Source] = []
    tables: list[pa.Table] = []
    try:
        for found in salvage(path, files, info):
            if isinstance(found, CorruptionError):
                damage.append(found)
            elif (found := _renumbered(_clipped(found, info), info)).num_rows:
                is_full = sum(table.nbytes for table in tables) + found.nbytes > segment_bytes_max
                if is_full or (tables and not _are_in_order(tables[-1], found)):
                    segments += _segment_of(tables)
                    tables = []
                tables.append(found)
    except OSError as error:
        damage.append(CorruptionError.of(error, path))
    return [*segments, *_segment_of(tables)]


def _clipped(table: pa.Table, info: StoreFileInfo | None) -> pa.Table:
    """Returns the sorted cells that count. Without a manifest, a region's range of rows is all that is known."""
    if info is None or not info.is_clipped:
        return table
    start = first_at_or_after(table, info.clip_start)
    stop = first_at_or_after(table, info.clip_stop) if info.clip_stop else table.num_rows
    return table.slice(start, max(0, stop - start))


def _renumbered(table: pa.Table, info: StoreFileInfo | None) -> pa.Table:
    """Returns the cells with the numbers of their commit. Without a manifest they stay as they were written."""
    if info is None or not info.is_adopted:
        return table
    return pa.Table.from_batches([info.numbers.of_batch(batch) for batch in table.to_batches()], schema=table.schema)


def _are_in_order(before: pa.Table, after: pa.Table) -> bool:
    """Returns whether the cells of two tables, of the same file, are one run: a file may have two."""
    last, first = ([table.column(place)[at].as_py() for place in range(4)] for table, at in ((before, -1), (after, 0)))
    return (last[:2], -last[2], -last[3]) < (first[:2], -first[2], -first[3])


def _segment_of(tables: list[pa.Table]) -> list[Source]:
    """Returns one segment of consecutive tables, if there are any."""
    return [ArrowSegment(pa.concat_tables(tables).combine_chunks())] if tables else []
