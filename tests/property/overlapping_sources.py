"""Typed rows in store files and segments that overlap: lines with nulls, with values of one length or of several, and
newer lines and cells of some of their columns.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import PUT, Cell, Compression, Family, ReadPoint, from_then_on
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import FormColumn, FormPart, ScanPlan
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

from tests.crash.simulated_files import UnsyncedFiles
from tests.unit.scan.whole_scans import all_rows_at

COLUMNS = [b"a", b"b", b"c", b"d"]
NOW = ReadPoint(100, 1 << 40)


def random_cells(
    chance: random.Random, rows: Sequence[bytes], write_number: int, *, plain: bool = False
) -> dict[bytes, list[Cell]]:
    """Returns puts of one write number: mostly a cell in each column, or of few columns of few rows.

    `plain`: values of each column have one length, or two, and don't shrink; a row has one timestamp and no nulls.
    """
    columns = COLUMNS if write_number == 1 else chance.sample(COLUMNS, chance.choice([1, 1, 2, 4]))
    width = {column: chance.choice([1, 2, 4, 8, 16, 40, None]) for column in columns}
    if plain:
        width = {column: chance.choice([1, 8, 16, 40]) for column in columns}
    null_share = 0 if plain else chance.choice([0, 0, 0.3])
    longer_from = chance.choice([*rows, b"z", b"z", b"z"]) if plain else b"z"
    found: dict[bytes, list[Cell]] = {}
    for row in rows:
        cells: list[Cell] = []
        for column in sorted(columns):
            length = (width[column] or chance.randrange(12)) + (row >= longer_from and column == b"b")
            zero_count = 0 if plain else max(0, length - 1)
            value = bytes(zero_count) + chance.randbytes(length - zero_count)
            timestamp = 5 + len(found) % 3 if plain else chance.choice([5, 5, 5, 6])
            cells.append((column, -timestamp, -write_number, PUT, value))
        kept = [cell for cell in cells if chance.random() >= null_share] or cells[:1]
        found[row] = kept
    return found


def newer(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells under a later timestamp."""
    return [(cell[0], cell[1] - 5, *cell[2:]) for cell in cells]


class World:
    """The sources of one or two families, and all of their cells by row and family."""

    def __init__(self, folder: Path, chance: random.Random, open_files: OpenFiles, *, plain: bool = False) -> None:
        """`plain`: the cells of the oldest source are, and half of the worlds have no other one."""
        self.chance = chance
        self.view: list[tuple[Family, list[Source]]] = []
        self.cells: dict[tuple[bytes, bytes], list[Cell]] = {}
        width = chance.choice([4, 4, 7])
        rows = [b"%0*d" % (width, number) for number in range(chance.choice([5, 60, 400]))]
        if chance.random() < 0.2:
            rows = sorted(row + b"x" * chance.randrange(3) for row in rows)
        has_one_source = plain and chance.random() < 0.5
        for number, name in enumerate([b"f", b"g"][: 1 if has_one_source else chance.choice([1, 1, 2])]):
            family = Family(
                number,
                name,
                versions=chance.choice([1, 3]),
                block_bytes=chance.choice([256, 4096, 64 << 10]),
                compression=Compression.NONE
                if plain
                else chance.choice([Compression.NONE, Compression.LZ4, Compression.ZSTD, Compression.ZSTD]),
            )
            sources: list[Source] = []
            for write_number in range(1, 2 if has_one_source else chance.choice([2, 2, 3, 4])):
                some = rows
                if write_number > 1:
                    some = sorted(chance.sample(rows, chance.randrange(1, len(rows))))
                    some += [b"9999new"] if chance.random() < 0.2 else []
                cells = random_cells(chance, some, write_number, plain=plain and write_number == 1)
                if chance.random() < 0.15:
                    # Rows with versions.
                    older = random_cells(chance, some[::2], write_number)
                    cells = {row: sorted([*older.get(row, []), *newer(of_row)]) for row, of_row in cells.items()}
                sources += self._source(folder / f"{number}-{write_number}", family, cells, open_files)
                for row, of_row in cells.items():
                    self.cells.setdefault((row, name), []).extend(of_row)
            self.view.append((family, sources))

    def _source(
        self, path: Path, family: Family, cells: Mapping[bytes, list[Cell]], open_files: OpenFiles
    ) -> Sequence[Source]:
        kind = self.chance.random()
        if kind < 0.2:
            segment = RowSegment(family.versions, slice_rows=50)
            for row, of_row in cells.items():
                segment.apply(row, of_row, lambda: from_then_on(0))
            return [segment]
        table = cells_table(list(cells), list(cells.values()))
        if kind < 0.35:
            lines, rest = lines_of(table)
            if lines is not None and not rest.num_rows:
                return [LinesSegment(lines)]
        info = write_store_file(path, [table], family, UnsyncedFiles(), number=1)
        cache = BlockCache(self.chance.choice([0, 1 << 20]))
        infos = [info]
        if self.chance.random() < 0.2:
            # As after a split and a merge of two regions.
            row = self.chance.choice(list(cells))
            infos = [replace(info, clip_stop=row), replace(info, clip_start=row)]
        runs = [run for each in infos for run in StoreFile.open(path, each, cache, open_files).runs]
        for row in self.chance.sample(list(cells), min(3, len(cells))):
            for run in runs:
                run.row_cells(row)  # puts blocks into the cache
        return runs

    def plan(self) -> ScanPlan:
        chance = self.chance
        every = [
            FormColumn(family.name, column, part) for family, _ in self.view for column in COLUMNS for part in FormPart
        ]
        values = [column for column in every if column.part is FormPart.VALUE]
        form = chance.choice([values, chance.sample(values, 1), chance.sample(every, 3), []])
        bounds = sorted(b"%04d" % chance.randrange(500) for _ in range(2))
        return ScanPlan(
            ranges=chance.choice([(), (), ((bounds[0], bounds[1] + b"!"),)]),
            row_limit=chance.choice([0, 0, 0, 1, 17]),
            reverse=chance.random() < 0.15,
            batch_bytes=chance.choice([1, 500, 1 << 20]),
            batch_rows=chance.choice([3, 100, 50_000]),
            row_form=tuple(form),
            fixed_size=True,
        )

    def answers(self, plan: ScanPlan, window_bytes: int) -> Sequence[ScanAnswer]:
        return list(scan(lambda: self.view, plan, all_rows_at(NOW), window_bytes=window_bytes))
