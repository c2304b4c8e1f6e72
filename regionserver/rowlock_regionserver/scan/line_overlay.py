"""Makes one line of the lines that several parts have of a row: of each column the newest value.

The parts are folded, one after the other: the lines of a part whose rows the first one also has are laid over it. A
column changes only where the upper part has a newer cell, so the columns that the upper part does not have, and those
in which it is older, are passed on uncopied. The lines of other rows are folded in the same way, and put between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Integers, Mask, integer_array
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, LineColumn, is_present, plain
from rowlock_regionserver.arrow.line_merging import LinesInOrder, concatenated_lines
from rowlock_regionserver.arrow.line_values import as_binary, concatenated_column, spread_values
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.sorted_cells import changes, places_in_runs

# With more parts than this, finding one's rows in another would take longer than sorting all.
_PARTS_MAX = 8


@dataclass(frozen=True, slots=True)
class RankedLines:
    """Lines, and the rank of each one's row among all rows that are merged; both ascend."""

    lines: Lines
    ranks: Integers

    def filter(self, mask: Mask) -> RankedLines:
        """Returns the lines where `mask` is true; itself if it is true everywhere."""
        return self if mask.all() else RankedLines(self.lines.filter(mask), self.ranks[mask])


def one_line_a_row(parts: Sequence[RankedLines], *, keeps_write_numbers: bool = False) -> LinesInOrder | None:
    """Returns one line for each row of the parts, with its newest values; None if there are no lines.

    Its write numbers are undefined unless they are kept.
    """
    remaining = [level for part in parts for level in _levels(part)]
    folded: list[RankedLines] = []
    while remaining := [part for part in remaining if len(part.lines)]:
        # The longest has all rows, mostly.
        base, *others = sorted(remaining, key=lambda part: len(part.lines), reverse=True)
        if len(others) > _PARTS_MAX:
            others = _by_occurrence(others)
        lines = _Folded(base)
        remaining = [lines.lay(other) for other in others]
        folded.append(RankedLines(lines.lines(keeps_write_numbers=keeps_write_numbers), base.ranks))
    if len(folded) < 2:
        return LinesInOrder([folded[0].lines]) if folded else None
    order = np.argsort(np.concatenate([part.ranks for part in folded]), kind="stable")
    return LinesInOrder([part.lines for part in folded], order)


def _levels(part: RankedLines) -> Iterator[RankedLines]:
    """Yields the newest line of each row, then the second ones, and so on, as far as they can be seen."""
    if changes(part.ranks).all():
        yield part
        return
    level_of = places_in_runs(part.ranks)
    for level in range(int(level_of.max()) + 1):
        of_level = part.filter(level_of == level)
        yield of_level
        if not any(column.null_count for column in of_level.lines.values):
            # They hide all older ones of their rows, and only these have still older ones.
            return


def _by_occurrence(parts: Sequence[RankedLines]) -> list[RankedLines]:
    """Returns the same lines, of which no part has two of one row, as parts that each have all rows of the next one.

    So there are as many parts as one row has lines at most, however many were given.
    """
    ranks = np.concatenate([part.ranks for part in parts])
    order = np.argsort(ranks, kind="stable")
    ranks, lines = ranks[order], concatenated_lines([part.lines for part in parts])
    level_of = places_in_runs(ranks)
    levels = [np.flatnonzero(level_of == level) for level in range(int(level_of.max()) + 1)]
    return [RankedLines(lines.take(order[places]), ranks[places]) for places in levels]


@dataclass(slots=True)
class _Newest:
    """One column of the folded lines, and the numbers of its cells, one a line."""

    column: LineColumn
    timestamps: Integers
    write_numbers: Integers


class _Folded:
    """The lines of one part, and what others have been laid over them. Used by one thread."""

    def __init__(self, base: RankedLines) -> None:
        self._base = base
        lines = base.lines
        self._columns = {
            qualifier: _Newest(
                column, lines.numbers_of(lines.timestamps, place), lines.numbers_of(lines.write_numbers, place)
            )
            for place, (qualifier, column) in enumerate(zip(lines.qualifiers, lines.values, strict=True))
        }
        self._is_changed = False

    def lay(self, upper: RankedLines) -> RankedLines:
        """Lays the lines over these whose rows are here; returns those of other rows."""
        base_ranks = self._base.ranks
        if np.array_equal(base_ranks, upper.ranks):
            places, is_here = np.arange(len(base_ranks)), np.ones(len(base_ranks), np.bool_)
        else:
            places = np.searchsorted(base_ranks, upper.ranks)
            is_here = base_ranks[np.minimum(places, len(base_ranks) - 1)] == upper.ranks
            places = places[is_here]
        lines = upper.lines.filter(is_here)
        if len(lines):
            for place, (qualifier, column) in enumerate(zip(lines.qualifiers, lines.values, strict=True)):
                numbers = [lines.numbers_of(each, place) for each in (lines.timestamps, lines.write_numbers)]
                self._lay_column(qualifier, _Newest(column, *numbers), places)
        return upper.filter(~is_here)

    def _lay_column(self, qualifier: bytes, upper: _Newest, places: Integers) -> None:
        count = len(self._base.lines)
        base = self._columns.get(qualifier)
        is_newer = is_present(upper.column)
        if base is not None:
            is_newer = is_newer & _is_above(upper, base, places)  # A new one: the column keeps what it has returned.
        wins = np.flatnonzero(is_newer)
        if not len(wins):
            return
        self._is_changed = True
        if len(wins) == count:
            self._columns[qualifier] = upper
            return
        at = places[wins]
        column: LineColumn
        if base is None:
            values = as_binary(upper.column.take(integer_array(wins, pa.int64())))
            column, zeros = spread_values(values, at, count), np.zeros(count, np.int64)
            base = _Newest(column, zeros, zeros)
        elif isinstance(base.column, CompressedColumn):
            column = base.column.changed(at, upper.column.take(integer_array(wins, pa.int64())))
        else:
            indices = np.arange(count)
            indices[at] = count + wins
            both = concatenated_column([base.column, plain(upper.column)], [count, len(upper.column)])
            column = both.take(integer_array(indices, pa.int64()))
        self._columns[qualifier] = _Newest(
            column,
            _replaced(base.timestamps, at, upper.timestamps[wins]),
            _replaced(base.write_numbers, at, upper.write_numbers[wins]),
        )

    def lines(self, *, keeps_write_numbers: bool) -> Lines:
        """Returns the lines; their write numbers are undefined unless they are kept."""
        if not self._is_changed:
            return self._base.lines
        columns = sorted(self._columns.items())
        return Lines(
            self._base.lines.rows,
            np.stack([newest.timestamps for _, newest in columns]),
            np.stack([newest.write_numbers for _, newest in columns]) if keeps_write_numbers else _ZERO,
            tuple([qualifier for qualifier, _ in columns]),
            tuple([newest.column for _, newest in columns]),
            self._base.lines.stored,
        )


def _is_above(upper: _Newest, base: _Newest, places: Integers) -> Mask:
    """Returns which cells of `upper` hide those of `base` at these places, if they are there."""
    timestamps, write_numbers = base.timestamps[places], base.write_numbers[places]
    above: Mask = (upper.timestamps > timestamps) | (
        (upper.timestamps == timestamps) & (upper.write_numbers > write_numbers)
    )
    return above | ~is_present(base.column)[places] if base.column.null_count else above


# Nothing is decided by write numbers after this.
_ZERO = np.zeros((1, 1), np.int64)


def _replaced(numbers: Integers, places: Integers, by: Integers) -> Integers:
    replaced = numbers.copy()
    replaced[places] = by
    return replaced
