"""A reader of a change feed that dies at random points gets each change once, whatever happens to the table meanwhile.

Rows are overwritten and deleted at timestamps in any order, incl. cells that expire; batches come as cells and as rows;
bulk writes are committed over several regions, and replace the table; regions are flushed, compacted, split and merged;
the server is killed and started again. The horizon moves all the time, and the reader keeps within it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drawn_cases import case_count
from tests.property.change_feed_table import HOUR_MS, FeedTable, Reader
from tests.seeds import generator_of

STEPS = 220
RESTARTS_MIN = 30
CASES = range(case_count(3, 1))


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_and_nothing_comes_twice(case: int, tmp_path: Path) -> None:
    generator = generator_of(f"change feed {case}")
    table = FeedTable(tmp_path, generator)
    reader = Reader(table)
    events = {
        table.change_a_row: 14,
        table.change_a_hot_row: 1,
        table.put_a_batch: 3,
        table.commit_a_bulk_write: 2,
        table.flush: 4,
        table.compact: 4,
        table.split: 2,
        table.merge: 2,
        table.restart: 1,
    }
    restarts = 0
    for step in range(STEPS):
        generator.choices(list(events), list(events.values()))[0]()
        table.pass_time(generator.randrange(HOUR_MS // 20))
        if step % 4 == 3:
            reader.read(generator.randrange(6))
            restarts += 1
        if step % 12 == 11:
            reader.read()  # before the horizon comes
    reader.read()
    assert restarts >= RESTARTS_MIN
    assert reader.batch_count > STEPS // 6, "the windows were too large to cut the feed"
    assert reader.part_count > 3, "no write number was too large for a window"
    lost, surplus = table.made - reader.seen, reader.seen - table.made
    assert not lost, f"{len(lost)} changes were lost, such as {next(iter(lost))}"
    assert not surplus, f"{len(surplus)} changes came twice or were never made, such as {next(iter(surplus))}"
    horizons = [region.describe_changes().changes.horizon for region in table.regions]
    assert min(horizons) > 0, "the horizon has not moved"
    table.server.stop()
