"""Cuts a sorted segment into chunks of whole rows, by bisection over the bytes of its cells or lines."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Places(Protocol):
    """A sorted segment's cells or lines, by place."""

    def row(self, place: int) -> bytes:
        """Returns the row at `place`."""

    def first_at_or_after(self, row: bytes) -> int:
        """Returns the first place with a row >= `row`; the number of places if there is none."""

    def bytes_of(self, start: int, stop: int) -> int:
        """Returns the bytes of the places [start, stop)."""


class RowCut(NamedTuple):
    """The places [start, stop) of whole rows, and the frontier and the wide row of their chunk; see sources.Chunk."""

    start: int
    stop: int
    frontier: bytes | None = None
    wide_row: bytes | None = None


def cut_rows(places: Places, first: int, last: int, bytes_max: int, row_bytes_max: int, *, reverse: bool) -> RowCut:
    """Returns whole rows of the places [first, last), the first ones or with `reverse` the last ones; see Source."""
    if first >= last:
        return RowCut(first, first)
    # Only the row in which `bytes_max` is reached can be wide: the rows before it have fewer bytes together.
    row = places.row(last_within(places, first, last, bytes_max, reverse=reverse))
    begins, ends = places.first_at_or_after(row), places.first_at_or_after(row + b"\x00")
    if places.bytes_of(begins, ends) > row_bytes_max:
        if reverse:
            return RowCut(ends, last, row + b"\x00", row)
        return RowCut(first, begins, row, row)
    if reverse:
        return RowCut(begins, last, row if first < begins else None)
    return RowCut(first, ends, row + b"\x00" if ends < last else None)


def last_within(places: Places, first: int, last: int, bytes_max: int, *, reverse: bool) -> int:
    """Returns the place of [first, last) at which `bytes_max` is reached, counted from where reading starts."""
    low, high = first, last - 1
    while low < high:
        middle = (low + high + 1) // 2 if reverse else (low + high) // 2
        reached = places.bytes_of(middle, last) if reverse else places.bytes_of(first, middle + 1)
        if reverse:
            low, high = (middle, high) if reached >= bytes_max else (low, middle - 1)
        else:
            low, high = (low, middle) if reached >= bytes_max else (middle + 1, high)
    return low


def weights(places: Places, place_count: int, count: int) -> list[tuple[bytes, int]]:
    """Returns about `count` pairs (row, bytes from it on), ascending: where a scan may be split."""
    stride = max(1, -(-place_count // count))
    of_rows: dict[bytes, int] = {}
    for first in range(0, place_count, stride):
        row = places.row(first)
        of_rows[row] = of_rows.get(row, 0) + places.bytes_of(first, min(first + stride, place_count))
    return list(of_rows.items())
