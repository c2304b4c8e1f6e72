"""When memory is flushed because of what was deleted."""

from __future__ import annotations

import pytest
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.compaction.tombstone_flushes import PAUSE_S, MemoryFacts, TombstoneFlushes, is_due


@pytest.mark.parametrize(
    ("tombstones", "rows", "settings", "expected"),
    [
        (1000, 1000, CompactionSettings(), True),
        (999, 999, CompactionSettings(), False),
        (1000, 5000, CompactionSettings(), True),
        (1000, 5001, CompactionSettings(), False),
        (10, 10, CompactionSettings(memory_tombstones=10), True),
        (1000, 1000, CompactionSettings(memory_tombstones=0), False),
        (1000, 1000, CompactionSettings(automatic=False), False),
        (1000, 1000, CompactionSettings(major_dropped_share=0), False),
        (0, 0, CompactionSettings(), False),
    ],
)
def test_a_flush_is_due_with_enough_tombstones_that_are_a_share_of_the_rows(
    tombstones: int, rows: int, settings: CompactionSettings, expected: bool
) -> None:
    assert is_due(MemoryFacts(rows, tombstones), settings) is expected


def test_a_region_is_flushed_once_in_a_while_however_much_is_deleted() -> None:
    requested: list[int] = []
    flushes = TombstoneFlushes(requested.append)
    stores = [MemoryFacts(10, 0), MemoryFacts(1000, 1000)]
    for second in range(int(2 * PAUSE_S)):
        flushes.look_at(7, stores, CompactionSettings(), float(second))
    assert requested == [7, 7]
    flushes.look_at(8, stores[:1], CompactionSettings(), 0.0)
    assert requested == [7, 7]
    flushes.look_at(8, stores, CompactionSettings(), 0.0)
    assert requested == [7, 7, 8]
