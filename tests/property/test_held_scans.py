"""A scan that is held open returns one moment, byte for byte, whatever happens to the region meanwhile.

The table is written with puts, tombstones of all kinds and bulk batches of lines, at timestamps in any order; versions
exceed the limit and expire; the region is flushed and its files are compacted, by windows of a few cells. Long scans
take one batch at a time, short ones read parts of the same moments. The model keeps all writes and drops nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, DELETE_VERSION, PUT, Durability, Family, ReadPoint
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.picker import Kind, Plan, pick, pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import Change, Delete, DeleteKind, Put, ScanPlan, Selection
from rowlock_regionserver.region.compacting import StoreFacts
from rowlock_regionserver.scan.scanner import Scan

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.list_source import Write
from tests.property.scan_model import Model
from tests.seeds import generator_of
from tests.unit.region.lone_region import LoneRegion
from tests.unit.region.row_batches import row_batch
from tests.unit.scan.whole_scans import all_rows_at

CASES = range(case_count(4, 1))
STEPS = 300
SHORT_SCANS = 250
ROWS = [b"%02d" % number for number in range(12)]
QUALIFIERS = [b"a", b"b"]
SELECTION = Selection(versions=5)
_KINDS = {
    DELETE_VERSION: DeleteKind.VERSION,
    DELETE_COLUMN: DeleteKind.COLUMN,
    DELETE_FAMILY: DeleteKind.FAMILY,
}
Cell = tuple[bytes, bytes, bytes, int, bytes]


class _Moment:
    """A registered read point, what the model answers there, and the long scans that read it."""

    def __init__(self, read_point: ReadPoint, cells: Sequence[Cell]) -> None:
        self.read_point = read_point
        self.cells = cells
        self.scans = ExitStack()
        self.long: list[tuple[Scan, list[Cell], bool]] = []  # with what was read, and whether it is backwards


def _left_to_do(facts: StoreFacts) -> tuple[int, int, int]:
    """The numbers of files, of their cells, and of deltas."""
    files = facts.files
    return len(files), sum(file.cell_count for file in files), sum(not file.is_base for file in files)


class _History:
    """One region, its model, and the moments that are held."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self.generator = generator
        config = Config(
            log_segment_bytes=1 << 20,
            bulk_file_bytes_min=generator.choice([1, 1 << 20]),
            scan_window_bytes=generator.choice([200, 600]),
            flush_window_bytes=300,
            flush_merge_window_bytes=generator.choice([300, 1 << 20]),
            compaction_window_bytes=generator.choice([300, 1 << 20]),
            block_cache_bytes=generator.choice([0, 1 << 20]),
            long_work_pause_percent=0,  # without pauses nothing waits for a permit
        )
        self.clock = ManualClock()
        self.lone = LoneRegion(folder, config, self.clock, UnsyncedFiles(), Durability.OS)
        self.lone.alter(set_families=_random_families(generator))
        self.model = Model(self.lone.table.families, (), ReadPoint(0, 0))
        # Rows that are written in columns stay lines longer if no tombstone touches them.
        self.kinds = generator.choice([[PUT], *[[PUT] * 4 + list(_KINDS)] * 3])
        self.moments: list[_Moment] = []
        self.counts: Counter[str] = Counter()

    # ---- writes

    def write(self) -> None:
        generator = self.generator
        row, family, qualifier = generator.choice(ROWS), generator.choice([b"f", b"g"]), generator.choice(QUALIFIERS)
        timestamp, kind = self._timestamp(), generator.choice(self.kinds)
        value = generator.randbytes(generator.choice([1, 5, 40])) if kind == PUT else b""
        qualifier = b"" if kind == DELETE_FAMILY else qualifier
        change: Change = (
            Put(family, qualifier, value, timestamp)
            if kind == PUT
            else Delete(_KINDS[kind], family, qualifier, timestamp)
        )
        self.lone.change(row, change)
        self._add([Write(row, family, qualifier, timestamp, self._newest(), kind, value)])

    def bulk(self) -> None:
        """Writes a batch of lines."""
        generator = self.generator
        family, timestamp = generator.choice([b"f", b"g"]), self._timestamp()
        rows = generator.sample(ROWS, generator.randint(1, len(ROWS)))
        values = [[generator.choice([None, generator.randbytes(4), b""]) for _ in QUALIFIERS] for _ in rows]
        lines = [(row, timestamp, of_row) for row, of_row in zip(rows, values, strict=True)]
        self.lone.bulk(row_batch([(family, qualifier) for qualifier in QUALIFIERS], lines))
        number = self._newest()
        self._add(
            Write(row, family, qualifier, timestamp, number, PUT, value)
            for row, of_row in zip(rows, values, strict=True)
            for qualifier, value in zip(QUALIFIERS, of_row, strict=True)
            if value is not None
        )

    def _timestamp(self) -> int:
        return self.clock.now_ms() - self.generator.randint(-2, 15)

    def _newest(self) -> int:
        return self.lone.region.statistics().read_point

    def _add(self, writes: Sequence[Write] | Iterator[Write]) -> None:
        self.model = replace(self.model, writes=(*self.model.writes, *writes))

    # ---- what may drop cells

    def flush(self) -> None:
        self.counts["flushes"] += self.lone.flush().store_file_count > 0

    def compact(self) -> None:
        """Compacts neighbouring files, or all as the picker wants it."""
        (facts,) = self.generator.sample(self.lone.region.compaction_facts(), 1)
        files = facts.files
        if not files:
            return
        kind = self.generator.choice(["major", "requested", "random", "random"])
        plan: Plan | None
        if kind != "random":
            plan = pick_requested(files, CompactionSettings(move_bytes_min=0), major=kind == "major")
        else:
            start = self.generator.randrange(len(files))
            numbers = tuple(file.number for file in files[start : self.generator.randint(start + 1, len(files))])
            plan = Plan(Kind.MINOR, numbers, "a test", groups=(numbers,))
        if plan is not None:
            result = self.lone.region.compact(facts.family.number, plan, Progress())
            self.counts[f"{plan.kind.value} compactions"] += 1
            self.counts["files dropped unread"] += len(plan.dropped)
            self.counts["files moved unread"] += len(plan.moved)
            self.counts["cells dropped"] += result.cells_in - result.cells_out

    def compact_all_that_is_due(self) -> None:
        """Compacts until nothing is due. While no time passes, each plan leaves fewer files, cells or deltas."""
        settings = CompactionSettings(minor_files_min=2, major_dropped_share=0.01, major_age_ms=20)
        for place in range(len(self.lone.table.families)):
            facts = self.lone.region.compaction_facts()[place]
            while (plan := pick(facts.files, settings)) is not None:
                before = facts
                self.lone.region.compact(facts.family.number, plan, Progress())
                facts = self.lone.region.compaction_facts()[place]
                assert _left_to_do(facts) < _left_to_do(before), f"{plan} has changed {before} to no better {facts}"
                self.counts["plans that were due"] += 1

    def tick(self) -> None:
        self.clock.advance(self.generator.choice([1, 3, 10]))

    # ---- reads

    def hold(self) -> None:
        """Opens a moment, and long scans of it in both directions."""
        read_point = self.lone.region.open_read_point()
        at = replace(self.model, read_point=read_point)
        cells = [(row, *cell) for row, found in at.scan(ScanPlan(SELECTION), b"", b"") for cell in found]
        moment = _Moment(read_point, cells)
        for reverse in (False, True):
            plan = ScanPlan(SELECTION, reverse=reverse, batch_rows=1)
            _, scan = moment.scans.enter_context(self.lone.region.scan(plan, all_rows_at(read_point)))
            moment.long.append((scan, [], reverse))
        self.moments.append(moment)
        self.counts["moments"] += 1
        self.counts["cells held"] += len(cells)

    def advance(self) -> None:
        """Takes one batch of each long scan of a moment."""
        if self.moments:
            for scan, found, _ in self.generator.choice(self.moments).long:
                found += _cells_of(scan, 1)

    def short_scan(self) -> None:
        if not self.moments:
            return
        moment, reverse = self.generator.choice(self.moments), self.generator.random() < 0.5
        start, stop = sorted([self.generator.choice(ROWS), self.generator.choice([*ROWS, b"\xff"])])
        plan = ScanPlan(SELECTION, ((start, stop),), reverse=reverse, batch_rows=self.generator.choice([1, 1000]))
        with self.lone.region.scan(plan, all_rows_at(moment.read_point)) as (_, scan):
            found = _cells_of(scan)
        expected = [cell for cell in moment.cells if start <= cell[0] < stop] if start < stop else []
        assert _forwards(found, reverse=reverse) == expected, self._where(moment)
        self.counts["short scans"] += 1

    def release(self) -> None:
        """Reads the long scans of a moment to their ends, and closes it."""
        if self.moments:
            self._finish(self.moments.pop(self.generator.randrange(len(self.moments))))

    def read_now(self) -> None:
        self.hold()
        self._finish(self.moments.pop())

    def _finish(self, moment: _Moment) -> None:
        for scan, found, reverse in moment.long:
            found += _cells_of(scan)
            assert _forwards(found, reverse=reverse) == moment.cells, self._where(moment)
        moment.scans.close()
        self.lone.region.close_read_point(moment.read_point)

    def finish(self) -> None:
        while self.moments:
            self.release()
        self.compact_all_that_is_due()
        self.read_now()
        self.lone.stop()
        assert not self.lone.fatal

    def _where(self, moment: _Moment) -> str:
        return f"at {moment.read_point} of {self.model.families}, after {len(self.model.writes)} writes"


def _random_families(generator: random.Random) -> list[Family]:
    return [
        Family(
            0,
            name,
            versions=generator.randint(1, 3),
            min_versions=generator.choice([0, 0, 1]),
            time_to_live_ms=generator.choice([0, 25]),
            block_bytes=4096,
        )
        for name in (b"f", b"g")
    ]


def _cells_of(scan: Scan, batch_count: int = 1 << 30) -> list[Cell]:
    """Reads some batches of a scan, or all that are left."""
    cells: list[Cell] = []
    for _, answer in zip(range(batch_count), scan, strict=False):
        cells += zip(*(column.to_pylist() for column in answer.table.columns), strict=True)
    return cells


def _forwards(cells: Sequence[Cell], *, reverse: bool) -> Sequence[Cell]:
    """Returns the cells of a scan in ascending order of rows. The cells of a row have one order in both directions."""
    return sorted(cells, key=lambda cell: cell[0]) if reverse else cells


@pytest.mark.parametrize("case", CASES)
def test_a_held_scan_returns_one_moment_and_so_do_short_ones(tmp_path: Path, case: int) -> None:
    counts = check_history(generator_of(case), tmp_path)
    assert counts["short scans"] == SHORT_SCANS
    print(dict(counts))


def check_history(generator: random.Random, folder: Path) -> Counter[str]:
    """Runs one history; returns what happened in it."""
    history = _History(folder, generator)
    events: list[Callable[[], None]] = [
        *[history.write] * 24,
        *[history.bulk] * 2,
        *[history.flush] * 4,
        *[history.compact] * 4,
        *[history.tick] * generator.choice([1, 4]),  # in some cases whole files expire
        *[history.hold] * 1,
        *[history.advance] * 6,
        *[history.release] * 1,
        history.compact_all_that_is_due,
    ]
    for _ in range(STEPS):
        generator.choice(events)()
    if not history.moments:
        history.hold()
    for _ in range(SHORT_SCANS):
        generator.choice([*[history.write] * 4, history.flush, history.compact])()
        history.short_scan()
    history.finish()
    return history.counts
