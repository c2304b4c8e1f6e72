"""Says when memory is flushed because of what was deleted.

Only files are compacted. Tombstones in memory, and the rows that they hide, would stay there, and each scan would pass
them. A flush moves them into a file, and then a compaction drops them; a flush of a store without files drops them
itself. A table that always deletes, such as a queue, is flushed only once in a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowlock_regionserver.compaction.settings import CompactionSettings

# Between two such flushes of a region.
PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What a store has in memory. A row counts once for each segment that has it."""

    row_count: int = 0
    tombstone_count: int = 0


NOTHING_IN_MEMORY = MemoryFacts()


class TombstoneFlushes:
    """Requests flushes of regions that have many tombstones in memory. Used by one thread."""

    def __init__(self, request_flush: Callable[[int], None]) -> None:
        """`request_flush` takes the region's id, and does not block."""
        self._request_flush = request_flush
        self._not_before: dict[int, float] = {}  # by region id

    def look_at(
        self, region_id: int, stores: Sequence[MemoryFacts], settings: CompactionSettings, monotonic: float
    ) -> None:
        """Requests a flush if it is due for a store of the region."""
        if monotonic < self._not_before.get(region_id, monotonic):
            return
        if any(is_due(store, settings) for store in stores):
            self._not_before[region_id] = monotonic + PAUSE_S
            self._request_flush(region_id)


def is_due(store: MemoryFacts, settings: CompactionSettings) -> bool:
    """Whether the store has so many tombstones in memory that they are worth a file."""
    share = settings.major_dropped_share
    least = max(settings.memory_tombstones, share * store.row_count)
    return settings.automatic and settings.memory_tombstones > 0 and share > 0 and store.tombstone_count >= least
