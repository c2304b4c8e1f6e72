"""Compares wide blocks and cell blocks of a store file, without a server: `python -m bench.store_blocks`.

Typed trips of 15 columns are written in both forms. Then the forms take turns: gets from decoded blocks, gets from
blocks that are not cached, and scans, of all columns and of one. Prints processor time, the best of the rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from rowlock_regionserver import process
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.cells import Compression, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import Run, StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

ROUNDS = 5
GETS = 1000
HOT_ROWS = 5000
COLUMN = b"fare"
PIECE_ROWS = 5000


def trips(count: int) -> Lines:
    """Returns rows of 15 columns like those of taxi trips, values big-endian."""
    chance = np.random.default_rng(1)
    pickup = np.sort(chance.integers(1_700_000_000_000_000, 1_702_600_000_000_000, count))
    values: dict[bytes, np.ndarray[tuple[int], np.dtype[np.number]]] = {
        b"pickup": pickup,
        b"dropoff": pickup + chance.integers(60, 3600, count) * 1_000_000,
        b"vendor": chance.integers(1, 3, count).astype(np.int32),
        b"passengers": chance.integers(1, 7, count),
        b"distance": np.round(chance.gamma(1.5, 2, count), 2),
        b"rate": chance.integers(1, 6, count),
        b"flag": np.where(chance.random(count) < 0.99, ord("N"), ord("Y")).astype(np.uint8),
        b"pickup_zone": chance.integers(1, 266, count).astype(np.int32),
        b"dropoff_zone": chance.integers(1, 266, count).astype(np.int32),
        b"payment": chance.integers(1, 5, count),
        b"fare": np.round(chance.gamma(3, 5, count), 2),
        b"extra": chance.choice([0, 0.5, 1, 2.5], count),
        b"tip": np.round(chance.gamma(1, 3, count), 2),
        b"tolls": chance.choice([0.0, 6.55], count),
        b"total": np.round(chance.gamma(3, 7, count), 2),
    }
    columns = []
    for _, column in sorted(values.items()):
        data = column.astype(column.dtype.newbyteorder(">")).tobytes()
        columns.append(fixed_size(column.dtype.itemsize, count, None, pa.py_buffer(data)))
    rows = binary_array([_row(number) for number in range(count)])
    numbers = np.full((1, 1), 1_700_000_000_000), np.full((1, 1), 7)
    return Lines(rows, *numbers, tuple(sorted(values)), tuple(columns))


def _row(number: int) -> bytes:
    return b"%012d" % number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store_blocks", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--compression", choices=[each.name.lower() for each in Compression], default="zstd")
    parser.add_argument("--block-kib", type=int, nargs="+", default=[128, 256, 512], help="of wide blocks")
    options = parser.parse_args()
    process.prepare()
    process.limit_arrow()
    process.set_allocators(Config().memory)
    lines = trips(options.rows)
    tables = [cells_of(lines.slice(at, min(at + PIECE_ROWS, len(lines)))) for at in range(0, len(lines), PIECE_ROWS)]
    forms = {"cells": 128, **{f"wide {kib} KiB": kib for kib in options.block_kib}}
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, tuple[Path, StoreFileInfo]] = {}
        for form, kib in forms.items():
            # A wide block is twice as large as the family's block_bytes.
            block_bytes = (kib if form == "cells" else kib // 2) * 1024
            family = Family(1, b"f", block_bytes=block_bytes, compression=Compression[options.compression.upper()])
            path = Path(folder) / form
            began = time.process_time()
            info = write_store_file(path, tables, family, Files(), number=1, forms_lines=form != "cells")
            print(f"{form:14} written in {time.process_time() - began:.2f} s, {info.file_bytes / 1e6:.1f} MB")
            files[form] = path, info
        measured = {form: _measures(*place, options.rows) for form, place in files.items()}
        best: dict[tuple[str, str], float] = {}
        for _ in range(ROUNDS):
            for form, measures in measured.items():
                for what, measure in measures.items():
                    began = time.process_time()
                    measure()
                    best[form, what] = min(best.get((form, what), 1e9), time.process_time() - began)
    print(f"{'':14}" + "".join(f"{what:>18}" for what in measured["cells"]))
    for form, measures in measured.items():
        seconds = [(best[form, what], "ms" if "scan" in what else "us") for what in measures]
        print(f"{form:14}" + "".join(f"{each * 1e3:>15.1f} {unit}" for each, unit in seconds))


def _measures(path: Path, info: StoreFileInfo, row_count: int) -> dict[str, Callable[[], None]]:
    """Returns the measured calls: a thousand gets, so that milliseconds are microseconds a get, or one scan."""
    cached, uncached = (_opened(path, info, cache_bytes) for cache_bytes in (1 << 30, 0))
    chance = np.random.default_rng(2)
    hot, some = ([_row(number) for number in chance.integers(0, bound, GETS)] for bound in (HOT_ROWS, row_count))
    for row in hot:
        cached.row_cells(row)
    return {
        "get, cached": lambda: _get(cached, hot),
        "one, cached": lambda: _get(cached, hot, [COLUMN]),
        "get, uncached": lambda: _get(uncached, some),
        "one, uncached": lambda: _get(uncached, some, [COLUMN]),
        "scan": lambda: _scan(uncached, LinesWanted()),
        "scan of one": lambda: _scan(uncached, LinesWanted(frozenset([COLUMN]))),
        "scan of keys": lambda: _scan(uncached, LinesWanted(frozenset())),
    }


def _opened(path: Path, info: StoreFileInfo, cache_bytes: int) -> Run:
    [run] = StoreFile.open(path, info, BlockCache(cache_bytes), OpenFiles(Files())).runs
    return run


def _get(run: Run, rows: list[bytes], columns: list[bytes] | None = None) -> None:
    for row in rows:
        assert run.row_cells(row) if columns is None else run.columns_cells(row, columns)


def _scan(run: Run, wanted: LinesWanted) -> None:
    start: bytes | None = b""
    while start is not None:
        start = run.read_rows(start, b"", 1 << 20, lines=wanted).frontier


if __name__ == "__main__":
    main()
