"""A run of cells in store order, with the keys as a table and the values apart.

Visibility depends on keys alone: row, qualifier, timestamp, write number and kind. So runs are merged, filtered and
selected without moving values, and no byte of a value that is not answered is touched. Values are taken at the end, by
one copy, or without a copy when a whole run is answered in its own order. Values that are away
(found_cells.AwayValue) are read only then.

Runs are immutable. All functions are pure, except that reading values that are away may block on a disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    VALUE,
    Integers,
    Mask,
    binary_array,
    boolean_array,
    integer_array,
    keep,
    offsets,
    single_array,
    take,
)
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.found_cells import AwayValue

# If more of a column is wanted in another order, it is not filtered before.
_FILTERED_SHARE_MAX = 0.25
_NOWHERE = np.zeros(0, np.int64)
# The columns that are keys are those before the value.
_KEYS = list(range(VALUE))
KEY_SCHEMA = pa.schema([CELL_SCHEMA.field(place) for place in _KEYS])
# Not KEY_SCHEMA.empty_table(), which imports pandas.
_NO_KEYS = pa.Table.from_batches([], schema=KEY_SCHEMA)


class Values:
    """The values of a run, cell by cell. `places` are their places in `column`; None means value i is at place i."""

    __slots__ = ("_away", "_away_at", "_column", "_places")

    def __init__(
        self,
        column: pa.ChunkedArray[Any],
        away: Sequence[tuple[int, AwayValue]] = (),
        places: Integers | None = None,
    ) -> None:
        """`away` lists the values that are not in the column, by their places in it, ascending."""
        self._column = column
        self._away = dict(away)
        self._away_at = np.array([place for place, _ in away], np.int64) if away else _NOWHERE
        self._places = places

    def __len__(self) -> int:
        return len(self._column) if self._places is None else len(self._places)

    @property
    def are_away(self) -> bool:
        """Whether some values may be away."""
        return bool(self._away)

    def byte_counts(self, *, with_away: bool = True) -> Integers:
        """Returns the length of each value; 0 for values that are away if not `with_away`. Some 100 M values/s."""
        lengths = np.zeros(len(self._column), np.int64)
        start = 0
        for chunk in self._column.chunks:
            lengths[start : start + len(chunk)] = np.diff(offsets(chunk))
            start += len(chunk)
        if self._away and with_away:
            lengths[self._away_at] = [value.byte_count for value in self._away.values()]
        return lengths if self._places is None else lengths[self._places]

    def at(self, cells: Integers) -> Values:
        """Returns the values of some cells, in that order, without touching any."""
        places = cells if self._places is None else self._places[cells]
        if not self._away:
            return Values(self._column, (), places)
        away = [(place, self._away[place]) for place in places[np.isin(places, self._away_at)].tolist()]
        return Values(self._column, sorted(away, key=lambda each: each[0]), places)

    def slice(self, start: int, stop: int) -> Values:
        """Returns the values of the cells [start, stop)."""
        if self._places is not None:
            return self.at(np.arange(start, stop))
        away = [(place - start, value) for place, value in self._away.items() if start <= place < stop]
        return Values(self._column.slice(start, stop - start), away)

    def column(self) -> pa.ChunkedArray[Any]:
        """Returns all values in order, uncopied if the column has that order. They must be less than 2 GiB in total."""
        if self._places is None and not self._away:
            return self._column
        return pa.chunked_array([self.array()])

    def array(self, cells: Integers | None = None) -> pa.BinaryArray:
        """Returns all values, or those of some cells, in that order, as one array of less than 2 GiB.

        Values in the column are copied once or twice; those that are away are read.
        """
        wanted = self._places
        if cells is not None:
            wanted = cells if wanted is None else wanted[cells]
        if wanted is None:
            wanted = np.arange(len(self._column))
        array = _take(self._column, wanted)
        return self._with_away(array, wanted) if self._away else array

    def _with_away(self, array: pa.BinaryArray, wanted: Integers) -> pa.BinaryArray:
        """Returns the array with the values that are away loaded into their places."""
        parts: list[pa.BinaryArray] = []
        start = 0
        for index in np.flatnonzero(np.isin(wanted, self._away_at)).tolist():
            if start < index:
                parts.append(array.slice(start, index - start))
            parts.append(binary_array([self._away[int(wanted[index])].load()]))
            start = index + 1
        if start < len(array) or not parts:
            parts.append(array.slice(start))
        concatenated = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
        assert isinstance(concatenated, pa.BinaryArray)
        return concatenated


def _take(column: pa.ChunkedArray[Any], wanted: Integers) -> pa.BinaryArray:
    """Returns the elements at `wanted`, which are distinct places, in that order."""
    if not len(wanted):
        return binary_array([])
    is_ascending = bool((wanted[1:] > wanted[:-1]).all())
    # A filter copies the elements once, and spares those that are not wanted the later copies.
    if len(wanted) < len(column) * (1.0 if is_ascending else _FILTERED_SHARE_MAX):
        is_taken = np.zeros(len(column), np.bool_)
        is_taken[wanted] = True
        column = column.filter(boolean_array(is_taken))
        wanted = (np.cumsum(is_taken) - 1)[wanted]
    array = single_array(column)
    if not is_ascending:
        array = array.take(integer_array(wanted, pa.int64()))
    assert isinstance(array, pa.BinaryArray)
    return array


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Cells of one family in store order. `keys` has the columns of KEY_SCHEMA, any number of chunks."""

    keys: pa.Table
    values: Values

    @classmethod
    def of_table(cls, table: pa.Table, away: Sequence[tuple[int, AwayValue]] = ()) -> SortedRun:
        """Returns the cells of a table of CELL_SCHEMA, uncopied."""
        return cls(table.select(_KEYS), Values(table.column(VALUE), away))

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def slice(self, start: int, stop: int) -> SortedRun:
        """Returns the cells at [start, stop)."""
        if start == 0 and stop == len(self):
            return self
        return SortedRun(self.keys.slice(start, stop - start), self.values.slice(start, stop))

    def filter(self, mask: Mask) -> SortedRun:
        """Returns the cells where `mask` is true; the run itself when it is true everywhere."""
        if mask.all():
            return self
        return SortedRun(keep(self.keys, mask), self.values.at(np.flatnonzero(mask)))

    def at(self, places: Integers) -> SortedRun:
        """Returns the cells at these places, in that order. Copies their keys."""
        return SortedRun(take(self.keys, places), self.values.at(places))

    def table(self) -> pa.Table:
        """Returns a table of CELL_SCHEMA with all values, which must be less than 2 GiB in total."""
        return pa.Table.from_arrays([*self.keys.columns, self.values.column()], schema=CELL_SCHEMA)

    def tables(self, bytes_max: int) -> Iterator[pa.Table]:
        """Yields the run as tables of CELL_SCHEMA; one of several cells has about `bytes_max` of values at most."""
        for start, stop in slices_within(self.values.byte_counts(), bytes_max):
            yield self.slice(start, stop).table()


def slices_within(byte_counts: Integers, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yields consecutive ranges [start, stop) of all elements, each of at most `bytes_max` or of one element."""
    ends = np.cumsum(byte_counts)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + bytes_max, "right")))
        yield start, stop
        start = stop


def concatenated(runs: Sequence[SortedRun]) -> SortedRun:
    """Concatenates runs. Copies only small integers, not keys or values."""
    if len(runs) == 1:
        return runs[0]
    if not runs:
        return SortedRun(_NO_KEYS, Values(pa.chunked_array([], pa.binary())))
    keys = pa.concat_tables([run.keys for run in runs])
    has_places = any(run.values._places is not None for run in runs)
    chunks: list[Any] = []
    away: list[tuple[int, AwayValue]] = []
    places: list[Integers] = []
    start = 0
    for run in runs:
        values = run.values
        chunks += values._column.chunks
        away += [(start + place, value) for place, value in values._away.items()]
        count = len(values._column)
        if has_places:
            places.append(start + (np.arange(count) if values._places is None else values._places))
        start += count
    column = pa.chunked_array(chunks, pa.binary())
    return SortedRun(keys, Values(column, away, np.concatenate(places) if has_places else None))
