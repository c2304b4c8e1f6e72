"""The commit of a bulk write: all of it in all regions of the table at once, or nothing. docs/bulk_writes.md.

1. Check that no staged batch is lost. Read the staged files, and check that all regions can take them. If the commit
   replaces rows, find those. The store files of a large write are linked into the folders of the regions that will
   adopt them; those regions are flushed.
2. Gates of all regions, exclusively, by region id. Wait until every write is published, and is flushed in
   regions that adopt files. Check what has changed.
3. In each region a write number is taken that stays incomplete, so the read point stops before it. Store files get the
   next numbers, and a manifest names them. The batches are logged and applied under the numbers after that, and the log
   is synced. A log record counts only with its commit, and so does an entry of the manifest.
4. The catalog's next generation has the commit: the commit point.
5. Each region completes its first number, so the read point moves over all of it. The gates are released.

A failure before 4 takes cells and files back; the session and what it has staged stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.arrow.columns import bytes_at
from rowlock_regionserver.catalog.commits import CommitEntry, Identity
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import (
    ConflictError,
    DiskFullError,
    InvalidRequestError,
    UnknownOutcomeError,
)
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.bulk_writes import BulkWrites
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.commit_checks import check_none_is_lost, check_ranges_and_families
from rowlock_regionserver.host.commit_conflicts import StagedRows
from rowlock_regionserver.host.commit_parts import CommitParts
from rowlock_regionserver.host.replaced_rows import ReplacedRows
from rowlock_regionserver.host.snapshot_parts import SnapshotPart
from rowlock_regionserver.host.snapshots import Snapshots
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_file import read_staged_file, remove_bulk_files
from rowlock_regionserver.region.bulk.cut_batch import bounds_of, cut, rows_of
from rowlock_regionserver.region.bulk.family_tombstones import family_tombstones
from rowlock_regionserver.region.bulk.region_commit import RegionCommit
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.changed_rows import Ranges, changed_rows
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.scan.ranges import joined
from rowlock_regionserver.sessions.session import SessionRef
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.mutation import BulkRecord

_ROWS_NAMED_MAX = 100
# What is written while a commit waits for its locks is flushed again before writes have to wait for it.
_FLUSHED_AGAIN_BYTES = 4 * MIB
EVERYTHING: Ranges = ((b"", b""),)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a commit is to do. ranges: rows outside are refused; those inside are hidden if `replaces`."""

    session: SessionRef
    table: str
    ranges: Ranges = EVERYTHING
    replaces: bool = False
    snapshot_id: bytes = b""  # refuse if rows have changed since; empty: no check
    identity: Identity | None = None
    number: int = 0  # of the bulk write, by which a repeated call is recognised; 0: it is not
    staged_batches: Sequence[int] = ()  # refuse if one of these is lost

    @property
    def operation(self) -> Operation:
        """What it is for the locks."""
        if not self.replaces:
            return Operation.COMMIT
        return Operation.COMMIT_REPLACING_TABLE if self.ranges == EVERYTHING else Operation.COMMIT_REPLACING_ROWS


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit wrote; a repeated call of it returns the same.

    is_repeated: another commit of its identity was made before, and nothing was written.
    """

    row_count: int
    cell_count: int
    timestamp: int
    is_repeated: bool = False


class CommitHost(Protocol):
    """The region server as commits see it."""

    @property
    def clients(self) -> ClientState: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def bulk_writes(self) -> BulkWrites: ...
    def table(self, name: str) -> Table: ...
    def regions_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> Sequence[Region]: ...
    def flush_region(self, region: Region) -> FlushResult: ...
    def files_were_adopted(self, region_id: int) -> None: ...
    def operation(
        self, operation: Operation, name: str, caller: Caller, region_ids: Sequence[int]
    ) -> contextlib.AbstractContextManager[None]: ...
    def commit_parts(self) -> CommitParts: ...


def regions_locked(host: CommitHost, request: CommitRequest) -> list[int]:
    """Returns the regions that a commit locks."""
    return [
        region.region_id for start, stop in request.ranges for region in host.regions_of(request.table, start, stop)
    ]


class RegionsMovedError(Exception):
    """The regions were split or merged while a commit waited for their locks. Nothing was done."""


def commit_bulk_write(
    host: CommitHost, request: CommitRequest, caller: Caller, region_ids: Sequence[int]
) -> CommitResult:
    """Commits. Blocks. `region_ids`: what `regions_locked` returned before the locks were taken.

    Raises RegionsMovedError, ConflictError, SessionEndedError, InvalidRequestError, LockUnavailableError, and
    CorruptionError if a staged batch is lost or damaged.
    """
    table = host.table(request.table)
    host.clients.numbers.prepare()  # Here, because it takes the catalog's lock, which is held below.
    _flush_for_adoption(host, request, table)
    with (
        host.clients.sessions.uninterrupted(request.session) as session,
        host.operation(request.operation, request.table, caller, region_ids),
    ):
        if regions_locked(host, request) != region_ids:
            raise RegionsMovedError
        known = known_commit(host, request)  # A call that was repeated while the first one ran.
        if known is not None:
            return known
        write = host.bulk_writes.find(session, table)
        with write.closed():
            return _Committing(host, request, table, write).commit()


def _flush_for_adoption(host: CommitHost, request: CommitRequest, table: Table) -> None:
    """Flushes before any lock is taken, so that the flush with the gates held is short."""
    with host.clients.sessions.using(request.session) as session:
        if host.bulk_writes.has_spills(session, table):
            for region in host.regions_of(request.table):
                host.flush_region(region)


def known_commit(host: CommitHost, request: CommitRequest) -> CommitResult | None:
    """Returns the result of the commit that this call repeats, because its answer was lost; None if there is none."""
    entry = host.commit_parts().commits.of_write(request.number) if request.number else None
    return None if entry is None else CommitResult(entry.row_count, entry.cell_count, entry.timestamp)


class _Committing:
    """One commit, with its locks and the catalog's lock held."""

    def __init__(
        self,
        host: CommitHost,
        request: CommitRequest,
        table: Table,
        write: BulkWrite,
    ) -> None:
        self._host = host
        self._request = request
        self._parts = host.commit_parts()
        self._catalog, self._log, self._shared = self._parts.catalog, self._parts.log, self._parts.shared
        self._table = table
        self._write = write
        self._regions = {region.region_id: region for region in host.regions_of(request.table)}
        self._staged = write.staged()
        self._runs = [run for spill in write.contents.spills for run in spill.runs]
        self._folder = host.bulk_writes.staging.folder_of(write.write)
        # Removes files that this commit has made itself, if there is no commit.
        self._undo = contextlib.ExitStack()
        # Staged files that it has replaced by its own: removed if there is one.
        self._replaced: list[int] = []

    def commit(self) -> CommitResult:
        request, writes = self._request, self._host.bulk_writes
        commits = self._catalog.state.commits
        if request.identity is not None and commits.has_identity(self._table.table_id, request.identity):
            writes.committed(self._write)
            writes.remove(self._write, bulk_files_too=True)
            return CommitResult(0, 0, 0, is_repeated=True)
        check_none_is_lost(self._write, writes.staging, request.number, request.staged_batches)
        check_ranges_and_families(self._write, self._table, request.ranges)
        with self._undo:
            return self._commit()

    def _commit(self) -> CommitResult:
        request, writes = self._request, self._host.bulk_writes
        self._staged = [each for staged in self._staged for each in self._in_regions(staged)]
        parts = [self._read(each) for each in self._staged]
        self._shared.memory.check(sum([part.byte_count for each in parts for part in each.values()]))
        since = self._snapshot_parts() if request.snapshot_id else ()
        replaced = {
            region_id: ReplacedRows.of(region, request.ranges)
            for region_id, region in self._regions.items()
            if request.replaces
        }
        commits = {region_id: self._regions[region_id].bulk_load.region_commit() for region_id in sorted(self._regions)}
        tombstone_bytes = sum([each.tombstone_bytes(len(self._table.families)) for each in replaced.values()])
        adopting = self._linked(commits, hides_many=tombstone_bytes > writes.spilling.bytes_max)
        with contextlib.ExitStack() as gates:
            self._enter_gates(gates, adopting)
            result = self._commit_in_gates(commits, adopting, parts, since, replaced)
        writes.committed(self._write)
        if self._runs:
            writes.remove_later(self._write)
        else:
            writes.remove(self._write, bulk_files_too=False)
        self._remove(self._replaced)
        for region_id in adopting:
            self._host.files_were_adopted(region_id)
        return result

    def _linked(self, commits: Mapping[int, RegionCommit], *, hides_many: bool) -> list[int]:
        """Links the store files into the regions that adopt them, and returns these regions, by id.

        If store files replace rows, the tombstones are store files too, as they must be older; also if they are many.
        """
        for each in commits.values():
            self._undo.callback(each.adoption.withdraw)
            for run in self._runs:
                each.adoption.link(self._folder, run)
        if hides_many or (self._runs and self._request.replaces):
            return list(commits)
        return [region_id for region_id, each in commits.items() if each.adoption.has_files]

    def _enter_gates(self, gates: contextlib.ExitStack, adopting: Sequence[int]) -> None:
        for region_id in adopting:
            if self._regions[region_id].memstore_bytes > _FLUSHED_AGAIN_BYTES:
                self._host.flush_region(self._regions[region_id])
        for region_id in adopting:
            gates.enter_context(self._regions[region_id].without_flushes())
        deadline = self._shared.clock.monotonic() + self._shared.config.row_lock_wait_ms / 1000
        for region_id in sorted(self._regions):
            region = self._regions[region_id]
            if region_id in adopting:
                gates.enter_context(region.all_flushed(deadline))
            else:
                gates.enter_context(region.without_writes(deadline))

    def _in_regions(self, staged: StagedBatch) -> Iterator[StagedBatch]:
        """Yields the batch, or if its region was split or merged since it was staged, its parts in today's regions."""
        if staged.region_id in self._regions:
            yield staged
            return
        whole = self._read(staged)
        for region_id, region in self._regions.items():
            parts = cut(whole, region.start, region.stop)
            if parts:
                rows = rows_of(parts)
                first, last = bounds_of(rows)
                cell_count = sum([part.cell_count for part in parts.values()])
                record = region.bulk_load.write_file(parts, BulkRecord(0, cell_count, len(rows), first, None))
                self._undo.callback(self._remove, [record.file_number])
                yield StagedBatch(region_id, record, last, tuple(sorted(parts)))
        self._replaced.append(staged.record.file_number)

    def _read(self, staged: StagedBatch) -> FamilyParts:
        return read_staged_file(self._shared.files, self._shared.bulk_folder, staged.record)

    def _snapshot_parts(self) -> Sequence[SnapshotPart]:
        snapshot = self._host.snapshots.check(self._request.snapshot_id)
        if snapshot.table_id != self._table.table_id:
            raise InvalidRequestError(
                f"the snapshot is of table {snapshot.table!r}, not of {self._table.name!r}", table=self._table.name
            )
        return self._host.snapshots.parts(self._request.snapshot_id)

    def _commit_in_gates(
        self,
        commits: Mapping[int, RegionCommit],
        adopting: Sequence[int],
        parts: Sequence[FamilyParts],
        since: Sequence[SnapshotPart],
        replaced: Mapping[int, ReplacedRows],
    ) -> CommitResult:
        number = self._host.clients.numbers.next()
        with contextlib.ExitStack() as undo:
            for each in commits.values():
                undo.callback(each.take_back)
                each.begin()
            self._check_unchanged(since)
            stamp = max([self._shared.clock.now_ms(), *(each.newest_stamp + 1 for each in commits.values())])
            for each in commits.values():
                each.pass_over(stamp)
            for region_id, before in replaced.items():
                self._hide(commits[region_id], region_id, before, number, stamp, as_files=region_id in adopting)
            for region_id in adopting:
                commits[region_id].prepare(number, stamp)
            for staged, of_batch in zip(self._staged, parts, strict=True):
                commits[staged.region_id].add(staged.record_for(number, stamp), of_batch)
            if not self._log.sync():
                raise DiskFullError("no disk space for the log; nothing was committed, free some disk space and retry")
            written = [*self._staged, *self._write.contents.spilled()]
            entry = CommitEntry(
                number,
                self._table.table_id,
                self._write.write.write_number,
                self._shared.clock.now_ms(),
                sum([each.record.row_count for each in written]),
                sum([each.record.cell_count for each in written]),
                stamp,
                tuple([(region_id, each.last_number) for region_id, each in commits.items()]),
            )
            known = self._catalog.state.commits.with_commit(
                entry, self._request.identity, self._parts.is_flushed, self._shared.config
            )
            state = replace(self._catalog.state, commits=known)
            try:
                with self._catalog.committed(state, f"a bulk write of table {self._table.name!r} was committed"):
                    undo.pop_all()
                    self._undo.pop_all()
                    for each in commits.values():
                        each.finish()
            except UnknownOutcomeError:
                undo.pop_all()  # It may be committed, and the server ends.
                self._undo.pop_all()
                raise
        return CommitResult(entry.row_count, entry.cell_count, stamp)

    def _check_unchanged(self, since: Sequence[SnapshotPart]) -> None:
        """Raises ConflictError if a row that is written, or hidden, has changed since the snapshot."""
        changed: list[bytes] = []
        staged = StagedRows(self._shared, self._folder, self._staged, self._runs)
        ranges = self._request.ranges if self._request.replaces else staged.bounds()
        for part in since:
            in_part = joined(ranges, part.rows)
            for rows in changed_rows(part.region.stores.view, part.read_point.write_number, in_part):
                if self._request.replaces:
                    changed += [bytes_at(rows, place) for place in range(min(len(rows), _ROWS_NAMED_MAX))]
                else:
                    changed += staged.among(rows, part.region.region_id, _ROWS_NAMED_MAX)
        if changed:
            named = sorted(set(changed))[:_ROWS_NAMED_MAX]
            raise ConflictError(
                f"{len(named)} or more rows of table {self._table.name!r} have changed since the snapshot, "
                f"{row_text(named[0])} for example; nothing was written, take a new snapshot and start again",
                table=self._table.name,
                rows=named,
            )

    def _hide(
        self,
        commit: RegionCommit,
        region_id: int,
        before: ReplacedRows,
        number: int,
        stamp: int,
        *,
        as_files: bool,
    ) -> None:
        """Hides all cells of these rows, and of those that came since, by tombstones with an earlier write number."""
        region = self._regions[region_id]
        rows = before.now(region)
        if not len(rows):
            return
        timestamp = max(stamp, region.stores.newest_timestamp())
        parts = family_tombstones(rows, timestamp, self._table.name_by_number)
        if as_files:
            commit.adoption.hide(parts, timestamp)
            return
        record = BulkRecord(stamp, len(rows) * len(parts), len(rows), bytes_at(rows, 0), None, commit_number=number)
        written = region.bulk_load.write_file(parts, record)
        self._undo.callback(self._remove, [written.file_number])
        commit.add(written, parts)

    def _remove(self, file_numbers: Sequence[int]) -> None:
        remove_bulk_files(self._shared.files, self._shared.bulk_folder, file_numbers)
