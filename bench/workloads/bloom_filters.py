"""How many store files a get of an absent row does not read, because of their Bloom filters. Counted, not timed."""

from __future__ import annotations

import random
from pathlib import Path

from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import PUT, Family
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.targets.messages import FAMILY, QUALIFIER, row_key

_FILES = 20
_ROWS = 5000
_ABSENT_ROWS = 5000


def skipped(bench: Bench) -> Measurement:
    """Counts the files that absent rows skip, of files whose first and last rows are around them; one sample a file."""
    chance = random.Random(1)
    row_count = bench.scaled(_ROWS, at_least=100)
    folder = bench.fresh_folder("bloom")
    # Even numbers are written, odd ones are absent, and both are everywhere.
    absent = [row_key(2 * chance.randrange(100, 10 * row_count - 100) + 1) for _ in range(_ABSENT_ROWS)]
    shares = []
    for number in range(1, _FILES + 1):
        file = _written(folder / f"{number}", number, sorted(chance.sample(range(10 * row_count), row_count)))
        around = [row for row in absent if file.first_row < row < file.last_row]
        skipping = [row for row in around if not any(run.rows.may_hold(row) for run in file.runs)]
        shares.append(len(skipping) / len(around))
    return Measurement(Spread.of(shares), {"absent rows": Spread.of([len(absent)])})


def _written(path: Path, number: int, numbers: list[int]) -> StoreFile:
    rows = [row_key(2 * each) for each in numbers]
    cells = [[(QUALIFIER, -1_700_000_000_000, -number, PUT, b"value")] for _ in rows]
    files = Files()
    info = write_store_file(path, [cells_table(rows, cells)], Family(1, FAMILY), files, number=number)
    return StoreFile.open(path, info, BlockCache(0), OpenFiles(files))
