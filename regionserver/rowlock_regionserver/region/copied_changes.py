"""Copies the changes of a region to the regions of a split, while it makes further ones.

1. NOTE: after the moment that the new regions' manifests describe, each commit notes its number and its log record.
   Batches wait until the split has ended (batch_gate.py), so these are changes of single rows.
2. COPY, in rounds: a noted change is applied to the new region that has its row, by the code of a replay, and appended
   to the log as a record of that region, with the same number. Writes go on.
3. FINISH, with the old region's gate held exclusively: the last changes are copied, the log reserves the old region's
   numbers and stamps for the new ones, and is synced.

So writes wait only for the changes of the last round. Without the catalog's commit the copies are records of regions
that no catalog names, and a start ignores them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError, RegionTooBusyError
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.succession import NUMBERS_AHEAD_MAX, NotedChange, NotedChanges
from rowlock_regionserver.wal.batch import do_nothing
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW, row_of

# Rounds end when one had this few changes, or more than half as many as the one before; there are at most this many.
_FEW_CHANGES = 4
_ROUNDS_MAX = 20


class CopiedChanges:
    """The changes of one region on their way to its successors. For one thread."""

    def __init__(self, noted: NotedChanges, successors: Sequence[Region], log: Log) -> None:
        """`successors`: OPENING, as of the number after which changes are noted."""
        assert all(region.newest_write_number == noted.after for region in successors), noted.after
        self._noted = noted
        self._successors = successors
        self._log = log

    def copy(self) -> None:
        """2. Copies what was changed so far, until little is left or writers are faster.

        Raises DiskFullError, RegionTooBusyError and StoppingError.
        """
        before = None
        for _ in range(_ROUNDS_MAX):
            count = self._copy()
            if count <= _FEW_CHANGES or (before is not None and 2 * count > before):
                break
            before = count

    def finish(self, last: int, stamps_until: int) -> None:
        """3. Copies the rest. It is durable when this returns, and every change of the old region is published.

        `last`: the old region's last write number. Stamps below `stamps_until` may have been used. The caller holds the
        old region's gate exclusively. Raises as `copy`, and UnknownOutcomeError.
        """
        self._copy()
        if last > self._noted.after + NUMBERS_AHEAD_MAX:
            raise self._too_busy()
        for region in self._successors:
            region.end_ancestor(last)
        with self._log.order:
            for region in self._successors:
                self._log.reserve(region.region_id, last, stamps_until)
        if not self._log.sync():
            raise DiskFullError("no disk space for the log; nothing was split, free some disk space and retry")

    def _copy(self) -> int:
        """Copies the changes that are noted now. Returns their number."""
        changes = self._noted.taken()
        if changes is None:
            raise self._too_busy()
        for change in changes:
            self._copy_one(change)
        return len(changes)

    def _copy_one(self, change: NotedChange) -> None:
        assert change.kind == KIND_ROW, f"a record of kind {change.kind} during a split"
        row = row_of(change.payload)
        (region,) = [each for each in self._successors if each.has(row)]
        self._log.check_space(len(change.payload))
        with self._log.order:  # For one record: the writers of all regions wait for it.
            self._log.append(region.region_id, *change, Durability.ASYNC, do_nothing)
        region.replay.apply(*change)

    def _too_busy(self) -> RegionTooBusyError:
        table = self._successors[0].table_name
        return RegionTooBusyError(
            f"too much was changed in a region of table {table!r} while it was split; nothing was split, retry",
            table=table,
            retry_after_ms=1000,
        )
