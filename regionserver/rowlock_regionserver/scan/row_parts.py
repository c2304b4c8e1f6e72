"""Merges the cells of one row of one family from all its sources, in store order and in parts, for rows of any size.

Parts are merged cell by cell and cut again between columns, because visibility and retention of a cell depend on all
versions of its column (`filtered_row_parts`). For a column that is larger than a part, only the numbers that decide
this are held: timestamp, write number and kind. The cells that are selected are then read again.

Memory: two parts of each source, and 17 bytes a cell of a long column.
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
    bytes_at,
    column,
    integers,
    kinds,
    single_chunk,
)
from rowlock_regionserver.arrow.merge import merged_in_row
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun, concatenated
from rowlock_regionserver.cells import DELETE_FAMILY
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.sources import Chunk, Source

# (qualifier, -timestamp, -write number): the order of a row's cells.
_Place = tuple[bytes, int, int]


@dataclass(frozen=True, slots=True)
class LongColumn:
    """A column that is larger than a part: the timestamps, write numbers and kinds of its cells, in store order."""

    qualifier: bytes
    cells: SortedCells


def filtered_row_parts(
    sources: Sequence[Source],
    row: bytes,
    bytes_max: int,
    keep: Callable[[SortedCells], Mask],
    start: bytes = b"",
    stop: bytes = b"",
) -> Iterator[SortedRun]:
    """Yields the row's cells with qualifiers of [start, stop) that `keep` selects; `keep` is called with whole columns.

    An empty stop means no bound. A run has about `bytes_max`, not counting values that are away. An empty run means
    that the read made progress. Blocks on disks.
    """
    for part in row_parts(sources, row, bytes_max, start, stop):
        if isinstance(part, LongColumn):
            yield from _long_column_runs(sources, row, part, keep(part.cells), bytes_max)
        else:
            yield part.filter(keep(SortedCells.of(part.keys)))


def row_parts(
    sources: Sequence[Source], row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b""
) -> Iterator[SortedRun | LongColumn]:
    """Yields the row's cells with qualifiers of [start, stop), in whole columns; an empty stop means no bound.

    A run has about `bytes_max`, not counting values that are away, and its keys have one chunk a column. Blocks on
    disks.
    """
    return column_parts(_merged(sources, row, bytes_max, start, stop), bytes_max)


def _long_column_runs(
    sources: Sequence[Source], row: bytes, long_column: LongColumn, wanted: Mask, bytes_max: int
) -> Iterator[SortedRun]:
    """Yields the wanted cells of a long column, in runs of about `bytes_max`. Blocks on disks.

    The cells are found again by their numbers: other cells may have been added to the column or removed meanwhile.
    """
    numbers = _Numbers(long_column.cells.at(wanted))
    stop = long_column.qualifier + b"\x00"
    for run in _merged(sources, row, bytes_max, long_column.qualifier, stop):
        found = run.filter(numbers.among(run))
        if len(found):
            yield found


def judged_with_family_tombstones(
    sources: Sequence[Source], row: bytes, rule: Callable[[SortedCells], Mask]
) -> Callable[[SortedCells], Mask]:
    """Returns the rule for parts of the row: for its family tombstones, or for other cells after all of them."""
    tombstones = _of_row(family_tombstones(sources, row))
    if not len(tombstones):
        return rule

    def judged(cells: SortedCells) -> Mask:
        of_family = cells.kind == DELETE_FAMILY
        mask = np.zeros(len(cells), np.bool_)
        mask[~of_family] = rule(cells.at(~of_family).after(tombstones))[len(tombstones) :]
        if of_family.any():
            mask[of_family] = rule(cells.at(of_family))
        return mask

    return judged


def _of_row(cells: Sequence[FoundCell]) -> SortedCells:
    """Returns family tombstones. The row has number 1, as in SortedCells.of, and they precede all columns."""
    count = len(cells)
    return SortedCells(
        row=np.ones(count, np.int64),
        column=np.zeros(count, np.int64),
        timestamp=np.array([-cell[1] for cell in cells], np.int64),
        write_number=np.array([-cell[2] for cell in cells], np.int64),
        kind=np.array([cell[3] for cell in cells], np.int8),
    )


def family_tombstones(sources: Sequence[Source], row: bytes) -> list[FoundCell]:
    """Returns the row's family tombstones, which may hide cells of any of its columns, in store order."""
    found = [cell for source in sources for cell in source.columns_cells(row, ())]
    return sorted(found, key=lambda cell: cell[:3])


def _merged(sources: Sequence[Source], row: bytes, bytes_max: int, start: bytes, stop: bytes) -> Iterator[SortedRun]:
    bytes_each = max(1, bytes_max // max(1, len(sources)))
    return merged_parts([source.row_parts(row, bytes_each, start, stop) for source in sources])


def merged_parts(sources: Sequence[Iterator[Chunk]]) -> Iterator[SortedRun]:
    """Merges the parts of several sources, each in store order, into runs that follow each other in store order."""
    unfinished = dict(enumerate(sources))
    held: dict[int, SortedRun] = {}
    while True:
        for number, source in list(unfinished.items()):
            if number not in held:
                chunk = next(source, None)
                if chunk is None:
                    del unfinished[number]
                else:
                    held[number] = _one_chunk(chunk.run())
        if not held:
            return
        # Of every source all cells up to the least of the last held cells are here.
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
    """Yields the same cells cut between columns; a column of more than `bytes_max` becomes a LongColumn."""
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
    """The last column of the parts so far, which may continue in the next part."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._qualifier: bytes | None = None
        self._runs: list[SortedRun] = []
        self._bytes = 0
        # The numbers of a long column's cells, in place of its runs.
        self._numbers: list[tuple[Integers, Integers, SmallIntegers]] = []

    def begin(self, qualifier: bytes, run: SortedRun) -> None:
        """Begins another column, with these cells."""
        self._qualifier = qualifier
        self._runs, self._bytes, self._numbers = [], 0, []
        self._add(run)

    def take(self, part: SortedRun) -> int:
        """Takes the cells at the part's beginning that belong to the column; returns how many, 0 without a column."""
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
        """Yields the column, if there is one."""
        if self._numbers:
            assert self._qualifier is not None, "cells without a column"
            timestamps, write_numbers, of_kind = (np.concatenate(each) for each in zip(*self._numbers, strict=True))
            ones = np.ones(len(timestamps), np.int64)
            yield LongColumn(self._qualifier, SortedCells(ones, ones, timestamps, write_numbers, of_kind))
        elif self._runs:
            yield _one_chunk(concatenated(self._runs))


def _numbers_of(run: SortedRun) -> tuple[Integers, Integers, SmallIntegers]:
    """Returns copies, so that the memory of the run can be freed."""
    keys = run.keys
    return (
        integers(column(keys, TIMESTAMP)).copy(),
        integers(column(keys, WRITE_NUMBER)).copy(),
        kinds(column(keys, KIND)).copy(),
    )


class _Numbers:
    """A set of cells of one column, identified by timestamp, write number and kind."""

    def __init__(self, cells: SortedCells) -> None:
        self._timestamps = np.unique(cells.timestamp)
        self._write_numbers = np.unique(cells.write_number)
        self._codes = np.sort(self._coded(cells.timestamp, cells.write_number, cells.kind))

    def among(self, run: SortedRun) -> Mask:
        """Returns which cells of the run are in the set; all cells of the run belong to the column."""
        timestamps, write_numbers, of_kind = _numbers_of(run)
        known = _are_among(timestamps, self._timestamps) & _are_among(write_numbers, self._write_numbers)
        return known & _are_among(self._coded(timestamps, write_numbers, of_kind), self._codes)

    def _coded(self, timestamps: Integers, write_numbers: Integers, of_kind: SmallIntegers) -> Integers:
        """Returns one number a cell, distinct for distinct cells whose timestamps and write numbers are in the set."""
        ranks: Integers = np.searchsorted(self._timestamps, timestamps) * (len(self._write_numbers) + 1)
        codes: Integers = (ranks + np.searchsorted(self._write_numbers, write_numbers)) * 4 + of_kind
        return codes


def _are_among(values: Integers, ascending: Integers) -> Mask:
    """Returns which of the values are in the ascending array."""
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
    return bytes_at(run.keys.column(QUALIFIER), cell)


def _begin_of_column(run: SortedRun, qualifier: bytes) -> int:
    """Returns the first cell of this qualifier, which is the qualifier of the run's last cell."""
    low, high = 0, len(run) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _qualifier(run, middle) < qualifier else (low, middle)
    return low
