"""What the picker makes of stores that are written for long: few files, and few bytes written for each byte flushed."""

from __future__ import annotations

import math
import random
from functools import partial

import numpy as np
import pytest
from rowlock_regionserver.compaction.picker import Kind, pick
from rowlock_regionserver.compaction.settings import CompactionSettings

from bench.simulated_store import SimulatedStore, rocksdb_universal
from tests.seeds import drawn_seed

MIB = 1024 * 1024
SETTINGS = CompactionSettings()
ROWS = 10_000


def store_of(settings: CompactionSettings = SETTINGS) -> SimulatedStore:
    return SimulatedStore(partial(pick, settings=settings))


def overwrite(store: SimulatedStore, flushes: int, rows: int) -> int:
    """Loads the rows, then overwrites some by each flush. Returns the most files that the idle store had."""
    generator = np.random.default_rng(drawn_seed())
    store.flush_rows(np.ones(ROWS, np.bool_))
    most = 0
    for _ in range(flushes):
        mask = np.zeros(ROWS, np.bool_)
        mask[generator.integers(0, ROWS, rows)] = True
        store.flush_rows(mask)
        most = max(most, len(store.files))
    print(f"{flushes} flushes of {rows} rows: {store.write_amplification:.1f}, at most {most} files")
    return most


def test_the_worked_picture_of_the_documentation_holds() -> None:
    store = store_of()
    store.add_base(1000 * MIB)
    sizes = {}
    for flush in range(1, 14):
        store.flush_bytes(8 * MIB)
        sizes[flush] = [file.facts.byte_count // MIB for file in store.files]
    assert [sizes[flush] for flush in (4, 6, 7)] == [[32, 1000], [8, 8, 32, 1000], [56, 1000]]
    assert [sizes[flush] for flush in (10, 11, 12)] == [[8, 8, 8, 56, 1000], [32, 56, 1000], [8, 32, 56, 1000]]
    assert sizes[13] == [1104]
    assert store.compacted_bytes == (32 + 56 + 32 + 1104) * MIB


@pytest.mark.parametrize("flushes", [300, 3000])
@pytest.mark.parametrize("major_deltas", [10, 0])
def test_minor_compactions_write_each_byte_a_logarithm_of_times(flushes: int, major_deltas: int) -> None:
    generator = random.Random(drawn_seed())
    store = store_of(CompactionSettings(major_deltas=major_deltas))
    store.add_base(1 << 60)
    most = 0
    for _ in range(flushes):
        store.flush_bytes(int(2 ** generator.uniform(16, 26)))
        most = max(most, store.delta_count)
    print(f"{flushes} flushes: write amplification {store.write_amplification:.1f}, at most {most} deltas")
    assert all(plan.kind is Kind.MINOR for plan in store.plans)
    assert store.write_amplification <= 1 + math.log2(flushes)
    assert most <= (9 if major_deltas else 3 * math.log2(flushes))


@pytest.mark.parametrize("flushes", [8, 100, 1000])
def test_a_table_that_is_overwritten_again_and_again_is_one_file(flushes: int) -> None:
    store = store_of()
    assert overwrite(store, flushes, ROWS) <= 3
    assert len(store.files) == 1
    assert store.write_amplification <= 3


@pytest.mark.parametrize("flushes", [8, 100, 1000])
def test_tiny_flushes_leave_few_files_and_rewrite_the_base_seldom(flushes: int) -> None:
    store = store_of()
    assert overwrite(store, flushes, 10) <= 10
    majors = sum(plan.kind is Kind.MAJOR for plan in store.plans)
    assert majors <= flushes * 10 / (0.05 * ROWS) + 1
    assert store.byte_count <= 1.11 * ROWS * 1024


def test_random_overwrites_of_a_base_write_no_more_than_its_share_allows() -> None:
    store = store_of()
    overwrite(store, 100, ROWS // 32)
    store_like_rocksdb = SimulatedStore(rocksdb_universal)
    overwrite(store_like_rocksdb, 100, ROWS // 32)
    assert store.write_amplification <= 1 + 1.1 / 0.1
    assert store.byte_count < store_like_rocksdb.byte_count


def test_rows_that_are_loaded_in_ascending_order_are_seldom_written_again() -> None:
    store = store_of(CompactionSettings(move_bytes_min=64 * 1024))
    rows = np.arange(ROWS)
    for start in range(0, ROWS, 50):
        store.flush_rows((rows >= start) & (rows < start + 50))
    print(f"{len(store.plans)} compactions: {store.write_amplification:.1f}, {len(store.files)} files")
    assert store.write_amplification <= 4
    assert len(store.files) <= SETTINGS.files_max / 4 + 1 + 9
    bases = [file for file in store.files if file.facts.is_base]
    assert len({row for base in bases for row in (base.facts.first_row, base.facts.last_row)}) == 2 * len(bases)


def test_a_store_that_was_left_alone_with_a_thousand_files_becomes_idle() -> None:
    store = SimulatedStore(lambda files: None)
    overwrite(store, 1000, 10)
    assert len(store.files) == 1001
    compacted = store_of()
    compacted.files = store.files
    compacted.flush_rows(np.ones(ROWS, np.bool_))
    assert len(compacted.files) <= 2
    assert all(len(plan.inputs) <= SETTINGS.files_max for plan in compacted.plans)
