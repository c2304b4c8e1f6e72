"""What flushes, compactions and pruning drop, by both forms of the rules, against a model that keeps every write."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    PUT,
    Cell,
    ProtectedReadPoints,
    ReadPoint,
    from_then_on,
)
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit import mvcc
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.sources import Source
from rowlock_regionserver.versions.past_limits import altered, forgotten
from rowlock_regionserver.versions.retention import Retention, expired_through, retained_cells, retention_of
from rowlock_regionserver.versions.visibility import visible_cells
from rowlock_regionserver.versions.visibility_columns import visible as visible_mask

from tests.drawn_cases import case_count
from tests.property.visibility_model import (
    TIMESTAMP_MAX,
    WRITE_NUMBER_MAX,
    cells_by_row,
    literal_visible_cells,
    random_family,
    random_row,
    table_of,
)
from tests.seeds import drawn_seed
from tests.unit.versions.masked_tables import retained

TABLES = case_count(100, 40)
ROWS_PER_TABLE = 120
HISTORIES = case_count(75, 30)
ALTERED_HISTORIES = case_count(150, 20)
HORIZON_HISTORIES = case_count(150, 30)
EVENTS = 80
ROW_COUNT = 2


@pytest.fixture
def generator() -> random.Random:
    return random.Random(drawn_seed())


def _random_spans(generator: random.Random, newest: int) -> ProtectedReadPoints:
    """Returns protected read points: one range from a read point on, and often others before it."""
    *edges, current = sorted(generator.choices(range(newest + 1), k=generator.choice([1, 1, 2, 3, 5])))
    edges = [edge for edge in dict.fromkeys(edges) if edge < current]
    spans = [(edge, edge) for edge in edges]
    if len(edges) > 2:
        spans[:2] = [(edges[0], edges[1])]
    return (*spans, *from_then_on(current))


def _random_retention(generator: random.Random, newest: int) -> Retention:
    spans = _random_spans(generator, newest)
    expired = generator.choice([-1, generator.randint(0, TIMESTAMP_MAX)])
    return Retention(spans, generator.random() < 0.5, expired, retained_after=_random_horizon(generator, spans))


def _random_horizon(generator: random.Random, spans: ProtectedReadPoints) -> int:
    """Returns the horizon of a change feed, from which on all read points are protected; NEWEST: there is none."""
    return generator.choice([NEWEST, spans[-1][0]])


def test_vectors_and_plain_rules_retain_the_same(generator: random.Random) -> None:
    for _ in range(TABLES):
        rows = [random_row(generator) for _ in range(ROWS_PER_TABLE)]
        versions = generator.randint(1, 3)
        retention = _random_retention(generator, WRITE_NUMBER_MAX)
        by_vectors = cells_by_row(retained(table_of(rows), retention, versions), len(rows))
        for cells, kept in zip(rows, by_vectors, strict=True):
            assert kept == retained_cells(cells, retention, versions), f"{cells} under {retention}, {versions} versions"


# ---- one step, and every read before and after it


def _moved(cells: list[Cell], write_numbers: int) -> list[Cell]:
    """Returns the cells with greater write numbers."""
    return sorted((cell[0], cell[1], cell[2] - write_numbers, cell[3], cell[4]) for cell in cells)


def test_no_read_misses_what_is_dropped(generator: random.Random) -> None:
    """Every read keeps its answer, with older and later data with tombstones and a bulk batch of puts."""
    dropped = dropped_behind_tombstones = 0
    for _ in range(TABLES * ROWS_PER_TABLE // 4):
        is_complete = generator.random() < 0.3
        older = [] if is_complete else random_row(generator, cells_max=5)
        flushed = _moved(random_row(generator, cells_max=8), WRITE_NUMBER_MAX)
        later = _moved(random_row(generator, cells_max=5), 2 * WRITE_NUMBER_MAX)
        bulk = [cell for cell in _moved(random_row(generator, cells_max=3), WRITE_NUMBER_MAX) if cell[3] == PUT]
        taken = {cell[:3] for cell in flushed}
        elsewhere = later if is_complete else older + [cell for cell in bulk if cell[:3] not in taken] + later
        family = random_family(generator)
        oldest_now_ms = generator.randint(0, TIMESTAMP_MAX + 3)
        spans = _random_spans(generator, 3 * WRITE_NUMBER_MAX)
        horizon = _random_horizon(generator, spans)
        expired = expired_through(family, oldest_now_ms)
        retention = Retention(spans, is_complete, expired, retained_after=horizon)
        kept = retained_cells(flushed, retention, family.versions)
        assert all(cell in kept for cell in flushed if -cell[2] > horizon), f"{flushed} under {retention}: {kept}"
        dropped += len(flushed) - len(kept)
        if any(cell[3] != PUT for cell in flushed):
            dropped_behind_tombstones += sum(_is_touched(cell, flushed) for cell in set(flushed) - set(kept))
        for read_point in range(3 * WRITE_NUMBER_MAX + 1):
            if not any(first <= read_point <= last for first, last in spans):
                continue
            at = ReadPoint(read_point, generator.randint(oldest_now_ms, TIMESTAMP_MAX + 4))
            expected = literal_visible_cells(elsewhere + flushed, at, family)
            answer = literal_visible_cells(elsewhere + kept, at, family)
            assert answer == expected, f"{elsewhere} + {flushed} at {at}, under {retention}, in {family}"
    assert dropped > TABLES, "the random rows give nothing to drop"
    assert dropped_behind_tombstones > TABLES, "the random rows give nothing to drop behind tombstones"


def _is_touched(put: Cell, cells: list[Cell]) -> bool:
    """Returns whether some tombstone touches the column of the put."""
    return any(cell[3] == DELETE_FAMILY or (cell[3] != PUT and cell[0] == put[0]) for cell in cells)


# ---- histories of a store

File = Mapping[int, list[Cell]]  # the sorted cells of each row


def _oldest(files: Sequence[File]) -> int:
    """Returns the smallest write number of all cells; NEWEST without any."""
    return min((-cell[2] for file in files for cells in file.values() for cell in cells), default=NEWEST)


class _Store:
    """One family of a region: a memstore, files, readers and a clock. Nothing is ever dropped from `written`."""

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.family = random_family(generator)
        self.history = self.family  # with all past limits, for the model
        self.clock = ManualClock(now_ms=6)
        self.mvcc = Mvcc(0, self.clock)
        self.unpublished: list[int] = []
        self.readers: list[ReadPoint] = []
        self.written: dict[int, list[Cell]] = defaultdict(list)
        self.memory: dict[int, list[Cell]] = defaultdict(list)
        self.files: list[File] = []  # the newest first
        self.kinds = [PUT, *generator.sample([DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY], generator.randint(0, 3))]
        self.dropped: Counter[str] = Counter()

    def write(self) -> None:
        row = self.generator.randrange(ROW_COUNT)
        number = self.mvcc.begin()
        self.unpublished.append(number)
        now_ms = self.clock.now_ms()
        keys = {
            (
                b"" if kind == DELETE_FAMILY else self.generator.choice([b"", b"q"]),
                -self.generator.randint(max(0, now_ms - 5), now_ms + 1),
                kind,
            )
            for kind in self.generator.choices(
                self.kinds, [4, *[1] * (len(self.kinds) - 1)], k=self.generator.choice([1, 1, 2, 3])
            )
        }
        cells: list[Cell] = [(qualifier, at, -number, kind, b"%d" % number) for qualifier, at, kind in keys]
        self.written[row] += cells
        self.memory[row] = sorted([*self.memory[row], *cells])

    def publish(self) -> None:
        """Completes some writes, in any order."""
        self.generator.shuffle(self.unpublished)
        for _ in range(self.generator.randint(0, len(self.unpublished))):
            self.mvcc.complete(self.unpublished.pop())

    def open_reader(self) -> None:
        self.readers.append(self.mvcc.open_read_point())
        if self.generator.random() < 0.2:
            self.mvcc.reopen_read_point(self.readers[-1])
            self.readers.append(self.readers[-1])

    def close_reader(self) -> None:
        if self.readers:
            self.mvcc.close_read_point(self.readers.pop(self.generator.randrange(len(self.readers))))

    def tick(self) -> None:
        self.clock.advance(1)

    def move_horizon(self) -> None:
        """Begins a change feed, retains less for it, or ends it."""
        before = self.mvcc.retained_after
        if before == NEWEST:
            self.mvcc.retain_after(self.mvcc.last)
        else:
            self.mvcc.retain_after(self.generator.choice([self.generator.randint(before, self.mvcc.last), NEWEST]))

    def alter(self) -> None:
        """Changes the limits. No prune looks across an alter, as segments are sealed then."""
        wanted = random_family(self.generator)
        number = self.mvcc.begin()
        self.unpublished.append(number)
        now_ms = self.clock.now_ms()
        self.history = altered(self.history, wanted, number, now_ms)
        self.family = altered(self.family, wanted, number, now_ms)

    def restart(self) -> None:
        """Loses all readers, and publishes everything. What was in memory is replayed, and so may be pruned as one."""
        while self.readers:
            self.close_reader()
        for number in self.unpublished:
            self.mvcc.complete(number)
        self.unpublished = []

    def prune(self) -> None:
        retention = Retention(self.mvcc.read_points_for_pruning(), past=self.family.past)
        for row, cells in self.memory.items():
            self.memory[row] = retained_cells(cells, retention, self.family.versions)

    def flush(self) -> None:
        for number in self.unpublished:
            self.mvcc.complete(number)
        self.unpublished = []
        is_complete = not self.files
        settled = self.mvcc.protected_read_points()[0][0]
        file = self._merged([self.memory], [], is_complete=is_complete)
        if is_complete:
            self.family = forgotten(self.family, settled)
        self.memory = defaultdict(list)
        self.files[:0] = [file] if any(file.values()) else []

    def compact(self) -> None:
        """Puts one file in the place of neighbours."""
        if not self.files:
            return
        start = self.generator.randrange(len(self.files))
        stop = self.generator.randint(start + 1, len(self.files))
        is_complete = stop == len(self.files)
        settled = self.mvcc.protected_read_points()[0][0]
        newer = [self.memory, *self.files[:start]]
        self.files[start:stop] = [self._merged(self.files[start:stop], newer, is_complete=is_complete)]
        if start == 0 and is_complete:
            self.family = forgotten(self.family, min(settled, _oldest([self.memory]) - 1))

    def _merged(self, files: Sequence[File], newer: Sequence[File], *, is_complete: bool) -> File:
        spans = self.mvcc.protected_read_points()
        retention = retention_of(
            self.family,
            spans,
            self.mvcc.oldest_now_ms(),
            is_complete=is_complete,
            write_number_min=_oldest(files),
            newer_from=_oldest(newer),
            retained_after=self.mvcc.retained_after,
        )
        rows = [sorted(cell for file in files for cell in file.get(row, ())) for row in range(ROW_COUNT)]
        kept = [retained_cells(cells, retention, self.family.versions) for cells in rows]
        by_vectors = cells_by_row(retained(table_of(rows), retention, self.family.versions), ROW_COUNT)
        assert by_vectors == kept, f"{rows} under {retention} in {self.family}"
        for before, after in zip(rows, kept, strict=True):
            for cell in set(before) - set(after):
                assert -cell[2] <= self.mvcc.retained_after, f"{cell} is beyond the horizon of the change feed"
                of_kind = "put" if cell[3] == PUT else "tombstone"
                self.dropped[f"{of_kind}, {'complete' if is_complete else 'incomplete'}"] += 1
                self.dropped["expired"] += -cell[1] <= retention.expired_through
                assert cell[3] == PUT or is_complete or self._is_covered(cell, after), f"{cell} of {before}"
        return dict(enumerate(kept))

    def _is_covered(self, tombstone: Cell, cells: Sequence[Cell]) -> bool:
        """Whether some tombstone of `cells` hides whatever this one hides, also under other limits."""
        return any(
            other[1] <= tombstone[1]
            and other[2] < tombstone[2]
            and (other[3] == DELETE_FAMILY or (other[3] == DELETE_COLUMN and other[0] == tombstone[0]))
            and (other[3] == DELETE_FAMILY or tombstone[3] != DELETE_FAMILY)
            for other in cells
        )

    def check_reads(self) -> None:
        now_ms = self.clock.now_ms()
        current = ReadPoint(self.mvcc.read_point, now_ms)
        for at in {*self.readers, current, ReadPoint(self.mvcc.last, now_ms), ReadPoint(NEWEST, now_ms)}:
            for row in range(ROW_COUNT):
                cells = sorted(cell for file in [self.memory, *self.files] for cell in file.get(row, ()))
                expected = literal_visible_cells(self.written[row], at, self.history)
                where = f"row {row} at {at} in {self.family}: {sorted(self.written[row])}, held {cells}"
                assert visible_cells(cells, at, self.family) == expected, where
                if self.family.past:
                    table = table_of([cells])
                    mask = visible_mask(table, at, self.family)
                    assert cells_by_row(table.filter(pa.array(mask)), 1)[0] == expected, where

    def check_that_only_live_cells_are_left(self) -> None:
        """Ends all readers and compacts everything."""
        while self.readers:
            self.close_reader()
        self.mvcc.retain_after(NEWEST)
        self.flush()
        self.files[:] = [self._merged(self.files, [], is_complete=True)]
        at = ReadPoint(self.mvcc.read_point, self.clock.now_ms())
        family = replace(self.history, time_to_live_ms=0) if self.history.min_versions else self.history
        assert not forgotten(self.family, self.mvcc.read_point).past
        for row, cells in self.files[0].items():
            assert cells == literal_visible_cells(self.written[row], at, family), f"row {row} in {family}"


@pytest.mark.parametrize("spans_max", [2, 32])
def test_no_answer_depends_on_flushes_compactions_and_pruning(
    generator: random.Random, monkeypatch: pytest.MonkeyPatch, spans_max: int
) -> None:
    """Covers every order of them, beside readers and writers; few spans stand for many read points."""
    monkeypatch.setattr(mvcc, "PROTECTED_SPANS_MAX", spans_max)
    dropped: Counter[str] = Counter()
    for _ in range(HISTORIES):
        store = _Store(generator)
        events = [
            *[store.write] * 10,
            *[store.publish] * 3,
            *[store.open_reader] * 2,
            *[store.close_reader] * 2,
            *[store.flush] * 3,
            *[store.compact] * 2,
            *[store.prune] * 1,
            *[store.tick] * 1,
        ]
        for _ in range(EVENTS):
            generator.choice(events)()
            store.check_reads()
        store.check_that_only_live_cells_are_left()
        dropped += store.dropped
    assert all(count > HISTORIES / 10 for count in dropped.values()), dropped
    assert len(dropped) == 5, dropped


def test_no_answer_depends_on_flushes_compactions_and_pruning_after_alters(generator: random.Random) -> None:
    """Alters of versions, min_versions and time to live, and restarts, between all else; readers from before them."""
    dropped: Counter[str] = Counter()
    forgotten_count = 0
    for _ in range(ALTERED_HISTORIES):
        store = _Store(generator)
        events = [
            *[store.write] * 10,
            *[store.publish] * 3,
            *[store.open_reader] * 2,
            *[store.close_reader] * 2,
            *[store.flush] * 3,
            *[store.compact] * 3,
            *[store.prune] * 1,
            *[store.tick] * 2,
            *[store.alter] * 2,
            *[store.restart] * 1,
        ]
        for _ in range(EVENTS):
            generator.choice(events)()
            store.check_reads()
        forgotten_count += len(store.history.past) - len(store.family.past)
        store.check_that_only_live_cells_are_left()
        dropped += store.dropped
    assert len(dropped) == 5, dropped
    assert forgotten_count > ALTERED_HISTORIES / 4


def test_beyond_the_horizon_of_a_change_feed_every_cell_stays_and_no_answer_changes(generator: random.Random) -> None:
    """The horizon moves, and the feed ends and begins, between all else; alters too."""
    dropped: Counter[str] = Counter()
    for _ in range(HORIZON_HISTORIES):
        store = _Store(generator)
        events = [
            *[store.write] * 10,
            *[store.publish] * 3,
            *[store.open_reader] * 1,
            *[store.close_reader] * 2,
            *[store.flush] * 3,
            *[store.compact] * 4,
            *[store.prune] * 1,
            *[store.tick] * 2,
            *[store.alter] * generator.choice([0, 1]),
            *[store.move_horizon] * 3,
        ]
        for _ in range(EVENTS):
            generator.choice(events)()
            store.check_reads()
        store.check_that_only_live_cells_are_left()
        dropped += store.dropped
    assert len(dropped) == 5, dropped


# ---- the loop that writes files


def _source(rows: Sequence[Sequence[Cell]]) -> Source:
    """Returns the rows as a segment, of lines if they can be lines."""
    table = table_of(rows)
    lines, rest = lines_of(table)
    return ArrowSegment(table) if lines is None or rest.num_rows else LinesSegment(lines)


def test_rows_in_parts_and_lines_retain_the_same(generator: random.Random) -> None:
    """Windows of all sizes: of whole rows, of columns, and of parts of one column."""
    lines_count = 0
    for _ in range(TABLES * 2):
        row_count = generator.choice([1, 5])
        plain = generator.random() < 0.3
        rows = [random_row(generator, cells_max=generator.choice([4, 30])) for _ in range(row_count)]
        if plain:
            rows = [
                [(b"a", -(row % 5), -1 - row % 2, PUT, b"v"), (b"b", -3, -1, PUT, b"w")] for row in range(row_count)
            ]
        edge = generator.choice([0, generator.randint(0, WRITE_NUMBER_MAX)])
        parts = [[[c for c in row if (-c[2] <= edge) == is_old] for row in rows] for is_old in (False, True)]
        sources = [_source(part) for part in parts if any(part)]
        versions = generator.randint(1, 3)
        retention = _random_retention(generator, WRITE_NUMBER_MAX)
        bytes_max = generator.choice([40, 200, 1000, 100_000])
        found: list[pa.Table] = []
        for piece in retained_tables(sources, retention, versions, bytes_max, generator.choice([bytes_max, 300])):
            lines_count += isinstance(piece, Lines)
            found.append(cells_of(piece) if isinstance(piece, Lines) else piece)
        held = cells_by_row(pa.concat_tables(found), row_count) if found else [[] for _ in rows]
        for cells, kept in zip(rows, held, strict=True):
            assert kept == sorted(kept)
            # Lines pass with expired cells if one of their cells has not expired.
            expected = retained_cells(cells, retention, versions)
            through, horizon = retention.expired_through, retention.retained_after
            alive = [cell for cell in kept if cell[3] != PUT or -cell[1] > through or -cell[2] > horizon]
            assert alive == expected, f"{cells} under {retention}, {versions} versions, {bytes_max}"
    assert lines_count > 10
