"""One region's part of the commit of a bulk write. The caller holds the region's gate exclusively.

begin       takes a write number that stays incomplete: the read point can't pass it
prepare     gives the store files of a large write the next numbers; no reader sees them
add         logs and applies batches, which take the next numbers; no reader sees them
finish      the commit is durable: completes the first number, so all become visible in one step
take_back   there is no commit: removes cells and files, then completes the number. Log records and entries of the
            manifest stay, and do not count, because the catalog does not have their commit
"""

from __future__ import annotations

from rowlock_regionserver.cells import NEWEST, Durability
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.process_limits import memory_error_final
from rowlock_regionserver.region.bulk.adoption import Adoption
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_BULK_COMMIT, BulkRecord


class RegionCommit:
    """For one commit, by one thread."""

    def __init__(self, parts: RegionParts, numbering: Numbering, commit: Commit, log: Log) -> None:
        self.region_id = parts.region_id
        self._mvcc = parts.mvcc
        self._applier = parts.applier
        self._bulk_files = parts.bulk_files
        self._numbering = numbering
        self._commit = commit
        self._log = log
        self._region_log = parts.log
        self._first = 0
        self._files: list[tuple[int, int]] = []
        # Its files are linked before `begin`.
        self.adoption = Adoption(parts)

    def begin(self) -> None:
        """Takes the number that holds the read point back. All writes before it are published.

        Raises DiskFullError if the region takes no writes now.
        """
        self._region_log.check_space(0)
        self._mvcc.wait_until_published(self._mvcc.last, lambda: self._log.waits_for_space)
        self._numbering.pass_over_cells()
        with self._log.order:
            self._first = self._numbering.begin()
        self._applier.merge_before(self._first)

    @property
    def newest_stamp(self) -> int:
        """Stamps of this region are later."""
        return self._numbering.newest_stamp

    @property
    def last_number(self) -> int:
        """The newest write number."""
        return self._mvcc.last

    def pass_over(self, timestamp: int) -> None:
        """Makes all further stamps later, also after a restart."""
        self._numbering.pass_over(timestamp, is_reserved=True)

    def prepare(self, commit_number: int, stamp: int) -> None:
        """Prepares the adoption. Every write before is in store files. Raises as `Adoption.prepare`."""
        self.adoption.prepare(commit_number, stamp, self._take_numbers)

    def _take_numbers(self, count: int) -> int:
        with self._log.order:
            before = self._mvcc.last
            for _ in range(count):
                # They are published with the first number of the commit.
                self._mvcc.complete(self._numbering.begin())
        return before

    def add(self, record: BulkRecord, parts: FamilyParts) -> None:
        """Logs and applies one batch. Raises RegionServerError; then the batch is not applied."""

        def apply(write_number: int) -> TakeBack:
            return self._applier.apply_early(parts, write_number, record.stamp, as_segments=True)

        number = self._commit.commit_applied(KIND_BULK_COMMIT, record.encode(), Durability.FSYNC, apply)
        self._files.append((record.file_number, number))

    def finish(self) -> None:
        """Makes all of it visible. A flush removes the bulk files."""
        for file_number, write_number in self._files:
            self._bulk_files.add(file_number, write_number)
        self.adoption.adopt()
        self._applier.merge_before(NEWEST)
        self._mvcc.complete(self._first)

    def take_back(self) -> None:
        """Removes what was applied. Raises UnknownOutcomeError if it can't: then nothing may be published any more."""
        with memory_error_final(self.adoption.folder):
            self.adoption.withdraw()
            if self._first:
                self._applier.take_back_after(self._first)
                self._applier.merge_before(NEWEST)
                self._mvcc.complete(self._first)
