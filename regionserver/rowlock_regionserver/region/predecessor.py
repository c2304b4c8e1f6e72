"""A region whose rows others are about to take over: what they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowlock_regionserver.region.idempotency.manifest_answers import AnswerSource
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.retained_changes import RetainedChanges
from rowlock_regionserver.region.unflushed_cells import CellsOfFamilies, cells_in_memory
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import Position


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A region of which every write up to `write_number` is in these store files and cells.

    While this object exists, the files stay.

    table: with the limits that the region has applied. write_number: the newest one. store_files: by family number,
    newest first. stamps_are_own: see Manifest. changes: what the regions that take over the rows retain.
    """

    start: bytes
    table: Table
    write_number: int
    log_position: Position
    stamps_are_own: bool
    store_files: Mapping[int, tuple[StoreFile, ...]]
    cells: CellsOfFamilies
    answers: AnswerSource
    changes: RetainedChanges | None

    @staticmethod
    def of(parts: RegionParts, stamps_are_own: bool, answers: AnswerSource, numbers_ahead: int = 0) -> Predecessor:
        """Returns the region as it is. Every write is published, and the gate is held exclusively.

        numbers_ahead: it may still make changes with this many further numbers, which are not in what this returns.
        """
        write_number = parts.mvcc.last
        return Predecessor(
            parts.start,
            parts.stores.served.table,
            write_number,
            max(parts.live_files.manifest.log_position, parts.log.durable()),
            stamps_are_own,
            {store.family.number: store.files for store in parts.stores.all()},
            cells_in_memory(parts.stores),
            answers,
            parts.changes.inherited(parts.region_id, parts.start, parts.stop, write_number, numbers_ahead),
        )
