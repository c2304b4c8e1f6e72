"""Counts what compactions write, without a server or a disk: `python -m bench.compactions [TABLE ...]`.

The picker is the server's; the store is simulated. The tables are those of docs/decisions/size_tiers.md:

    tiers     write amplification of minor compactions alone, for minor_files_min and minor_size_ratio
    steady    the same with major compactions: random overwrites of a base by flushes of about a thousandth of it
    shares    random overwrites of a base for major_delta_share, beside RocksDB's universal style
    flushes   8, 100 and 1,000 flushes into a table of 100,000 rows of 1 KiB
    loads     a table that is loaded in random and in ascending order
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from rowlock_regionserver.compaction.picker import Kind, pick
from rowlock_regionserver.compaction.settings import CompactionSettings

from bench.simulated_store import Picker, Rows, SimulatedStore, rocksdb_universal

MIB = 1024 * 1024
ROW_BYTES = 1024
TIER_FLUSHES = 10_000
FILES_MIN = range(2, 9)
SIZE_RATIOS = (1.0, 1.2, 1.5, 2.0)
SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
PUBLISHED = """
RocksDB's own figures of the universal style. 24 GB of fillrandom over 24 GB: 4.8 with a trigger of 5 files, 3.5 with
max_read_amp chosen by RocksDB, 2.8 with a trigger of 9 files (github.com/facebook/rocksdb/pull/12477).
fillrandom of 10,000,000 keys, with full compactions from 30 % on, wrote 3.55 GB for 0.641 GB of flushes: 5.5
(gist.github.com/siying/d1c16c286d7c59c4d7bba718ca198163). A load at a limited rate: 7.7, with incremental compactions
9.4 (github.com/facebook/rocksdb/pull/8655).
"""


def picker_of(settings: CompactionSettings) -> Picker:
    """Returns the server's picker with these settings."""
    return partial(pick, settings=settings)


def tiers(seed: int) -> None:
    """Minor compactions beside a base that is too large for a major one."""
    generator = random.Random(seed)
    sizes = {
        "equal flushes of 1 MiB": [MIB] * TIER_FLUSHES,
        "flushes of 64 KiB to 64 MiB, each power of two as often": [
            int(2 ** generator.uniform(16, 26)) for _ in range(TIER_FLUSHES)
        ],
    }
    for name, byte_counts in sizes.items():
        for bound, major_deltas in (("at most 9 deltas", 10), ("any number of deltas", 0)):
            print(f"\n{TIER_FLUSHES} {name}, {bound}: write amplification, and deltas on average and at most\n")
            _print_grid(partial(_tier, byte_counts, major_deltas))


def _print_grid(figure: Callable[[int, float], str]) -> None:
    print("| minor_files_min | " + " | ".join(f"ratio {ratio}" for ratio in SIZE_RATIOS) + " |")
    print("| --- |" + " --- |" * len(SIZE_RATIOS))
    for files_min in FILES_MIN:
        print(f"| {files_min} | " + " | ".join(figure(files_min, ratio) for ratio in SIZE_RATIOS) + " |", flush=True)


def _tier(byte_counts: list[int], major_deltas: int, files_min: int, ratio: float) -> str:
    settings = CompactionSettings(minor_files_min=files_min, minor_size_ratio=ratio, major_deltas=major_deltas)
    store = SimulatedStore(picker_of(settings))
    store.add_base(1 << 60)
    counts = []
    for byte_count in byte_counts:
        store.flush_bytes(byte_count)
        counts.append(store.delta_count)
    return f"{store.write_amplification:.1f}; {sum(counts) / len(counts):.1f}, {max(counts)}"


def steady(seed: int) -> None:
    """Flushes of 0.25 to 4 thousandths of the base."""
    print(
        "\n1,000 flushes of 64 KiB to 1 MiB over a base of 256 MiB: write amplification; files, average; compactions\n"
    )
    _print_grid(partial(_steady, seed))


def _steady(seed: int, files_min: int, ratio: float) -> str:
    generator = np.random.default_rng(seed)
    table_rows = 256 * MIB // ROW_BYTES
    store = SimulatedStore(picker_of(CompactionSettings(minor_files_min=files_min, minor_size_ratio=ratio)), ROW_BYTES)
    store.flush_rows(np.ones(table_rows, np.bool_))
    store.flushed_bytes = 0
    file_count = 0
    for _ in range(1000):
        store.flush_rows(_random_rows(generator, table_rows, int(2 ** generator.uniform(6, 10))))
        file_count += len(store.files)
    return f"{store.write_amplification:.1f}; {file_count / 1000:.1f}; {len(store.plans)}"


def shares(seed: int) -> None:
    """1 GiB and 8 GiB of random overwrites over a base of 1 GiB, with flushes of 32 MiB."""
    for gibibytes in (1, 8):
        print(f"\n{gibibytes} GiB of random overwrites over a base of 1 GiB, flushes of 32 MiB\n")
        _print_header("major_delta_share")
        for share in SHARES:
            _overwrites(f"{share:g}", picker_of(CompactionSettings(major_delta_share=share)), gibibytes, seed)
        _overwrites("RocksDB's universal style, simulated", rocksdb_universal, gibibytes, seed)
    print(PUBLISHED)


def _overwrites(name: str, picker: Picker, gibibytes: int, seed: int) -> None:
    rows = 1024 * MIB // ROW_BYTES
    _run(name, picker, rows, [rows // 32] * 32 * gibibytes, seed)


def flushes(seed: int) -> None:
    """Random overwrites of a table of 100 MB, by flushes that overwrite as many rows as it has, or 100 of them."""
    for rows in (100_000, 100):
        print(f"\nA table of 100,000 rows of 1 KiB, flushes of {rows:,} random rows\n")
        _print_header("flushes")
        for count in (8, 100, 1000):
            _run(f"{count:,}", picker_of(CompactionSettings()), 100_000, [rows] * count, seed)
            _run(f"{count:,}, RocksDB simulated", rocksdb_universal, 100_000, [rows] * count, seed)


def _print_header(first: str) -> None:
    columns = ("write amplification", "major, minor", "files when idle: average, most, last", "disk / live, at most")
    print(f"| {' | '.join((first, *columns))} |\n| --- | --- | --- | --- | --- |")


def _run(name: str, picker: Picker, table_rows: int, row_counts: list[int], seed: int) -> None:
    """Loads the table with one flush, which does not count, overwrites rows of it, and prints a line."""
    generator = np.random.default_rng(seed)
    store = SimulatedStore(picker, ROW_BYTES)
    store.flush_rows(np.ones(table_rows, np.bool_))
    store.flushed_bytes = 0
    counts, most_bytes = [], 0
    for row_count in row_counts:
        store.flush_rows(_random_rows(generator, table_rows, row_count))
        counts.append(len(store.files))
        most_bytes = max(most_bytes, store.byte_count)
    _print_line(name, store, counts, most_bytes / (table_rows * ROW_BYTES))


def _print_line(name: str, store: SimulatedStore, counts: list[int], space: float) -> None:
    majors = sum(plan.kind is Kind.MAJOR for plan in store.plans)
    print(
        f"| {name} | {store.write_amplification:.1f} | {majors}, {len(store.plans) - majors} | "
        f"{sum(counts) / len(counts):.1f}, {max(counts)}, {counts[-1]} | {space:.2f} |",
        flush=True,
    )


def _random_rows(generator: np.random.Generator, table_rows: int, row_count: int) -> Rows:
    rows = np.zeros(table_rows, np.bool_)
    rows[generator.integers(0, table_rows, row_count)] = True
    return rows


def loads(seed: int) -> None:
    """4 GiB of new rows in flushes of 32 MiB."""
    print("\n4 GiB of new rows, flushes of 32 MiB\n")
    _print_header("order")
    rows = 4 * 1024 * MIB // ROW_BYTES
    order = np.random.default_rng(seed).permutation(rows)
    for name, places in (("random", order), ("ascending", np.arange(rows))):
        for share in (0.1, 0.5):
            store = SimulatedStore(picker_of(CompactionSettings(major_delta_share=share)), ROW_BYTES)
            counts = []
            for part in np.array_split(places, 128):
                mask = np.zeros(rows, np.bool_)
                mask[part] = True
                store.flush_rows(mask)
                counts.append(len(store.files))
            _print_line(f"{name}, major_delta_share {share}", store, counts, 1.0)


TABLES: Mapping[str, Callable[[int], None]] = {
    "tiers": tiers,
    "steady": steady,
    "shares": shares,
    "flushes": flushes,
    "loads": loads,
}


def main() -> None:
    """Prints the tables that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compactions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES), default=list(TABLES))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.tables:
        TABLES[name](arguments.seed)


if __name__ == "__main__":
    main()
