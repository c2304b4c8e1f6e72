"""The result of a recovery: what was found in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rowlock_regionserver.wal.log_cleaner import Sealed
from rowlock_regionserver.wal.log_replay import Damage
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.reader import unpack_records
from rowlock_regionserver.wal.record import GENERATION, Position, Record


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found in a log, and what `Log.open` needs to continue it."""

    log_id: bytes
    # The regions that the log knows: intact ones, and damaged ones with the reason.
    regions: Mapping[int, RegionState] = field(default_factory=dict)
    damaged: Mapping[int, Damage] = field(default_factory=dict)
    # Why a region that the log does not know may have lost records.
    unknown_damage: Damage | None = None
    # The newest generation of the catalog that the log names; 0: none.
    catalog_generation: int = 0
    # The positions at which proven records are lost, and the position of a torn tail.
    gaps: tuple[Damage, ...] = ()
    torn: Position | None = None
    # By region, the write number up to which store files must have everything, because the log begins after it.
    starts: Mapping[int, int] = field(default_factory=dict)
    record_count: int = 0  # changes delivered
    byte_count: int = 0  # of segments, headers and markers included
    # For `Log.open`: the segments; the last one's number (0: a new log), the end of its valid records, the length up to
    # which it is proven durable, and the bytes of the valid records beyond.
    segments: tuple[Sealed, ...] = ()
    last_segment: int = 0
    last_version: int = 0  # of the format
    end_bytes: int = 0
    proven_bytes: int = 0
    unproven: tuple[bytes, ...] = ()

    @property
    def is_tail_intact(self) -> bool:
        """No proven record of the last segment is damaged: after the end of its records is a torn tail, or zeros."""
        return bool(self.segments) and not self.segments[-1].has_damage

    def unproven_changes(self) -> Iterator[Record]:
        """The changes to copy to the new segment, in log order."""
        for records in self.unproven:
            yield from (record for record in unpack_records(records) if record.kind < GENERATION)

    def damage_of(self, region_id: int) -> Damage | None:
        """Why this region must not be served; None when none of its records is lost."""
        if region_id in self.regions:
            return None
        return self.damaged.get(region_id, self.unknown_damage)
