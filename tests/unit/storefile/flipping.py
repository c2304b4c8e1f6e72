"""Flips bits of a store file and reads it; a program, so that a test notices if a signal kills it.

    python -m tests.unit.storefile.flipping FOLDER SEED FLIP_COUNT

writes a store file, then flips one bit at a time, before the file is opened or while it is open, spread evenly over
every structure; reads it by gets of all rows, gets of absent rows, and scans in both directions; and verifies it.
Prints how often each structure was hit, and the outcomes, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Cell
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile, metadata_extent, read_metadata
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file

from tests.unit.storefile.store_file_case import Case, RowCell, cells_of, cells_run, chunks_of, rows_of, simple_cells


@dataclass
class Bench:
    """The file under test and its expected contents."""

    path: Path
    info: StoreFileInfo
    cells: list[RowCell]
    rows: dict[bytes, list[Cell]]
    absent: list[bytes]

    def open(self) -> CellRun:
        return cells_run(StoreFile.open(self.path, self.info, BlockCache(1 << 20), OpenFiles(Files())))


def make(folder: Path) -> Bench:
    cells = simple_cells(40, 2)
    case = Case(folder, Files())
    rows = rows_of(cells)
    return Bench(case.path, case.write(cells), cells, rows, [row + b"x" for row in rows])


def structures(bench: Bench) -> dict[str, list[tuple[int, int]]]:
    """Returns the parts of the file by name, each as ranges of bytes."""
    files = Files()
    descriptor = files.open(bench.path, 0)
    index = read_metadata(bench.path, bench.info, files, descriptor).index
    files.close(descriptor)
    extents = [*index.extents(), metadata_extent(bench.info)]
    found: dict[str, list[tuple[int, int]]] = {
        "lmdb meta pages": [(0, 2 * 4096)],
        "lmdb page headers": [(extent.offset - 16, extent.offset) for extent in extents],
        "metadata header": _header(extents[-1:]),
        "metadata payload": _payload(extents[-1:]),
        "block headers": _header(extents[:-1]),
        "block payloads": _payload(extents[:-1]),
    }
    covered = sorted(byte_range for ranges in found.values() for byte_range in ranges)
    found["other: lmdb branch and leaf pages, free pages, padding"] = list(_gaps(covered, bench.info.file_bytes))
    return found


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


def read_everything(bench: Bench, store_file: CellRun) -> str:
    """Reads all: returns "right", or "corruption" if a read raised that. AssertionError for a wrong answer."""
    outcome = "right"
    for row in [*bench.rows, *bench.absent]:
        try:
            cells = list(store_file.row_cells(row))
        except CorruptionError:
            outcome = "corruption"
        else:
            assert cells == bench.rows.get(row, []), f"wrong cells of {row!r}"
    for reverse in (False, True):
        try:
            chunks = chunks_of(store_file, b"", b"", 2000, reverse=reverse)
        except CorruptionError:
            outcome = "corruption"
        else:
            ordered = reversed(chunks) if reverse else chunks
            assert [cell for chunk in ordered for cell in cells_of(chunk.table)] == bench.cells, "a wrong scan"
    return outcome


def flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def read_flipped(bench: Bench, place: int, bit: int, *, while_open: bool) -> str:
    store_file = bench.open() if while_open else None
    flip(bench.path, place, bit)
    try:
        outcome = read_everything(bench, store_file or bench.open())
    except (CorruptionError, DataFolderError):
        outcome = "refused"
    assert verify_store_file(bench.path, bench.info, Files()), "verify did not find the damage"
    for table in salvage(bench.path, Files()):
        if not isinstance(table, CorruptionError):
            assert set(cells_of(table)) <= set(bench.cells), "salvage gave wrong cells"
    flip(bench.path, place, bit)
    return outcome


def main(folder: Path, seed: int, flip_count: int) -> dict[str, dict[str, int]]:
    chance = random.Random(seed)
    bench = make(folder)
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
    assert read_everything(bench, bench.open()) == "right"
    return {name: dict(counts) for name, counts in outcomes.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
