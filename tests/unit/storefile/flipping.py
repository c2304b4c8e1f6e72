"""Flips bits of a store file and reads it; a program, so that a test notices if a signal kills it.

    python -m tests.unit.storefile.flipping FOLDER SEED FLIP_COUNT [lines]

writes a store file, with `lines` one of lines and cells, then flips one bit at a time, before the file is opened or
while it is open, spread evenly over every structure; reads it by gets of all rows, gets of absent rows, and scans in
both directions, for cells and for lines with all columns and with one; and verifies it.
Prints how often each structure was hit, and the outcomes, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from rowlock_regionserver.arrow import lines as wide_lines
from rowlock_regionserver.cells import PUT, Cell, Compression, Kind
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import Chunk, LinesWanted, Source
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile, metadata_extent, read_metadata
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_form import Kind as ChunkKind

from tests.unit.storefile.store_file_case import (
    SMALL_FAMILY,
    Case,
    RowCell,
    cells_of,
    cells_run,
    chunks_of,
    loaded_cells,
    rows_of,
    simple_cells,
)


@dataclass
class Bench:
    """The file under test and its expected contents."""

    path: Path
    info: StoreFileInfo
    cells: list[RowCell]
    rows: dict[bytes, list[Cell]]
    absent: list[bytes]

    def open_file(self) -> StoreFile:
        return StoreFile.open(self.path, self.info, BlockCache(1 << 20), OpenFiles(Files()))

    def open(self) -> CellRun:
        return cells_run(self.open_file())


def make(folder: Path) -> Bench:
    cells = simple_cells(40, 2)
    case = Case(folder, Files())
    rows = rows_of(cells)
    return Bench(case.path, case.write(cells), cells, rows, [row + b"x" for row in rows])


def make_with_lines(folder: Path) -> Bench:
    """Makes a file of cells and lines: with nulls, versions, values of several lengths, numbers by line and by cell."""
    cells: list[RowCell] = []
    for number in range(80):
        row = b"r%05d" % number
        # The numbers of the first rows are alike; then each line has its own, and at last each cell.
        timestamp, write_number = (-100, -7) if number < 20 else (-100 - number, -7 - number)
        of_b = (timestamp, write_number) if number < 50 else (-50 - number % 5, -5 - number % 3)
        cells += [(row, (name, timestamp, write_number, PUT, b"%08d" % number)) for name in (b"a", b"c")]
        if number % 3:
            cells.append((row, (b"b", *of_b, PUT, b"v" * (number % 7))))
        if number % 10 == 0:
            cells.append((row, (b"d", timestamp, write_number, int(Kind.DELETE_COLUMN), b"")))
    for number in range(80, 120):
        row = b"r%05d" % number
        for age in range(3):
            # The newest version lacks a column.
            cells += [
                (row, (name, -300 + age, -30 + age, PUT, b"%08d" % (number + age))) for name in (b"a", b"c")[: 1 + age]
            ]
    cells.sort()
    case = Case(folder, Files(), replace(SMALL_FAMILY, block_bytes=500, compression=Compression.ZSTD))
    rows = rows_of(cells)
    info = case.write(cells, compression=Compression.ZSTD, forms_lines=True)
    assert info.block_count, "there are no cell blocks"
    assert info.wide_block_count > 3, "there are few wide blocks"
    assert info.older_block_count > 1, "there are few blocks of older lines"
    return Bench(case.path, info, cells, rows, [row + b"x" for row in rows])


def structures(bench: Bench) -> dict[str, list[tuple[int, int]]]:
    """Returns the parts of the file by name, each as ranges of bytes."""
    files = Files()
    descriptor = files.open(bench.path, 0)
    contents = read_metadata(bench.path, bench.info, files, descriptor)
    data = files.pread(descriptor, bench.info.file_bytes, 0)
    files.close(descriptor)
    blocks, rest = contents.index.extents(), [metadata_extent(bench.info)]
    wide_blocks = [*contents.wide_index.extents(), *contents.older_index.extents()]
    extents = [*blocks, *wide_blocks, *rest]
    found: dict[str, list[tuple[int, int]]] = {
        "lmdb meta pages": [(0, 2 * 4096)],
        "lmdb page headers": [(extent.offset - 16, extent.offset) for extent in extents],
        "metadata header": _header(rest),
        "metadata payload": _payload(rest),
        "block headers": _header(blocks),
        "block payloads": _payload(blocks),
    }
    if wide_blocks:
        found["wide block headers"] = _header(wide_blocks)
        for extent in wide_blocks:
            for name, place in _wide_parts(bench.path, extent, data):
                found.setdefault(name, []).append(place)
    covered = sorted(byte_range for ranges in found.values() for byte_range in ranges)
    found["other: lmdb branch and leaf pages, free pages, padding"] = list(_gaps(covered, bench.info.file_bytes))
    return found


def _wide_parts(path: Path, extent: Extent, data: bytes) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the directory and the chunks of a wide block."""
    start = extent.offset + HEADER_BYTES
    directory = WideChunks.of_extent(extent, pa.py_buffer(data[start : extent.stop]), path).directory
    yield "wide block directories", (start, start + directory.starts[0])
    for form, bounds in zip(directory.form.chunks, pairwise(directory.starts), strict=True):
        name = ChunkKind(form.kind).name.lower().replace("_", " ")
        yield f"wide block chunks of {name}", (start + bounds[0], start + bounds[1])


def _header(extents: list[Extent]) -> list[tuple[int, int]]:
    return [(extent.offset, extent.offset + HEADER_BYTES) for extent in extents]


def _payload(extents: list[Extent]) -> list[tuple[int, int]]:
    return [(extent.offset + HEADER_BYTES, extent.stop) for extent in extents]


def _gaps(covered: list[tuple[int, int]], file_bytes: int) -> Iterator[tuple[int, int]]:
    place = 0
    for start, stop in covered:
        if place < start:
            yield place, start
        place = stop
    if place < file_bytes:
        yield place, file_bytes


def read_everything(bench: Bench, runs: Sequence[Source]) -> str:
    """Reads all: returns "right", or "corruption" if a read raised that. AssertionError for a wrong answer."""
    outcome = "right"
    for row in [*bench.rows, *bench.absent]:
        expected = bench.rows.get(row, [])
        try:
            cells = sorted(cell for run in runs for cell in loaded_cells(run.row_cells(row)))
            of_a = sorted(cell for run in runs for cell in loaded_cells(run.columns_cells(row, [b"a"])))
        except CorruptionError:
            outcome = "corruption"
        else:
            assert cells == expected, f"wrong cells of {row!r}"
            assert of_a == [cell for cell in expected if cell[0] == b"a"], f"a wrong column of {row!r}"
    for reverse in (False, True):
        for wanted in (None, LinesWanted(), OF_A, replace(OF_A, compressed=True)):
            columns = None if wanted is None else wanted.columns
            try:
                chunks = [chunk for run in runs for chunk in chunks_of(run, b"", b"", 2000, reverse, wanted)]
                found = [
                    cell for chunk in chunks for cell in _cells_of(chunk) if columns is None or cell[1][0] in columns
                ]
            except CorruptionError:
                outcome = "corruption"
                continue
            assert sorted(found) == [cell for cell in bench.cells if columns is None or cell[1][0] in columns], (
                "a wrong scan"
            )
    return outcome


OF_A = LinesWanted(frozenset([b"a"]))


def _cells_of(chunk: Chunk) -> list[RowCell]:
    return cells_of(chunk.table if chunk.lines is None else wide_lines.cells_of(chunk.lines))


def flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def read_flipped(bench: Bench, place: int, bit: int, *, while_open: bool) -> str:
    store_file = bench.open_file() if while_open else None
    flip(bench.path, place, bit)
    try:
        outcome = read_everything(bench, (store_file or bench.open_file()).runs)
    except (CorruptionError, DataFolderError):
        outcome = "refused"
    assert verify_store_file(bench.path, bench.info, Files()), "verify did not find the damage"
    for table in salvage(bench.path, Files()):
        if not isinstance(table, CorruptionError):
            assert set(cells_of(table)) <= set(bench.cells), "salvage gave wrong cells"
    flip(bench.path, place, bit)
    return outcome


def main(folder: Path, seed: int, flip_count: int, *, lines: bool) -> dict[str, dict[str, int]]:
    chance = random.Random(seed)
    bench = make_with_lines(folder) if lines else make(folder)
    parts = structures(bench)
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in parts}
    for number in range(flip_count):
        name = list(parts)[number % len(parts)]
        start, stop = chance.choice(parts[name])
        place, bit = chance.randrange(start, stop), chance.randrange(8)
        try:
            outcomes[name][read_flipped(bench, place, bit, while_open=number % 3 == 0)] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, flip {number}: bit {bit} of byte {place}, in {name}")
            raise
    assert read_everything(bench, bench.open_file().runs) == "right"
    return {name: dict(counts) for name, counts in outcomes.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), lines=sys.argv[4:] == ["lines"])))
