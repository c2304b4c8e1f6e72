"""Random cells of typed tables, written as cells and lines in any mixture, and read back as a scan reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
from rowlock_regionserver.arrow import lines as wide
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import PUT, Kind
from rowlock_regionserver.sources import Chunk, LinesWanted, Source

from tests.unit.storefile.store_file_case import RowCell, cells_of, rows_of, table_of

COLUMNS = [b"", b"a", b"b", b"b\0", b"long" * 20, b"z"]


def typed_cells(chance: random.Random, row_count: int) -> list[RowCell]:
    """Returns rows as a table of typed columns has them: most alike; with nulls, versions, tombstones and odd rows."""
    width = {qualifier: chance.choice([0, 1, 4, 8, None]) for qualifier in COLUMNS}
    null_share, version_share, other_share = (chance.choice([0, 0, 0.2, 0.9]) for _ in range(3))
    cells: dict[object, RowCell] = {}
    for row_number in range(row_count):
        row = b"k%03d" % row_number + b"x" * (chance.choice([0, 0, 0, 7]) if null_share else 0)
        for _ in range(1 + (chance.random() < version_share) * chance.randrange(1, 4)):
            timestamp, write_number = chance.choice([5, 5, 5, 6, 7]), chance.choice([9, 9, 9, 10, 11])
            for qualifier in COLUMNS:
                if chance.random() < null_share:
                    continue
                if chance.random() < other_share / 10:
                    timestamp, write_number = chance.randrange(20), chance.randrange(1, 20)
                length = width[qualifier]
                value = chance.randbytes(chance.randrange(30) if length is None else length)
                kind = PUT if chance.random() > other_share / 20 else int(chance.choice(list(Kind)))
                name = b"" if kind == Kind.DELETE_FAMILY else qualifier
                cell = (name, -timestamp, -write_number, kind, value if kind == PUT else b"")
                cells[row, cell[:3]] = (row, cell)
    return sorted(cells.values())


def cut_into_pieces(chance: random.Random, cells: list[RowCell]) -> Iterator[pa.Table | wide.Lines]:
    """Yields the cells as tables, of which rows may continue in the next, and as lines of whole rows."""
    rows = list(rows_of(cells).items())
    while rows:
        some = [rows.pop(0) for _ in range(min(len(rows), chance.randrange(1, 12)))]
        part = [(row, cell) for row, row_cells in some for cell in row_cells]
        lines, rest = lines_of(table_of(part))
        if lines is not None and not rest.num_rows and chance.random() < 0.5:
            yield lines
        else:
            step = chance.choice([1, 3, 1000])
            for start in range(0, len(part), step):
                yield table_of(part[start : start + step])


def read(
    run: Source, start: bytes, stop: bytes, bytes_max: int, wanted: LinesWanted | None, *, reverse: bool
) -> list[Chunk]:
    """Reads a range as a scan does; returns the chunks in ascending order."""
    chunks: list[Chunk] = []
    while True:
        chunk = run.read_rows(start, stop, bytes_max, reverse=reverse, lines=wanted)
        chunks.append(chunk)
        if chunk.frontier is None:
            return chunks[::-1] if reverse else chunks
        start, stop = (start, chunk.frontier) if reverse else (chunk.frontier, stop)


def cells_in(chunks: Sequence[Chunk]) -> list[RowCell]:
    return [
        cell
        for chunk in chunks
        for cell in cells_of(chunk.table if chunk.lines is None else wide.cells_of(chunk.lines))
    ]


def check_flags(chunk: Chunk) -> None:
    """Asserts that the flags of a chunk are not optimistic."""
    if chunk.lines is not None:
        chunk.lines.check()
        assert chunk.has_versions or not chunk.lines.has_versions
    cells = [cell for _, cell in cells_in([chunk])]
    assert chunk.has_tombstones or all(cell[3] == PUT for cell in cells)
    assert all(-cell[2] <= chunk.write_number_max and -cell[1] >= chunk.timestamp_min for cell in cells)
