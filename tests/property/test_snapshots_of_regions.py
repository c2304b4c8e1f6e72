"""Random changes, splits, merges, flushes and compactions: every open snapshot reads its moment, in each direction.

Each case is made from the run's seed and its number; `check_snapshots(case, folder)` replays it.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.operations import Delete, DeleteKind, Put, ScanPlan, Selection

from tests.crash.simulated_files import UnsyncedFiles
from tests.seeds import generator_of
from tests.unit.host.serving_table import FAMILIES, Serving
from tests.unit.host.table_of_regions import cells_of

CASES = range(4)
STEPS = 220
ROWS = [b"r%02d" % number for number in range(12)]
VERSIONS = {family.name: family.versions for family in FAMILIES}
_STEPS = ["put"] * 12 + ["delete"] * 3 + ["flush", "compact", "split", "split", "merge", "make", "make", "end", "read"]
Cells = list[tuple[bytes, bytes]]


@dataclass
class Model:
    """The newest values of each row and family, the newest first."""

    values: dict[tuple[bytes, bytes], list[bytes]] = field(default_factory=dict)

    def put(self, row: bytes, family: bytes, value: bytes) -> None:
        values = self.values.setdefault((row, family), [])
        values.insert(0, value)
        del values[VERSIONS[family] :]

    def delete(self, row: bytes) -> None:
        for family in VERSIONS:
            self.values.pop((row, family), None)

    def scan(self, plan: ScanPlan) -> Cells:
        """Returns (row, value) as a scan of the plan does."""
        start, stop = plan.ranges[0]
        rows = sorted(
            {row for row, _ in self.values if start <= row and (not stop or row < stop)}, reverse=plan.reverse
        )
        if plan.row_limit:
            del rows[plan.row_limit :]
        return [(row, value) for row in rows for family in VERSIONS for value in self.values.get((row, family), ())]


def test_each_snapshot_reads_its_moment_wherever_its_rows_are(tmp_path: Path) -> None:
    counts = sum([check_snapshots(case, tmp_path / str(case)) for case in CASES], Counter[str]())
    # The test would prove little without them; see CONTRIBUTING.md for how rarely this may fail.
    assert min(counts[each] for each in ("splits", "merges", "compactions", "snapshots read")) > 3, counts
    assert counts["cells"] > 50, counts


def check_snapshots(case: int, folder: Path) -> Counter[str]:
    """Runs one case; returns how often what was done."""
    generator = generator_of(case)
    folder.mkdir()
    table, model = Serving(folder, files=UnsyncedFiles()), Model()
    moments: dict[bytes, Model] = {}
    counts = Counter[str]()
    for step in range(1, STEPS + 1):
        row = generator.choice(ROWS)
        match generator.choice(_STEPS):
            case "put":
                family, value = generator.choice(list(VERSIONS)), b"%d" % step
                table.change(row, Put(family, b"q", value, step))
                model.put(row, family, value)
            case "delete":
                table.change(row, Delete(DeleteKind.ROW, timestamp=step))
                model.delete(row)
            case "flush":
                table.server.flush("t")
            case "compact":
                counts["compactions"] += _compact(table, generator)
            case "split" if all(region.start != row for region in table.regions):
                table.split(row)
                counts["splits"] += 1
            case "merge" if len(table.regions) > 1:
                table.merge(generator.randrange(len(table.regions) - 1))
                counts["merges"] += 1
            case "make":
                snapshot_id = b"%016d" % step
                table.server.make_snapshot("t", snapshot_id, 0, "")
                moments[snapshot_id] = copy.deepcopy(model)
            case "end" if moments:
                ended = generator.choice(list(moments))
                table.server.snapshots.end(ended)
                del moments[ended]
            case "read":
                for snapshot_id, moment in moments.items():
                    plan = _plan(generator)
                    expected = moment.scan(plan)
                    assert _scan(table, plan, snapshot_id) == expected, f"case {case}, step {step}, {snapshot_id!r}"
                    counts["snapshots read"] += 1
                    counts["cells"] += len(expected)
                plan = _plan(generator)
                assert _scan(table, plan, b"") == model.scan(plan), f"case {case}, step {step}"
    for snapshot_id in list(moments):
        table.server.snapshots.end(snapshot_id)
    assert not any(region._parts.mvcc.statistics().registered_readers for region in table.regions)
    table.server.stop()
    return counts


def _compact(table: Serving, generator: random.Random) -> int:
    """Compacts a random part of the stores; returns how many."""
    count = 0
    for region in table.regions:
        for store in region.compaction_facts():
            plan = pick_requested(store.files, CompactionSettings(), major=generator.random() < 0.7)
            if plan is not None and generator.random() < 0.7:
                table.server._compact_region(region.region_id, store.family.number, plan, Progress())
                count += 1
    return count


def _plan(generator: random.Random) -> ScanPlan:
    start, stop = sorted([generator.choice([b"", *ROWS]), generator.choice(ROWS)])
    return ScanPlan(
        Selection(versions=5),
        ranges=((start, stop if stop > start and generator.random() < 0.7 else b""),),
        reverse=generator.random() < 0.5,
        row_limit=generator.choice([0, 0, 1, 3]),
        batch_rows=generator.choice([1, 2, 50]),
    )


def _scan(table: Serving, plan: ScanPlan, snapshot_id: bytes) -> Cells:
    """Scans region by region, as a client does: each with what is left of the limit."""
    found: Cells = []
    for region in reversed(table.regions) if plan.reverse else table.regions:
        left = plan.row_limit - len({row for row, _ in found})
        if plan.row_limit and not left:
            break
        scanned = table.server.region_at(region.region_id, snapshot_id) if snapshot_id else region
        with scanned.scan(replace(plan, row_limit=left if plan.row_limit else 0)) as (_, answers):
            found += cells_of(answers)
    return found
