"""The Bloom filter of a store file's rows, which proves that a row is absent, or says that it may be present.

A row's 64-bit hash (XXH3) picks one 64-bit word of the filter and BITS_PER_ROW bits in it, so a test reads one word,
and all rows are set by a few numpy calls. At 16 bits of space a row fewer than 1 absent row in 100 passes
(tests/unit/storefile/test_format.py). A filter that spreads its bits over all words would need only 10 bits of space,
but a test would read several words.

The upper 32 bits of the hash, scaled to the number of words, pick the word. The lower 30, six at a time, pick the bits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import xxhash

SPACE_BITS_PER_ROW = 16
BITS_PER_ROW = 5

# Rows that are computed in one step; each takes some 50 bytes.
_ROWS_AT_ONCE = 1 << 16

Words = npt.NDArray[np.uint64]


def row_hashes(rows: Iterable[bytes]) -> Words:
    """Returns one hash a row, for build()."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, rows), dtype=np.uint64)


def build(hashes: Words) -> Words:
    """Returns the filter's words, at least one."""
    word_count = max(1, -(-len(hashes) * SPACE_BITS_PER_ROW // 64))
    words = np.zeros(word_count, dtype=np.uint64)
    for first in range(0, len(hashes), _ROWS_AT_ONCE):
        _set(words, hashes[first : first + _ROWS_AT_ONCE])
    return words


def _set(words: Words, hashes: Words) -> None:
    masks = np.zeros(len(hashes), dtype=np.uint64)
    for bit in range(BITS_PER_ROW):
        masks |= np.uint64(1) << ((hashes >> np.uint64(6 * bit)) & np.uint64(63))
    places = ((hashes >> np.uint64(32)) * np.uint64(len(words))) >> np.uint64(32)
    np.bitwise_or.at(words, places.astype(np.intp), masks)


def may_hold(words: memoryview, row: bytes) -> bool:
    """Returns False if the row is not in the filter. `words` has format "Q"; an empty filter contains every row."""
    word_count = len(words)
    if not word_count:
        return True
    bits = xxhash.xxh3_64_intdigest(row)
    # Unrolled, because every point read runs this.
    mask = (
        1 << (bits & 63)
        | 1 << (bits >> 6 & 63)
        | 1 << (bits >> 12 & 63)
        | 1 << (bits >> 18 & 63)
        | 1 << (bits >> 24 & 63)
    )
    word: int = words[(bits >> 32) * word_count >> 32]
    return word & mask == mask
