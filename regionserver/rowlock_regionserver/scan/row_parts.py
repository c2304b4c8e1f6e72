"""The cells of one row of one family from all its sources, in store order and in parts: a row may be of any size.

Parts are merged cell by cell, and cut again between columns, because what is visible of a column, and what a flush may
drop of it, is judged of all its versions together (`kept_of_row`). Of a column that is larger than a part only the
numbers are kept that this is judged by, and those of its cells that are wanted are read once more.

Memory: two parts of each source, and of a long column 17 bytes a cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rowlock_regionserver.arrow.columns import (
    KIND,
    QUALIFIER,
    TIMESTAMP,
    WRITE_NUMBER,
    Integers,
    Mask,
    SmallIntegers,
    column,
    integers,
    kinds,
    single_chunk,
)
from rowlock_regionserver.arrow.merge import merged_in_row
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun, together
from rowlock_regionserver.sources import Chunk, FoundCell, Source

# (qualifier, -timestamp, -write number): the order of a row's cells.
_Place = tuple[bytes, int, int]


@dataclass(frozen=True, slots=True)
class LongColumn:
    """A column that is larger than a part: what its cells are judged by, in store order."""

    qualifier: bytes
    cells: SortedCells


def kept_of_row(
    sources: Sequence[Source],
    row: bytes,
    bytes_max: int,
    keep: Callable[[SortedCells], Mask],
    start: bytes = b"",
    stop: bytes = b"",
) -> Iterator[SortedRun]:
    """The row's cells with qualifiers of [start, stop) that `keep` selects; it is called with whole columns.

    An empty stop is no bound. A run has about `bytes_max`, not counting values that are away; it may be empty: the read
    continues. Blocks on disks.
    """
    for part in row_parts(sources, row, bytes_max, start, stop):
        if isinstance(part, LongColumn):
            yield from _long_column_runs(sources, row, part, keep(part.cells), bytes_max)
        else:
            yield part.kept(keep(SortedCells.of(part.keys)))


def row_parts(
    sources: Sequence[Source], row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b""
) -> Iterator[SortedRun | LongColumn]:
    """The row's cells with qualifiers of [start, stop), in whole columns; an empty stop is no bound.

    A run has about `bytes_max`, not counting values that are away, and its keys have one chunk a column. Blocks on
    disks.
    """
    return column_parts(_merged(sources, row, bytes_max, start, stop), bytes_max)


def _long_column_runs(
    sources: Sequence[Source], row: bytes, long_column: LongColumn, wanted: Mask, bytes_max: int
) -> Iterator[SortedRun]:
    """Those cells of a long column that are wanted, in runs of about `bytes_max`. Blocks on disks.

    They are found again by their numbers: other cells may have come to the column, or gone from it, meanwhile.
    """
    numbers = _Numbers(long_column.cells.at(wanted))
    stop = long_column.qualifier + b"\x00"
    for run in _merged(sources, row, bytes_max, long_column.qualifier, stop):
        kept = run.kept(numbers.among(run))
        if len(kept):
            yield kept


def family_tombstones(sources: Sequence[Source], row: bytes) -> list[FoundCell]:
    """The row's family tombstones, which may hide cells of any of its columns; in store order."""
    found = [cell for source in sources for cell in source.columns_cells(row, ())]
    return sorted(found, key=lambda cell: cell[:3])


def _merged(sources: Sequence[Source], row: bytes, bytes_max: int, start: bytes, stop: bytes) -> Iterator[SortedRun]:
    bytes_each = max(1, bytes_max // max(1, len(sources)))
    return merged_parts([source.row_parts(row, bytes_each, start, stop) for source in sources])


def merged_parts(sources: Sequence[Iterator[Chunk]]) -> Iterator[SortedRun]:
    """The cells of several sources' parts, each in store order, as runs that are together in store order."""
    left = dict(enumerate(sources))
    held: dict[int, SortedRun] = {}
    while True:
        for number, source in list(left.items()):
            if number not in held:
                chunk = next(source, None)
                if chunk is None:
                    del left[number]
                else:
                    held[number] = _one_chunk(SortedRun.of(chunk))
        if not held:
            return
        # Every source has given all its cells up to the least of their last ones.
        edge = min(_place(run, len(run) - 1) for run in held.values())
        parts = []
        for number, run in list(held.items()):
            cut = _cells_up_to(run, edge)
            if cut:
                parts.append(run.slice(0, cut))
            if cut < len(run):
                held[number] = run.slice(cut, len(run))
            else:
                del held[number]
        yield merged_in_row(parts)


def column_parts(parts: Iterable[SortedRun], bytes_max: int) -> Iterator[SortedRun | LongColumn]:
    """The same cells cut between columns; a column of more than `bytes_max` is given as a LongColumn."""
    held = _OpenColumn(bytes_max)
    for part in parts:
        cut = held.take(part)
        if cut == len(part):
            continue
        yield from held.ended()
        last = _qualifier(part, len(part) - 1)
        begins = _begin_of_column(part, last)
        if cut < begins:
            yield _one_chunk(part.slice(cut, begins))
        held.begin(last, part.slice(begins, len(part)))
    yield from held.ended()


class _OpenColumn:
    """The column that the parts so far end with, which may go on in the next one."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._qualifier: bytes | None = None
        self._runs: list[SortedRun] = []
        self._bytes = 0
        # Of a long one, instead of its runs.
        self._numbers: list[tuple[Integers, Integers, SmallIntegers]] = []

    def begin(self, qualifier: bytes, run: SortedRun) -> None:
        """Another column, which is at least this."""
        self._qualifier = qualifier
        self._runs, self._bytes, self._numbers = [], 0, []
        self._add(run)

    def take(self, part: SortedRun) -> int:
        """Takes the cells at the part's beginning that are of the column, if there is one; gives how many."""
        if self._qualifier is None:
            return 0
        cut = bisect_right(range(len(part)), self._qualifier, key=lambda cell: _qualifier(part, cell))
        if cut:
            self._add(part.slice(0, cut))
        return cut

    def _add(self, run: SortedRun) -> None:
        if not self._numbers:
            self._runs.append(run)
            self._bytes += int(run.keys.nbytes) + int(run.values.byte_counts(with_away=False).sum())
            if self._bytes <= self._bytes_max:
                return
            runs, self._runs = self._runs, []
        else:
            runs = [run]
        self._numbers += [_numbers_of(each) for each in runs]

    def ended(self) -> Iterator[SortedRun | LongColumn]:
        """The column, if there is one."""
        if self._numbers:
            assert self._qualifier is not None, "cells without a column"
            timestamps, write_numbers, of_kind = (np.concatenate(each) for each in zip(*self._numbers, strict=True))
            ones = np.ones(len(timestamps), np.int64)
            yield LongColumn(self._qualifier, SortedCells(ones, ones, timestamps, write_numbers, of_kind))
        elif self._runs:
            yield _one_chunk(together(self._runs))


def _numbers_of(run: SortedRun) -> tuple[Integers, Integers, SmallIntegers]:
    """Copies: what they were cut from can go."""
    keys = run.keys
    return (
        integers(column(keys, TIMESTAMP)).copy(),
        integers(column(keys, WRITE_NUMBER)).copy(),
        kinds(column(keys, KIND)).copy(),
    )


class _Numbers:
    """Some cells of one column, known by timestamp, write number and kind."""

    def __init__(self, cells: SortedCells) -> None:
        self._timestamps = np.unique(cells.timestamp)
        self._write_numbers = np.unique(cells.write_number)
        self._codes = np.sort(self._coded(cells.timestamp, cells.write_number, cells.kind))

    def among(self, run: SortedRun) -> Mask:
        """Which cells of the run, which are all of the column, are these."""
        timestamps, write_numbers, of_kind = _numbers_of(run)
        known = _are_among(timestamps, self._timestamps) & _are_among(write_numbers, self._write_numbers)
        return known & _are_among(self._coded(timestamps, write_numbers, of_kind), self._codes)

    def _coded(self, timestamps: Integers, write_numbers: Integers, of_kind: SmallIntegers) -> Integers:
        """One number a cell, different for different cells whose timestamps and write numbers are known."""
        ranks: Integers = np.searchsorted(self._timestamps, timestamps) * (len(self._write_numbers) + 1)
        codes: Integers = (ranks + np.searchsorted(self._write_numbers, write_numbers)) * 4 + of_kind
        return codes


def _are_among(values: Integers, ascending: Integers) -> Mask:
    """Which of the values stand in the other array."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Mask = ascending[places] == values
    return found


def _one_chunk(run: SortedRun) -> SortedRun:
    return SortedRun(single_chunk(run.keys), run.values)


def _place(run: SortedRun, cell: int) -> _Place:
    qualifier, timestamp, write_number = (
        run.keys.column(place)[cell].as_py() for place in (QUALIFIER, TIMESTAMP, WRITE_NUMBER)
    )
    return qualifier, -timestamp, -write_number


def _cells_up_to(run: SortedRun, place: _Place) -> int:
    return bisect_right(range(len(run)), place, key=lambda cell: _place(run, cell))


def _qualifier(run: SortedRun, cell: int) -> bytes:
    qualifier = run.keys.column(QUALIFIER)[cell].as_py()
    assert isinstance(qualifier, bytes)
    return qualifier


def _begin_of_column(run: SortedRun, qualifier: bytes) -> int:
    """The first cell of this qualifier, which is the last one's."""
    low, high = 0, len(run) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _qualifier(run, middle) < qualifier else (low, middle)
    return low
