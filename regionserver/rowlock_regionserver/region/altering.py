"""Switches a region to the catalog's families: at start, and for an alter of its table.

The manifest has the limits that are in effect. If there is no space for it, the region takes no write until there is
(region_log.py), because a start could not know under which limits the write was made.
"""

from __future__ import annotations

import contextlib

from rowlock_regionserver.catalog.properties import changes_retained_ms
from rowlock_regionserver.errors import DiskFullError, OutOfMemoryError, TooManyOpenFilesError
from rowlock_regionserver.region.applied_limits import limits_of
from rowlock_regionserver.region.compacting import RegionCompactor
from rowlock_regionserver.region.flush import Flusher
from rowlock_regionserver.region.live_files import Edit
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table


class Altering:
    """The families and limits of one region. Used by one thread at a time."""

    def __init__(self, parts: RegionParts, flusher: Flusher, compactor: RegionCompactor) -> None:
        self._parts = parts
        self._flusher = flusher
        self._compactor = compactor

    def apply_wanted_limits(self) -> None:
        """Applies the catalog's limits, if the region ended before it could; no write was under them yet."""
        parts = self._parts
        before = limits_of(parts.stores.served.table)
        parts.stores.alter(parts.wanted, parts.mvcc.last + 1, parts.shared.clock.now_ms())
        after = limits_of(parts.stores.served.table)
        if after != before:
            parts.mvcc.restore(parts.mvcc.last + 1)
        if after != parts.live_files.manifest.limits:
            parts.log.owes_limits = not self._commit(Edit())

    def begin_changes(self) -> None:
        """Begins the change feed of the table, if it has one that the region's manifest does not know."""
        parts = self._parts
        if parts.changes.switch(changes_retained_ms(parts.wanted)):
            self._commit(Edit())  # Without space for it, the feed begins again at the next start.

    def alter(self, table: Table) -> None:
        """Switches to the altered table, which the catalog has committed, and drops the cells of dropped families."""
        parts = self._parts
        with self._flusher.no_flush():
            with parts.gate.exclusive():
                before = limits_of(parts.stores.served.table)
                write_number = parts.mvcc.last + 1
                dropped = parts.stores.alter(table, write_number, parts.shared.clock.now_ms())
                after = limits_of(parts.stores.served.table)
                if any(after.get(number) != limits for number, limits in before.items() if number in after):
                    parts.log.owes_limits = not self._commit(Edit())
                    assert parts.mvcc.begin() == write_number, "a write began with the gate held"
                    parts.mvcc.complete(write_number)
                parts.changes.switch(changes_retained_ms(table))
            for store in dropped:
                self._compactor.cancel(store.family.number, "the column family was dropped")
            parts.shared.memory.add(-sum(store.memstore.bytes_held for store in dropped))
            self._commit(Edit(dropped=dropped))
        del dropped
        parts.shared.open_files.close_released()

    @property
    def owes_limits(self) -> bool:
        """Whether the region takes no writes, because there was no space for a manifest with its altered limits."""
        return self._parts.log.owes_limits

    def commit_owed_limits(self) -> None:
        """Tries again to write that manifest. Blocks. Raises UnknownOutcomeError and OSError."""
        self._commit(Edit())

    def _commit(self, edit: Edit) -> bool:
        """Commits the applied limits and the live families.

        Returns False if there is no space, descriptor or memory for the manifest.
        """
        # Then the manifest names the files of dropped families until the next flush.
        with contextlib.suppress(DiskFullError, TooManyOpenFilesError, OutOfMemoryError):
            self._parts.live_files.apply_edit(edit)
            return True
        return False
