"""The block index: the contiguous blocks of one bulk read."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields

import pytest
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.wide_index import WideIndex


def index(*places: tuple[int, int]) -> BlockIndex:
    """Returns an index of blocks at (offset, bytes of header and payload)."""
    count = len(places)
    rows = [b"%03d" % number for number in range(count)]
    return BlockIndex(
        [offset for offset, _ in places],
        [byte_count - HEADER_BYTES for _, byte_count in places],
        [1] * count,
        [0] * count,
        rows,
        rows,
    )


def test_blocks_that_lie_one_behind_the_other_are_a_run() -> None:
    blocks = index((4096, 5000), (12288, 5000), (20480, 5000))
    assert blocks.run_from(0, 3, 1 << 20) == range(3)
    assert blocks.run_from(1, 3, 1 << 20) == range(1, 3)
    assert blocks.run_from(0, 2, 1 << 20) == range(2)


def test_a_run_ends_at_its_bytes_at_a_gap_and_where_the_file_goes_back() -> None:
    assert index((4096, 5000), (12288, 5000), (20480, 5000)).run_from(0, 3, 14_000) == range(2)
    assert index((4096, 5000), (40960, 5000)).run_from(0, 2, 1 << 20) == range(1)
    assert index((40960, 5000), (4096, 5000)).run_from(0, 2, 1 << 20) == range(1)


def test_a_block_larger_than_the_bytes_is_a_run_of_its_own() -> None:
    assert index((4096, 50_000), (57344, 50)).run_from(0, 2, 1) == range(1)


@pytest.mark.parametrize("kind", [BlockIndex, WideIndex])
def test_memory_is_counted_about_as_python_holds_it(kind: type[BlockIndex]) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        count = 10_000
        offsets = [(1 << 33) + number for number in range(count)]
        payload_bytes, cell_counts, checksums = ([(1 << 20) + number for number in range(count)] for _ in range(3))
        more = {
            # 0 and 1 take no memory of their own.
            each.name: [number % 2 if each.name == "have_versions" else (1 << 30) + number for number in range(count)]
            for each in fields(kind)[len(fields(BlockIndex)) :]
        }
        first_rows, last_rows = ([b"%020d" % (2 * number + last) for number in range(count)] for last in range(2))
        made = kind(offsets, payload_bytes, cell_counts, checksums, first_rows, last_rows, **more)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.85 < made.bytes_held / held < 1.15, f"{made.bytes_held} bytes counted, {held} held"
