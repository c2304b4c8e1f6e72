"""Alters of a family's limits, against a model, in two regions: one flushes and compacts at random, one never does."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    PUT,
    Cell,
    Durability,
    Family,
    PastLimits,
    ReadPoint,
)
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import (
    Change,
    ColumnSelector,
    Delete,
    DeleteKind,
    FormColumn,
    Put,
    ScanPlan,
    Selection,
)

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.visibility_model import literal_visible_cells
from tests.seeds import drawn_seed
from tests.unit.region.conftest import bulk_batch
from tests.unit.region.lone_region import LoneRegion
from tests.unit.scan.whole_scans import all_rows_at

HISTORIES = case_count(8, 2)
EVENTS = 60
SEEN = ("flush", "major", "minor", "crash", "forgotten")
_APART = 1000
ROWS = [b"a", b"b"]
QUALIFIERS = [b"", b"q"]
VERSIONS = Selection(versions=9)
CONFIG = Config(log_segment_bytes=1 << 20, long_work_pause_percent=0, bulk_file_bytes_min=1)
START_MS = 1_000_000
Answer = list[tuple[bytes, bytes, int, bytes]]


def _limits(generator: random.Random) -> Family:
    versions = generator.randint(1, 3)
    return Family(
        1,
        b"f",
        versions=versions,
        min_versions=generator.choice([0, 0, generator.randint(0, versions)]),
        time_to_live_ms=generator.choice([0, 3, 6]),
    )


class _Model:
    """Every write and every alter, by the numbers of one region.

    They are multiplied, since a write may get the number of an earlier alter of an empty store after a crash.
    """

    def __init__(self) -> None:
        self.family = Family(1, b"f")
        self.written: dict[bytes, list[Cell]] = defaultdict(list)

    def write(self, row: bytes, number: int, changes: list[Cell]) -> None:
        self.written[row] += [(q, at, -number * _APART, kind, value) for q, at, _, kind, value in changes]

    def alter(self, wanted: Family, number: int, now_ms: int) -> None:
        before = self.family
        gone = now_ms - before.time_to_live_ms if before.time_to_live_ms and not before.min_versions else -1
        place = (number - 1) * _APART + 1 + len(before.past)
        past = PastLimits(place, before.versions, before.min_versions, before.time_to_live_ms, gone)
        self.family = replace(wanted, past=(*before.past, past))

    def answer(self, at: ReadPoint) -> Answer:
        at = ReadPoint(at.write_number * _APART, at.now_ms)
        return [
            (row, cell[0], -cell[1], cell[4])
            for row in ROWS
            for cell in literal_visible_cells(self.written[row], at, self.family)
        ]


class _Twin:
    """One of the two regions, with the read points that are held open in it."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        folder.mkdir()
        self.lone = LoneRegion(folder, CONFIG, clock, UnsyncedFiles(), Durability.ASYNC)
        self.model = _Model()
        self.readers: list[ReadPoint] = []
        self.scans = ExitStack()

    @property
    def last(self) -> int:
        return self.lone.parts.mvcc.last

    def alter(self, wanted: Family, *, crashes: bool) -> None:
        """`crashes`: after the catalog has the new limits, and before the region has applied them."""
        if crashes:
            self.lone._state = self.lone._state.with_altered_table("t", [wanted], (), None)
            self.restart()
        else:
            self.lone.alter([wanted])
        if replace(self.model.family, past=()) != wanted:
            self.model.alter(wanted, self.last, self.lone.clock.now_ms())

    def delete_newest(self, row: bytes, qualifier: bytes) -> None:
        now = ReadPoint(self.last, self.lone.clock.now_ms())
        answer = self.model.answer(now)
        timestamps = [cell[2] for cell in answer if cell[:2] == (row, qualifier)]
        self.lone.change(row, Delete(DeleteKind.VERSION, b"f", qualifier))
        if timestamps:
            self.model.write(row, self.last, [(qualifier, -timestamps[0], 0, DELETE_VERSION, b"")])

    def restart(self) -> None:
        self.readers.clear()
        self.lone.crash()

    def open_reader(self) -> None:
        self.readers.append(self.lone.region.open_read_point())

    def close_reader(self, place: int) -> None:
        self.lone.region.close_read_point(self.readers.pop(place))

    def compact(self, *, major: bool) -> bool:
        facts = next(facts for facts in self.lone.region.compaction_facts() if facts.family.number == 1)
        plan = pick_requested(facts.files, CompactionSettings(), major=major)
        if plan is not None:
            self.lone.region.compact(1, plan, Progress())
        return plan is not None

    def scanned(self, at: ReadPoint | None) -> Answer:
        plan = ScanPlan(replace(VERSIONS, columns=(ColumnSelector(b"f"),)))
        with self.lone.region.scan(plan, () if at is None else all_rows_at(at)) as (_, answers):
            cells = [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()]
        return [(row, qualifier, timestamp, value) for row, _, qualifier, timestamp, value in cells]

    def newest_by_rows(self, at: ReadPoint | None) -> dict[tuple[bytes, bytes], bytes]:
        """The newest values, by the row form of a scan."""
        form = tuple(FormColumn(b"f", qualifier) for qualifier in QUALIFIERS)
        with self.lone.region.scan(ScanPlan(row_form=form), () if at is None else all_rows_at(at)) as (_, answers):
            rows = [list(row.values()) for answer in answers for row in answer.table.to_pylist()]
        return {
            (row[0], qualifier): value
            for row in rows
            for qualifier, value in zip(QUALIFIERS, row[1:], strict=True)
            if value is not None
        }

    def check(self) -> Answer:
        for at in self.readers:
            assert self.scanned(at) == self.model.answer(at), (at, self.model.family, dict(self.model.written))
        at = self.lone.region.open_read_point()
        expected = self.model.answer(at)
        try:
            where = (at, self.model.family, dict(self.model.written))
            assert self.scanned(at) == expected, where
            got = [(row, q, ts, value) for row in ROWS for _, q, ts, value in self.lone.cells(row, versions=9)]
            assert got == expected, where
            newest = {(row, q): value for row, q, _, value in reversed(expected)}
            assert self.newest_by_rows(at) == newest, where
        finally:
            self.lone.region.close_read_point(at)
        return expected


def _change(generator: random.Random, now_ms: int) -> tuple[Change, Cell]:
    kind = generator.choice([PUT, PUT, PUT, PUT, DELETE_VERSION, DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY])
    qualifier = b"" if kind == DELETE_FAMILY else generator.choice(QUALIFIERS)
    timestamp = now_ms - generator.randint(0, 7)
    value = b"%d" % generator.randrange(1000) if kind == PUT else b""
    cell = (qualifier, -timestamp, 0, kind, value)
    if kind == PUT:
        return Put(b"f", qualifier, value, timestamp), cell
    if kind == DELETE_FAMILY:
        return Delete(DeleteKind.FAMILY, b"f", timestamp=timestamp), cell
    of_kind = DeleteKind.VERSION if kind == DELETE_VERSION else DeleteKind.COLUMN
    return Delete(of_kind, b"f", qualifier, timestamp), cell


def test_no_answer_depends_on_flushes_compactions_and_restarts_after_alters(tmp_path: Path) -> None:
    generator = random.Random(drawn_seed())
    seen: Counter[str] = Counter()
    # A few runs have not seen all of it by then, and go on.
    for history in range(100):
        clock = ManualClock(now_ms=START_MS)
        compacted, plain = (_Twin(tmp_path / f"{history}-{name}", clock) for name in ("compacted", "plain"))
        for _ in range(EVENTS):
            _step(generator, clock, compacted, plain, seen)
            assert compacted.check() == plain.check()
        seen["forgotten"] += len(compacted.model.family.past) - len(compacted.lone.region.table.by_name[b"f"].past)
        for twin in (compacted, plain):
            twin.lone.stop()
            assert not twin.lone.fatal
        if history >= HISTORIES - 1 and all(seen[what] > 0 for what in SEEN):
            return
    raise AssertionError(seen)


def _step(generator: random.Random, clock: ManualClock, compacted: _Twin, plain: _Twin, seen: Counter[str]) -> None:
    both = (compacted, plain)
    event = generator.choices(
        [
            "write",
            "delete newest",
            "bulk",
            "tick",
            "flush",
            "minor",
            "major",
            "alter",
            "crash",
            "restart",
            "open",
            "close",
        ],
        [20, 3, 3, 3, 6, 2, 3, 4, 1, 1, 2, 2],
    )[0]
    if event == "write":
        row = generator.choice(ROWS)
        change, cell = _change(generator, clock.now_ms())
        for twin in both:
            twin.lone.change(row, change)
            twin.model.write(row, twin.last, [cell])
    elif event == "delete newest":
        row, qualifier = generator.choice(ROWS), generator.choice(QUALIFIERS)
        for twin in both:
            twin.delete_newest(row, qualifier)
    elif event == "bulk":
        timestamp = clock.now_ms() - generator.randint(0, 7)
        qualifiers = generator.choice([QUALIFIERS, QUALIFIERS, [b""]])
        cells: list[Cell] = [(q, -timestamp, 0, PUT, b"%d" % generator.randrange(1000)) for q in qualifiers]
        for twin in both:
            twin.lone.bulk(bulk_batch(*[(row, b"f", cell[0], timestamp, cell[4]) for row in ROWS for cell in cells]))
            for row in ROWS:
                twin.model.write(row, twin.last, cells)
    elif event == "tick":
        clock.advance(generator.randint(1, 3))
    elif event == "flush":
        compacted.lone.flush()
    elif event in ("minor", "major"):
        seen[event] += compacted.compact(major=event == "major")
        return
    elif event in ("alter", "crash"):
        wanted = _limits(generator)
        for twin in both:
            twin.alter(wanted, crashes=event == "crash")
    elif event == "restart":
        for twin in both:
            twin.restart()
    elif event == "open":
        for twin in both:
            twin.open_reader()
    elif compacted.readers:
        place = generator.randrange(len(compacted.readers))
        for twin in both:
            twin.close_reader(place)
    seen[event] += 1
