"""A memstore under random writes, bulk batches, switches and flushes, against a list of all writes."""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa
from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import Cell, ProtectedReadPoints, ReadPoint, from_then_on
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.memstore import Memstore
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.versions.retention import Retention
from rowlock_regionserver.versions.visibility import visible_cells

from tests.invariants import check
from tests.property.visibility_model import literal_visible_cells, random_family
from tests.seeds import drawn_seed
from tests.unit.versions.masked_tables import retained

ROWS = [b"a", b"b", b"c", b"d", b"e"]


class _History:
    """Random writes to a memstore, and the flushed cells; nothing is ever dropped from `written`."""

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.family = random_family(generator)
        self.memstore = Memstore(self.family.versions)
        self.written: dict[bytes, list[Cell]] = defaultdict(list)
        self.files: list[ArrowSegment] = []
        self.write_number = 0
        self.registered: set[int] = set()  # read points of open scans
        self.tombstones = generator.choice([0.3, 1, 5])  # how often, for 10 puts, each kind of them

    def protected_read_points(self) -> ProtectedReadPoints:
        current = self.write_number - 1
        return (*((number, number) for number in sorted(self.registered) if number < current), *from_then_on(current))

    def write(self) -> None:
        row = self.generator.choice(ROWS)
        self.write_number += 1
        cells = sorted(
            {
                (b"" if kind == 3 else self.generator.choice([b"", b"q"]), -self.generator.randrange(6), kind)
                for kind in self.generator.choices(
                    [0, 1, 2, 3], [10, *3 * [self.tombstones]], k=self.generator.randint(1, 3)
                )
            }
        )
        self._note(row, [(qualifier, at, -self.write_number, kind, b"%d" % kind) for qualifier, at, kind in cells])

    def _note(self, row: bytes, cells: list[Cell]) -> None:
        before = self.memstore.bytes_held
        grown = self.memstore.apply(row, cells, self.protected_read_points)
        assert self.memstore.bytes_held == before + grown
        self.written[row] += cells

    def add_bulk(self) -> None:
        self.write_number += 1
        rows = sorted(self.generator.sample(ROWS, 2))
        cells: list[list[Cell]] = [[(b"q", -self.generator.randrange(6), -self.write_number, 0, b"bulk")] for _ in rows]
        table = cells_table(rows, cells)
        lines, _ = lines_of(table) if self.generator.random() < 0.5 else (None, table)
        self.memstore.add_segment(ArrowSegment(table) if lines is None else LinesSegment(lines))
        for row, row_cells in zip(rows, cells, strict=True):
            self.written[row] += row_cells

    def flush(self) -> None:
        """Flushes like a region: merges all sealed segments and drops cells that no reader needs."""
        sealed = self.memstore.switch()
        cells: dict[bytes, list[Cell]] = defaultdict(list)
        for segment in sealed:
            columns = CellColumns(segment.read_rows(b"", b"", NO_LIMIT).table)
            for row in ROWS:
                cells[row] += columns.row_cells(row)
        rows = sorted(row for row in cells if cells[row])
        table = cells_table(rows, [sorted(cells[row]) for row in rows])
        retention = Retention(self.protected_read_points(), is_complete=not self.files)
        self.files.append(ArrowSegment(retained(table, retention, self.family.versions)))
        self.memstore.drop(sealed)

    def check_reads(self) -> None:
        for read_point in {self.write_number, self.write_number - 1, *self.registered}:
            at = ReadPoint(read_point, 7)
            for row in ROWS:
                sources = [*self.memstore.sources(), *self.files]
                cells = sorted(cell for source in sources for cell in source.row_cells(row))
                expected = literal_visible_cells(self.written[row], at, self.family)
                assert visible_cells(cells, at, self.family) == expected, f"row {row!r} at {at} in {self.family}"


def test_reads_are_the_same_whatever_was_pruned_switched_and_flushed() -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    pruned = 0
    for _ in range(30):
        history = _History(generator)
        history.memstore = _eager(history.family.versions)
        for step in range(120):
            choice = generator.random()
            if choice < 0.85:
                history.write()
            elif choice < 0.88:
                history.add_bulk()
            elif choice < 0.92:
                history.registered.add(history.write_number)
            elif choice < 0.96 and history.registered:
                history.registered.remove(generator.choice(sorted(history.registered)))
            elif choice > 0.98:
                pruned += history.memstore.active.statistics().pruned_cell_count
                history.flush()
            if step % 10 == 9:
                check(history.memstore)
                history.check_reads()
        pruned += history.memstore.active.statistics().pruned_cell_count
    assert pruned > 10, "the random writes give nothing to prune"


def _eager(versions: int) -> Memstore:
    """Returns a memstore whose segments prune rows of more than two cells."""
    return Memstore(versions, prune_cells_min=2)


def test_random_writes_read_back_through_random_ranges() -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    for _ in range(40):
        segment = RowSegment(1, slice_rows=generator.randint(1, 5))
        model: dict[bytes, list[Cell]] = {}
        for number in range(1, generator.randint(2, 60)):
            row = bytes(generator.choices(b"\x00a\xff", k=generator.randint(1, 3)))
            cell: Cell = (bytes([generator.randrange(3)]), -generator.randrange(9), -number, 0, b"v" * number)
            segment.apply(row, [cell], lambda: from_then_on(0))
            model[row] = sorted([*model.get(row, []), cell])
        check(segment)
        for _ in range(20):
            start, stop = (bytes(generator.choices(b"\x00a\xff", k=generator.randint(0, 3))) for _ in range(2))
            reverse = generator.random() < 0.5
            rows = sorted(row for row in model if start <= row and (not stop or row < stop))
            expected = cells_table(rows, [model[row] for row in rows])
            assert _read_all(segment, start, stop, generator.choice([1, 100, 1000]), reverse).equals(expected)


def _read_all(segment: RowSegment, start: bytes, stop: bytes, bytes_max: int, reverse: bool) -> pa.Table:
    """Returns all chunks of [start, stop) as one table."""
    tables: list[pa.Table] = []
    while True:
        chunk = segment.read_rows(start, stop, bytes_max, reverse=reverse)
        tables.append(chunk.table)
        if chunk.frontier is None:
            return pa.concat_tables(tables[::-1] if reverse else tables).combine_chunks()
        start, stop = (start, chunk.frontier) if reverse else (chunk.frontier, stop)
