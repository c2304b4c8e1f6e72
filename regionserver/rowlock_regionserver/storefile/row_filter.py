"""Says which rows one run of a store file may have."""

from __future__ import annotations

from rowlock_regionserver.storefile import bloom
from rowlock_regionserver.storefile.index import BlockIndex


class RowFilter:
    """The first and the last row of a run, and the Bloom filter of its file. Immutable."""

    __slots__ = ("_bloom_words", "first", "last")

    def __init__(self, bloom_words: bloom.Words, index: BlockIndex) -> None:
        self._bloom_words = bloom_words.data
        # For an empty run the last row comes before the first, so no row is between them.
        self.first = index.first_rows[0] if len(index) else b"\x00"
        self.last = index.last_rows[-1] if len(index) else b""

    def may_hold(self, row: bytes) -> bool:
        """Returns False only if the row is certainly not in the run."""
        return self.first <= row <= self.last and bloom.may_hold(self._bloom_words, row)
