"""The number of blocks in a window, beside a count block by block."""

from __future__ import annotations

from dataclasses import fields

import pytest
from rowlock_regionserver.cells import CELL_BYTES_BESIDE
from rowlock_regionserver.storefile.shares import Shares
from rowlock_regionserver.storefile.wide_index import WideIndex
from rowlock_regionserver.storefile.window_bounds import _KEYS_OVERHEAD_BYTES, WINDOW_BLOCKS_MAX, WindowBounds

from tests.seeds import generator_of

_NO_LIMIT = 1 << 60


def index_of(raw_bytes: list[int], cell_counts: list[int], versions: list[int]) -> WideIndex:
    """Returns an index of which only what bounds need is filled in."""
    count = len(raw_bytes)
    first_rows = [f"row-{number}".encode() for number in range(count)]
    rest: dict[str, list[int]] = {
        name: [0] * count
        for name in (field.name for field in fields(WideIndex))
        if name not in ("first_rows", "last_rows", "cell_counts", "raw_bytes", "have_versions")
    }
    return WideIndex(
        first_rows=first_rows,
        last_rows=first_rows,
        cell_counts=cell_counts,
        raw_bytes=raw_bytes,
        have_versions=versions,
        **rest,
    )


def counted(
    index: WideIndex, numbers: range, shares: Shares, bytes_max: int, keys_max: int, *, counts_cells: bool
) -> int:
    """Returns how many of the blocks fit, counted one after the other."""
    byte_count = key_bytes = 0.0
    for place, number in enumerate(numbers):
        byte_count += shares.raw * index.raw_bytes[number]
        if counts_cells:
            byte_count += index.cell_counts[number] * (len(index.first_rows[number]) + CELL_BYTES_BESIDE)
        key_bytes += 2 * shares.raw_keys * index.raw_bytes[number] + _KEYS_OVERHEAD_BYTES
        is_full = byte_count > bytes_max or key_bytes > keys_max or place == WINDOW_BLOCKS_MAX
        if index.have_versions[number] or (place and is_full):
            return place
    return len(numbers)


@pytest.mark.parametrize("counts_cells", [False, True])
def test_as_many_blocks_fit_as_are_counted_one_by_one(*, counts_cells: bool) -> None:
    rng = generator_of(counts_cells)
    for _ in range(200):
        count = rng.randint(1, 30)
        versions = [int(rng.random() < 0.05) for _ in range(count)]
        index = index_of(
            [rng.randrange(1, 100_000) for _ in range(count)], [rng.randint(1, 500) for _ in range(count)], versions
        )
        start = rng.randrange(count)
        numbers = range(start, rng.randint(start + 1, count))
        if rng.random() < 0.5:
            numbers = numbers[::-1]
        # Halves, so that no sum is rounded.
        shares = Shares(1, rng.choice([0, 0.5, 1]), rng.choice([0, 0.25, 0.5]), are_plain=True, may_stay_unread=True)
        bounds = rng.choice([0, 200_000, _NO_LIMIT]), rng.choice([0, 100_000, _NO_LIMIT])
        fitting = WindowBounds(index).fitting(numbers, shares, *bounds, counts_cells=counts_cells)
        assert fitting == numbers[: counted(index, numbers, shares, *bounds, counts_cells=counts_cells)]


def test_a_window_has_a_bounded_number_of_blocks() -> None:
    count = WINDOW_BLOCKS_MAX + 10
    bounds = WindowBounds(index_of([1] * count, [1] * count, [0] * count))
    nothing = Shares(0, 0, 0, are_plain=False, may_stay_unread=False)
    for numbers in (range(count), range(count)[::-1]):
        fitting = bounds.fitting(numbers, nothing, 0, _NO_LIMIT, counts_cells=False)
        assert fitting == numbers[:WINDOW_BLOCKS_MAX]
