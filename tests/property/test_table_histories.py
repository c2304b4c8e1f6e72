"""Whatever happens to a table, each read at each moment gives what a plain model of all its writes says.

Rows are changed at timestamps in any order, by increments, appends and deletes, one by one and several by a call; cells
expire and exceed the number of versions; requests are repeated; bulk writes are spilled, replace rows, and fail;
regions are flushed, compacted, split and merged, and the server is killed. Reads are gets, scans by windows and short
scans, of now and of snapshots, with limits and ranges.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.operations import AnswerCell, ScanPlan, Selection
from rowlock_regionserver.scan import short_scan
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.scan.scanner import Scan
from rowlock_regionserver.sources import Reading, WouldWaitError

from tests.drawn_cases import case_count
from tests.property.modelled_table import ROWS
from tests.property.scan_model import Model
from tests.property.table_history import History, expected_cells
from tests.seeds import generator_of

CASES = range(case_count(20, 1))
STEPS = 200
VERSIONS = Selection(versions=5)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crosses the edges between rounds, sources and answers of short scans."""
    monkeypatch.setattr(short_scan, "ROWS_MAX", 5)
    monkeypatch.setattr(short_scan, "UNLIMITED_ROWS_MAX", 3)


@pytest.mark.parametrize("case", CASES)
def test_each_read_gives_what_the_model_says(case: int, tmp_path: Path) -> None:
    generator = generator_of(f"table history {case}")
    history = History(tmp_path, generator)
    events: dict[Callable[[], None], int] = {
        history.change_a_row: 24,
        history.count_often: 1,
        history.repeat: 5,
        history.change_several: 6,
        history.put_in_columns: 2,
        history.put_a_batch: 4,
        history.commit: 4,
        history.flush: 6,
        history.compact: 4,
        history.split: 2,
        history.merge: 2,
        history.restart: 1,
        history.pass_time: 4,
        history.switch_feed: 1,
        history.alter_limits: generator.choice([0, 0, 1]),
        history.make_snapshot: 2,
        history.end_snapshot: 1,
    }
    for step in range(STEPS):
        generator.choices(list(events), list(events.values()))[0]()
        if step % 4 == 3:
            check_reads(history, generator, f"case {case}, step {step}")
    check_reads(history, generator, f"case {case}, at the end")
    for region in history.regions:
        region._check()
    history.server.stop()
    print(dict(history.counts))
    # The test would prove little without them.
    assert min(history.counts[each] for each in ("changes", "repeats", "commits", "compactions")) > 1, history.counts
    assert history.counts["short"] > STEPS // 8, history.counts


def check_reads(history: History, generator: random.Random, about: str) -> None:
    for snapshot_id, model in history.moments():
        start, stop = sorted(generator.choices([b"", *ROWS, b"05\0"], k=2))
        bounds = generator.choice([(b"", b""), (start, b""), (start, stop)])
        if bounds[0] and bounds[0] == bounds[1]:
            continue
        limit = generator.choice([0, 0, 1, 4])
        plan = ScanPlan(VERSIONS, (bounds,), limit, reverse=generator.random() < 0.3)
        assert scanned(history, plan, snapshot_id, Reading.BULK) == list(expected_cells(model, plan)), about
        plan = ScanPlan(ranges=(bounds,), row_limit=limit, newest_rows=True)
        reading = generator.choice([Reading.CACHED, Reading.AT_ONCE])
        try:
            found = scanned(history, plan, snapshot_id, reading)
        except WouldWaitError:
            assert reading is Reading.AT_ONCE, about
            found = scanned(history, plan, snapshot_id, Reading.CACHED)
        assert found == [(row, without_timestamp(cell)) for row, cell in expected_cells(model, plan)], about
        if not snapshot_id:
            check_gets(history, generator, model, about)


def check_gets(history: History, generator: random.Random, model: Model, about: str) -> None:
    for row in generator.sample(ROWS, 4):
        found = history.region_of(row).get([row], VERSIONS, may_wait=True)
        assert found is not None
        assert list(found[0]) == model.row(row, VERSIONS), f"{about}, {row!r}"


def without_timestamp(cell: AnswerCell) -> AnswerCell:
    return (*cell[:2], 0, cell[3])


def scanned(history: History, plan: ScanPlan, snapshot_id: bytes, reading: Reading) -> list[tuple[bytes, AnswerCell]]:
    """Scans the regions one after the other, as a client does. Newest rows have timestamp 0."""
    found: list[tuple[bytes, AnswerCell]] = []
    left = plan.row_limit
    for region in reversed(history.regions) if plan.reverse else history.regions:
        of_region = ScanPlan(plan.selection, plan.ranges, left, plan.reverse, newest_rows=plan.newest_rows)
        scanned_region = history.server.region_at(region.region_id, snapshot_id) if snapshot_id else region
        with scanned_region.scan(of_region, reading=lambda: reading) as (_, answers):
            row_count = take(answers, found, history, is_newest=plan.newest_rows)
        if plan.row_limit:
            left -= row_count
            if not left:
                break
    return found


def take(answers: Scan, found: list[tuple[bytes, AnswerCell]], history: History, *, is_newest: bool) -> int:
    """Adds the cells of the answers to those found, and returns the number of rows."""
    row_count = 0
    for answer in answers:
        rows = answer.rows
        row_count += answer.row_count
        if isinstance(rows, NewestRows):
            history.counts["short"] += 1
            for row, place, values in zip(rows.rows, rows.sets_of_rows, rows.values, strict=True):
                for name, value in zip(rows.column_sets[place], values, strict=True):
                    family, _, qualifier = name.partition(b":")
                    found.append((row, (family, qualifier, 0, value)))
        else:
            for cell in answer.table.to_pylist():
                timestamp = 0 if is_newest else cell["timestamp"]
                found.append((cell["row"], (cell["family"], cell["qualifier"], timestamp, cell["value"])))
    return row_count
