"""What writes to a region that serves: row changes, puts in columns, procedures and bulk batches."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.commit.stamps import Stamps, stamps_after_restart
from rowlock_regionserver.region.batch_gate import BatchGate
from rowlock_regionserver.region.bulk.bulk_load import BulkLoad, BulkNumbers
from rowlock_regionserver.region.mutate.column_puts import ColumnPuts
from rowlock_regionserver.region.mutate.procedure_calls import ProcedureCalls
from rowlock_regionserver.region.mutate.write_path import WritePath
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.wal.log import Log


@dataclass(frozen=True, slots=True)
class Writers:
    """The writers of one region. Each is thread-safe."""

    commit: Commit
    write_path: WritePath
    column_puts: ColumnPuts
    procedure_calls: ProcedureCalls
    bulk_load: BulkLoad


def stamps_of(parts: RegionParts, stamps_until: int) -> Stamps:
    """Returns the stamps of a region that was replayed. `stamps_until`: those before it are reserved in the log."""
    manifest = parts.live_files.manifest
    return stamps_after_restart(
        parts.shared.clock,
        parts.shared.config.stamp_leap_ms,
        max(stamps_until, manifest.stamps_until),
        is_own=manifest.stamps_are_own,
        newest_cell=parts.stores.newest_timestamp,
    )


def writers_of(parts: RegionParts, bulk_numbers: BulkNumbers, numbering: Numbering, log: Log) -> Writers:
    """Returns the writers of a region, whose changes go to this log."""
    commit = Commit(parts.region_id, parts.mvcc, numbering, log)
    batch_gate = BatchGate(parts.gate, commit, parts.shared.clock)
    write_path = WritePath(parts, numbering, commit, log)
    return Writers(
        commit,
        write_path,
        ColumnPuts(parts, numbering, commit, log, batch_gate, write_path),
        ProcedureCalls(parts, numbering, commit, log, write_path),
        BulkLoad(parts, bulk_numbers, numbering, commit, log, batch_gate),
    )
