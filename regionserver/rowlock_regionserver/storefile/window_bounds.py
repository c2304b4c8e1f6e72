"""How many wide blocks a window of a bulk read may have, found without a step for each block."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rowlock_regionserver.arrow.columns import Integers
from rowlock_regionserver.cells import CELL_BYTES_BESIDE
from rowlock_regionserver.storefile.shares import Shares
from rowlock_regionserver.storefile.wide_index import WideIndex

# A scan that needs nothing of the blocks, because it counts rows, stops after this many of them.
WINDOW_BLOCKS_MAX = 4096
# About the memory of a block's keys beside rows and numbers.
_KEYS_OVERHEAD_BYTES = 2500


class WindowBounds:
    """The sums of bytes before each block of a run, by which a window's last block is found. Immutable."""

    def __init__(self, index: WideIndex) -> None:
        self._raw_before = _sums(index.raw_bytes)
        # What cells have beside the bytes of lines.
        self._beside_before = _sums(
            [
                count * (len(row) + CELL_BYTES_BESIDE)
                for count, row in zip(index.cell_counts, index.first_rows, strict=True)
            ]
        )
        self._with_versions = np.flatnonzero(index.have_versions)

    def fitting(
        self,
        numbers: range,
        shares: Shares,
        bytes_max: int,
        keys_max: int,
        *,
        counts_cells: bool,
    ) -> range:
        """Returns the first of these neighbours, which may descend, that fit one window; `numbers` has one at least.

        `bytes_max` bounds the bytes of rows and wanted columns before compression, and of what cells have beside them
        if `counts_cells` is set. `keys_max` bounds the memory of keys, stored and decompressed. The first block always
        fits, but a block that has a row of several lines does not, nor do those after it.
        """
        numbers = numbers[:WINDOW_BLOCKS_MAX]
        byte_counts = shares.raw * _sums_up_to(self._raw_before, numbers)
        if counts_cells:
            byte_counts += _sums_up_to(self._beside_before, numbers)
        key_bytes = 2 * shares.raw_keys * _sums_up_to(self._raw_before, numbers)
        key_bytes += _KEYS_OVERHEAD_BYTES * np.arange(1, len(numbers) + 1)
        count = max(1, int(np.count_nonzero((byte_counts <= bytes_max) & (key_bytes <= keys_max))))
        first, last = sorted([numbers[0], numbers[count - 1]])
        low, high = np.searchsorted(self._with_versions, [first, last + 1])
        if low < high:
            count = numbers.index(int(self._with_versions[low if numbers.step > 0 else high - 1]))
        return numbers[:count]


def _sums(counts: Iterable[int]) -> Integers:
    """Returns the sum of the counts before each one, and at last the sum of all."""
    return np.cumsum([0, *counts], dtype=np.int64)


def _sums_up_to(before: Integers, numbers: range) -> Integers:
    """Returns for each of these neighbours the sum of the counts from the first one up to it, including both."""
    sums: Integers
    if numbers.step > 0:
        sums = before[numbers.start + 1 : numbers.stop + 1] - before[numbers.start]
    else:
        sums = before[numbers[0] + 1] - before[numbers[-1] : numbers[0] + 1][::-1]
    return sums
