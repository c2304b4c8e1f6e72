"""A region whose rows others are about to take over: what they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowlock_regionserver.region.flush import Unnamed
from rowlock_regionserver.region.idempotency.manifest_answers import AnswerSource
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.retained_changes import RetainedChanges
from rowlock_regionserver.region.stores import Store
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import Position


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A region of which every write is in these store files. While this object exists, they stay on the disk.

    table: with the limits that the region has applied. write_number: the newest one. store_files: by family number,
    newest first. stamps_are_own: see Manifest. changes: what the regions that take over the rows retain.
    """

    start: bytes
    table: Table
    write_number: int
    log_position: Position
    stamps_are_own: bool
    store_files: Mapping[int, tuple[StoreFile, ...]]
    answers: AnswerSource
    changes: RetainedChanges | None

    @staticmethod
    def of(parts: RegionParts, last: Unnamed, stamps_are_own: bool, answers: AnswerSource) -> Predecessor:
        """Returns the region as it is, with what no manifest names yet. The gate is held exclusively.

        `stamps_are_own`: the value of the manifest if there were one for the last files.
        """
        manifest, write_number = parts.live_files.manifest, last.write_number
        return Predecessor(
            parts.start,
            parts.stores.served.table,
            write_number,
            manifest.log_position if last.is_flushed else max(manifest.log_position, parts.log.durable()),
            manifest.stamps_are_own if last.is_flushed else stamps_are_own,
            {store.family.number: _with_last(last, store) for store in parts.stores.all()},
            answers,
            parts.changes.inherited(parts.region_id, parts.start, parts.stop, write_number),
        )


def _with_last(last: Unnamed, store: Store) -> tuple[StoreFile, ...]:
    file = last.files.get(store.family.number)
    return store.files if file is None else (file, *store.files)
