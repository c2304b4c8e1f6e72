"""Store files for tests: generated cells, and a folder with one file whose blocks hold few cells."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import PUT, Cell, Compression, Family, Kind
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import FoundCell, FoundLine, loaded
from rowlock_regionserver.sources import Chunk, LinesWanted, Source
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

# A row and one of its cells.
RowCell = tuple[bytes, Cell]

# Some three cells of tests fit into a block.
SMALL_FAMILY = Family(1, b"f", block_bytes=250, compression=Compression.NONE)


def simple_cells(row_count: int, column_count: int = 1, value_bytes: int = 20) -> list[RowCell]:
    """Returns rows r00000, r00001, ... with one put a column."""
    return [
        (
            f"r{row:05}".encode(),
            (f"c{column:03}".encode(), -1000 - row, -1 - row, PUT, b"%05d" % row * (value_bytes // 5)),
        )
        for row in range(row_count)
        for column in range(column_count)
    ]


def random_cells(chance: random.Random, cell_count: int) -> list[RowCell]:
    """Returns rows of very different widths, with empty and large values, versions and all kinds, in store order."""
    cells = set()
    for _ in range(cell_count):
        row = chance.choice([b"a", b"b\0", b"b", bytes([chance.randrange(256)]) * chance.choice([1, 2, 40])])
        kind = chance.choice([PUT, PUT, PUT, *Kind])
        qualifier = b"" if kind == Kind.DELETE_FAMILY else chance.choice([b"", b"q", b"q\0", b"x" * 30])
        value = chance.choice([b"", b"v", b"w" * 100, b"z" * 700]) if kind == PUT else b""
        cells.add((row, (qualifier, -chance.randrange(1, 50), -chance.randrange(1, 1000), int(kind), value)))
    # At most one cell for each row, qualifier, timestamp and write number, as the engine writes them.
    unique = {(row, cell[:3]): (row, cell) for row, cell in cells}
    return sorted(unique.values())


def rows_of(cells: Iterable[RowCell]) -> dict[bytes, list[Cell]]:
    """Returns the cells of each row, rows ascending."""
    return {row: [cell for _, cell in group] for row, group in groupby(cells, key=lambda cell: cell[0])}


def table_of(cells: Sequence[RowCell]) -> pa.Table:
    """Returns sorted cells as one table."""
    rows = rows_of(cells)
    return cells_table(list(rows), list(rows.values()))


def cells_of(table: pa.Table) -> list[RowCell]:
    """Returns the cells of a table."""
    return [
        (row, (qualifier, -timestamp, -write_number, kind, value))
        for row, qualifier, timestamp, write_number, kind, value in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        )
    ]


def loaded_cells(cells: Sequence[FoundCell]) -> list[Cell]:
    """Returns the cells with all values loaded."""
    return [(*cell[:4], loaded(cell[4])) for cell in cells]


def cells_of_line(line: FoundLine) -> list[Cell]:
    """Returns the cells of a row that was found as one line."""
    return [
        (name, -line.timestamp, -line.write_number, PUT, value)
        for name, value in zip(line.qualifiers, line.values, strict=True)
    ]


@dataclass
class Case:
    """A folder for a test's store file, which it writes and opens."""

    folder: Path
    files: Files
    family: Family = SMALL_FAMILY

    def __post_init__(self) -> None:
        self.open_files = OpenFiles(self.files)

    @property
    def path(self) -> Path:
        return self.folder / "store-1"

    def write(
        self,
        cells: Sequence[RowCell],
        *,
        table_cells: int = 0,
        compression: Compression = Compression.NONE,
        forms_lines: bool = False,
    ) -> StoreFileInfo:
        """Writes the cells, in tables of `table_cells`; they stay cells unless `forms_lines`."""
        step = table_cells or max(1, len(cells))
        tables = [table_of(cells[start : start + step]) for start in range(0, len(cells), step)]
        family = replace(self.family, compression=compression)
        return write_store_file(self.path, tables, family, self.files, number=1, forms_lines=forms_lines)

    def open_file(self, info: StoreFileInfo, cache_bytes: int = 1 << 20) -> StoreFile:
        return StoreFile.open(self.path, info, BlockCache(cache_bytes), self.open_files)

    def open(self, info: StoreFileInfo, cache_bytes: int = 1 << 20) -> CellRun:
        return cells_run(self.open_file(info, cache_bytes))

    def written(self, cells: Sequence[RowCell], cache_bytes: int = 1 << 20) -> CellRun:
        return self.open(self.write(cells), cache_bytes)

    def close(self) -> None:
        """Closes the descriptors of the files that were opened."""
        self.open_files.close_idle()


@contextmanager
def opened(path: Path, info: StoreFileInfo) -> Iterator[StoreFile]:
    """Opens a store file without a block cache, and closes its descriptor in the end."""
    open_files = OpenFiles(Files())
    try:
        yield StoreFile.open(path, info, BlockCache(0), open_files)
    finally:
        open_files.close_idle()


def cells_run(store_file: StoreFile) -> CellRun:
    """Returns the run of a file that has only cell blocks."""
    [run] = store_file.runs
    assert isinstance(run, CellRun)
    return run


def chunks_of(
    source: Source, start: bytes, stop: bytes, bytes_max: int, reverse: bool = False, wanted: LinesWanted | None = None
) -> list[Chunk]:
    """Reads a range chunk by chunk, as a scan does; returns the chunks in the order of reading."""
    chunks = []
    while True:
        chunk = source.read_rows(start, stop, bytes_max, reverse=reverse, lines=wanted)
        chunks.append(chunk)
        if chunk.frontier is None:
            return chunks
        assert len(chunk), "a chunk that is not the last one must hold a row"
        if reverse:
            stop = chunk.frontier
        else:
            start = chunk.frontier
