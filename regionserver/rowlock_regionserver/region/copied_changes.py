"""Copies the changes of a region to those that are about to take over its rows, while it makes further ones.

1. FOLLOW: from the moment that the new regions' manifests describe on, each change is noted with its log record.
2. COPY: a noted change is applied to the new region that has its rows, as in a replay of the log, and appended to the
   log as that region's own record, with the same write number. A batch of rows is cut. No write waits meanwhile.
3. FINISH, with the gate of the old region held exclusively: the changes that are left are copied, the log reserves the
   old region's numbers and stamps for the new ones, and is synced.

So what is left to do while writes wait does not depend on how much was written meanwhile. Without the catalog's commit,
the copies are records of regions that no catalog names, and count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError, RegionTooBusyError
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_file import decode_parts, encode_parts, read_staged_file
from rowlock_regionserver.region.bulk.cut_batch import cut, rows_of
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.succession import NUMBERS_AHEAD, NotedChange, NotedChanges
from rowlock_regionserver.wal.batch import do_nothing
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_BULK_COMMIT, KIND_ROW, BulkRecord, row_of
from rowlock_regionserver.wal.row_requests import RowRequests

# Changes are copied before writes wait until so few are left, but not more often than so.
_FEW_CHANGES = 4
_ROUNDS_MAX = 20


class CopiedChanges:
    """The changes of one region on their way to its successors. For one thread."""

    def __init__(self, noted: NotedChanges, successors: Sequence[Region], log: Log, shared: SharedParts) -> None:
        """`successors`: OPENING, as of the number from which on the changes are noted."""
        self._noted = noted
        self._successors = successors
        self._log = log
        self._shared = shared

    def copy(self) -> None:
        """2. Copies what was changed so far, until little is left. Raises DiskFullError and RegionTooBusyError."""
        for _ in range(_ROUNDS_MAX):
            changes = self._noted.taken()
            self._copy(changes)
            if len(changes) <= _FEW_CHANGES:
                break

    def finish(self, last: int, stamps_until: int) -> None:
        """3. Copies the rest, which is durable when this returns.

        `last`: the old region's last write number. Stamps below `stamps_until` may have been used. The caller holds the
        old region's gate exclusively. Raises as `copy`, and UnknownOutcomeError.
        """
        self._copy(self._noted.taken())
        for region in self._successors:
            region.end_predecessor(last)
        with self._log.order:
            for region in self._successors:
                self._log.reserve(region.region_id, last, stamps_until)
        if not self._log.sync(gives_up=lambda: self._log.waits_for_space):
            raise DiskFullError("no disk space for the log; nothing was changed, free some disk space and retry")

    def _copy(self, changes: Sequence[NotedChange]) -> None:
        if changes and changes[-1].write_number > self._noted.begun_at + NUMBERS_AHEAD:
            raise RegionTooBusyError(
                f"more than {NUMBERS_AHEAD} changes were made during the split; nothing was split, retry",
                retry_after_ms=self._shared.config.retry_after_ms,
            )
        copies = [
            (region, change._replace(payload=payload))
            for change in changes
            for region, payload in self._payloads(change)
        ]
        self._log.check_space(sum(len(change.payload) for _, change in copies))
        with self._log.order:
            for region, change in copies:
                self._log.append(region.region_id, *change, Durability.ASYNC, do_nothing)
        for region, change in copies:
            region.replay.apply(*change)

    def _payloads(self, change: NotedChange) -> Iterator[tuple[Region, bytes]]:
        """Yields the payload of the record for each new region that has some of the rows."""
        if change.kind == KIND_ROW:
            row = row_of(change.payload)
            yield next((region, change.payload) for region in self._successors if region.has(row))
            return
        # The catalog's lock excludes commits of bulk writes.
        assert change.kind != KIND_BULK_COMMIT, "a bulk write was committed during a split"
        record = BulkRecord.decode(change.payload)
        parts: FamilyParts
        if record.file_number:
            parts = read_staged_file(self._shared.files, self._shared.bulk_folder, record)
        else:
            parts = decode_parts(record.cells)
        for region in self._successors:
            of_region = _cut_record(record, parts, region)
            if of_region is not None:
                yield region, of_region.encode()


def _cut_record(record: BulkRecord, parts: FamilyParts, region: Region) -> BulkRecord | None:
    """Returns the record of the batch's rows in the region, without a file; None if it would say nothing.

    The id of a bulk batch belongs to all regions, because the batch may be sent again to any.
    """
    own = cut(parts, region.start, region.stop)
    if not own and record.request is None:
        return None
    return replace(
        record,
        cell_count=sum([part.cell_count for part in own.values()]),
        row_count=len(rows_of(own)) if own else 0,
        file_number=0,
        file_bytes=0,
        file_checksum=0,
        cells=b"".join(encode_parts(own)),
        row_requests=None if record.row_requests is None else _requests_in(record.row_requests, region),
    )


def _requests_in(requests: RowRequests, region: Region) -> RowRequests:
    own = [(row, sequence) for row, sequence in zip(requests.rows, requests.sequences, strict=True) if region.has(row)]
    return replace(requests, rows=[row for row, _ in own], sequences=[sequence for _, sequence in own])
