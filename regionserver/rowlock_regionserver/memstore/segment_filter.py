"""A filter of the rows of an immutable segment: it says of most other rows that the segment does not have them.

Right after many batches a memstore has dozens of segments, and a get asks each of them. A search takes some 4 µs, the
filter 0.1. The Bloom filter of a store file takes a fifth of the memory, and ten times as long.

Each row has a place and a mark of 7 bits, both from its hash. A byte of the filter is 0 (no row has this place), the
mark of the rows that have it, or 255 (rows of several marks have it: all pass).

Groups of segments (segment_group.py) divide each place into four quarters. A row's mark says which of them it has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rowlock_regionserver.arrow.columns import Column

# There are this many places for each row, or up to twice as many. So less than a hundredth of absent rows pass, and of
# large rows less than a four-hundredth.
_PLACES_PER_ROW = 8
_PLACES_PER_LARGE_ROW = 16
# A row of this many bytes is large: beside it the places are few bytes.
_LARGE_ROW_BYTES = 256
_SEVERAL = 255
# The mark of a row is made of other bits of its hash than the place.
_MARK_SHIFT = 48
_MARK_MASK = 127
# For each byte of a filter, which quarters of its place have a row: four bytes, 1 or 0. A row's quarter is the last two
# bits of the part of its hash that makes the mark. Numpy looks up the four as one number several times as fast.
_QUARTERS = np.zeros((256, 4), np.uint8)
_QUARTERS[np.arange(1, 255), np.arange(254) & 3] = 1
_QUARTERS[_SEVERAL] = 1
_QUARTERS_AS_ONE = _QUARTERS.view(np.uint32).ravel()


def quarter_of(row: bytes) -> int:
    """Returns the number of the row's quarter among those of all places, modulo four times the number of places."""
    row_hash = hash(row)
    return row_hash << 2 | row_hash >> _MARK_SHIFT & 3


class SegmentFilter:
    """A set of rows that may also contain others. Immutable. Some 0.1 µs a row to make, and to ask."""

    __slots__ = ("_marks", "_mask")

    def __init__(self, rows: Column, byte_count: int = 0) -> None:
        """`rows`: a binary array, in which a row may occur several times. `byte_count`: what the rows take."""
        is_large = byte_count >= _LARGE_ROW_BYTES * max(1, len(rows))
        size = 1 << ((_PLACES_PER_LARGE_ROW if is_large else _PLACES_PER_ROW) * len(rows)).bit_length()
        self._mask = size - 1
        hashes = np.fromiter(map(hash, rows.to_pylist()), np.int64, len(rows))
        places, marks = hashes & self._mask, (hashes >> _MARK_SHIFT & _MARK_MASK) + 1
        filled = np.zeros(size, np.uint8)
        filled[places] = marks
        filled[places[filled[places] != marks]] = _SEVERAL
        self._marks = filled.tobytes()

    @property
    def byte_count(self) -> int:
        """The bytes of the filter, and of its share in a group (segment_group.py)."""
        return len(self._marks) * 3 // 2

    @property
    def place_count(self) -> int:
        """The number of places, a power of two. A row's place is its hash modulo that."""
        return len(self._marks)

    def quarters(self, place_count: int) -> npt.NDArray[np.uint32]:
        """Returns the four quarters of each place, as if there were only this many places.

        A quarter is a byte, 1 if it has a row, else 0. Some 1 ns a place.
        """
        quarters = _QUARTERS_AS_ONE.take(np.frombuffer(self._marks, np.uint8))
        if len(quarters) > place_count:
            quarters = np.bitwise_or.reduce(quarters.reshape(-1, place_count), axis=0)
        return quarters

    def may_hold(self, row: bytes) -> bool:
        """Returns False if the row is not in the filter."""
        row_hash = hash(row)
        mark = self._marks[row_hash & self._mask]
        return mark != 0 and (mark == _SEVERAL or mark == (row_hash >> _MARK_SHIFT & _MARK_MASK) + 1)
