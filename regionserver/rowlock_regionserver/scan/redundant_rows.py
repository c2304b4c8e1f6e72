"""Leaves out rows that a scan in row form would read only to find that other lines return the same rows.

A row is returned if any family has a visible cell of it. Of a family without a requested column only the rows matter,
and mostly they are those of the other families.

1. A run of lines covers its rows if every cell of it is a put that the read point sees, and nothing can hide them: its
   family has no tombstone, and no put that has expired. So the scan returns each of these rows.
2. A family without a requested column is redundant where a run that is read covers the same rows. Equal digests of row
   groups prove that (row_groups.py). Whether its own cells are visible does not matter then.
3. A family that is left in the view may cover rows of further families. So a scan of keys reads one family.
4. In a family with requested columns, an older run of lines is redundant where a newer one covers the same rows, in the
   columns of which the newer one has a cell in each of these rows. If that is so of all columns, its rows are too.
5. The older lines of a store file are redundant where its wide blocks are visible: each cell has a newer one there.

What is not proven to be redundant is read: groups in which one family has a row more, files of earlier versions, which
have no row groups, and rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

from rowlock_regionserver.arrow.columns import empty_cells
from rowlock_regionserver.cells import TIMESTAMP_MAX, Family, ReadPoint
from rowlock_regionserver.few_rows import FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.row_ranges import RowRange, clipped
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import Chunk, FewWanted, LinesWanted, Reading, RowPlace, RowSource, Source
from rowlock_regionserver.versions.visibility import are_seen

# One look-up takes at most this many groups, so that a short scan stays short. The next one continues after them.
_GROUPS_MAX = 256
# The runs of a family whose groups are compared with those of others.
_COVERING_MAX = 16


class RedundantRows:
    """Reduces the views of one scan. Used by one thread."""

    def __init__(self, columns: Mapping[bytes, frozenset[bytes]], read_point: ReadPoint) -> None:
        """`columns` are the requested ones, by family."""
        self._columns = columns
        self._read_point = read_point
        self._view: View = ()
        self._reduced: View = ()
        # Those of the last view, by the id() of their sources, to which they refer.
        self._remaining: dict[int, RemainingRows] = {}

    def reduced(self, view: View) -> View:
        """Returns the view with sources that leave out what is redundant.

        They are the same objects as before for sources of which the same is redundant, so that chunks of them that were
        read ahead are still used.
        """
        if not _is_same(view, self._view):
            self._view, self._reduced = view, self._without_redundant_rows(view)
        return self._reduced

    def _without_redundant_rows(self, view: View) -> View:
        before, self._remaining = self._remaining, {}
        covering: list[RowGroups] = []
        reduced: dict[bytes, Sequence[Source]] = {}
        # Those with requested columns are read anyway. Of the others, the one with the fewest blocks is read first.
        for family, sources in sorted(view, key=lambda of: (of[0].name not in self._columns, _block_count(of[1]))):
            columns = self._columns.get(family.name, frozenset())
            visible = self._visible(family, sources)
            remaining: list[Source] = []
            reduced[family.name] = remaining
            for source in sources:
                if any(each.row_groups is source.row_groups.newer for each in visible):
                    continue
                covers = [each.row_groups for each in visible if _is_newer(each, source)] if columns else covering
                if covers and source.row_groups:
                    rows = before.get(id(source))
                    if rows is None or not rows.is_without(covers):
                        rows = RemainingRows(source, columns, tuple(covers))
                    self._remaining[id(source)] = rows
                    remaining.append(rows)
                else:
                    remaining.append(source)
                if source in visible:
                    covering.append(source.row_groups)
        return [(family, reduced[family.name]) for family, _ in view]

    def _visible(self, family: Family, sources: Sequence[Source]) -> Sequence[Source]:
        """Returns the sources with row groups whose cells are all seen, if no tombstone may hide them."""
        if any(source.has_tombstones for source in sources):
            return ()
        visible = [
            source
            for source in sources
            if source.row_groups and source.row_groups.newer is None and self._is_seen(source, family)
        ]
        return visible[:_COVERING_MAX]

    def _is_seen(self, source: Source, family: Family) -> bool:
        timestamp_min = source.line_timestamp_min
        return timestamp_min is not None and are_seen(self._read_point, source.write_number_max, timestamp_min, family)


def _is_newer(source: Source, other: Source) -> bool:
    """Returns whether each cell of the source hides those of the same column in the other one."""
    timestamp_min = source.line_timestamp_min
    return (
        timestamp_min is not None
        and timestamp_min >= other.row_groups.timestamp_max
        and source.write_number_min > other.write_number_max
    )


def _is_same(view: View, other: View) -> bool:
    return len(view) == len(other) and all(
        family is other_family
        and len(sources) == len(other_sources)
        and all(one is another for one, another in zip(sources, other_sources, strict=True))
        for (family, sources), (other_family, other_sources) in zip(view, other, strict=True)
    )


def _block_count(sources: Sequence[Source]) -> int:
    return sum([source.row_groups.block_count for source in sources])


class RemainingRows:
    """A source without the row groups that other sources cover, for scans. Safe to use from many threads.

    Of a group that is covered as far as its rows and some columns are concerned, it returns the other columns. Reads of
    single rows read all of the source.
    """

    def __init__(self, source: Source, columns: frozenset[bytes], covering: Sequence[RowGroups]) -> None:
        """`columns` are the requested ones of the family; the `covering` groups have them newer, or there are none."""
        self._source = source
        self._columns = columns
        self._covering = covering
        self.row_groups = source.row_groups
        self.write_number_min = source.write_number_min
        self.write_number_max = source.write_number_max
        self.has_tombstones = source.has_tombstones
        self.line_timestamp_min = source.line_timestamp_min
        self.timestamp_max = source.timestamp_max

    def is_without(self, covering: Sequence[RowGroups]) -> bool:
        """Returns whether these are the groups that cover it."""
        return len(covering) == len(self._covering) and all(map(is_, covering, self._covering))

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """See Source."""
        return self._source.row_cells(row, cells_max)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """See Source."""
        return self._source.columns_cells(row, qualifiers, cells_max)

    def row_cell_count(self, row: bytes) -> int:
        """See Source."""
        return self._source.row_cell_count(row)

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """See Source."""
        return self._source.row_source(row)

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns None: scans of few rows read the source itself."""
        return None

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """See Source."""
        return self._source.row_parts(row, bytes_max, start, stop)

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source. The row need not exist."""
        found = self._next((start, stop), reverse=reverse)
        if found is None:
            return None
        until = None
        if found.start < found.stop:
            until = self._source.empty_until(found.start, found.stop, reverse=reverse)
        return until or found.frontier

    def read_rows(
        self,
        start: bytes,
        stop: bytes,
        bytes_max: int,
        row_bytes_max: int = NO_LIMIT,
        *,
        reverse: bool = False,
        lines: LinesWanted | None = None,
        reading: Reading = Reading.BULK,
    ) -> Chunk:
        """See Source. Reads as far as the next covered group."""
        found = self._next((start, stop), reverse=reverse)
        if found is None or found.start == found.stop:
            frontier = None if found is None else found.frontier
            return Chunk(empty_cells(), frontier, False, False, 0, TIMESTAMP_MAX)
        if lines is not None and lines.columns is not None and not lines.marks_others:
            lines = replace(lines, columns=found.columns)
        chunk = self._source.read_rows(
            found.start, found.stop, bytes_max, row_bytes_max, reverse=reverse, lines=lines, reading=reading
        )
        return chunk if chunk.frontier is not None else replace(chunk, frontier=found.frontier)

    def _next(self, row_range: RowRange, *, reverse: bool) -> _Remaining | None:
        """Returns what remains of the next groups of the range; None: nothing of the whole range."""
        groups = self.row_groups
        places = groups.of_range(*row_range)
        if reverse:
            places = places[::-1]
        looked_at = places[:_GROUPS_MAX]
        begin = 0
        while begin < len(looked_at) and self._remaining_columns(looked_at[begin]) is None:
            begin += 1
        if begin == len(places):
            return None
        side = 0 if reverse else 1
        if begin == len(looked_at):
            frontier = groups.bounds(looked_at[-1])[side]
            return _Remaining(frontier, frontier, frontier, frozenset())
        columns = self._remaining_columns(looked_at[begin])
        end = begin + 1
        while end < len(looked_at) and self._remaining_columns(looked_at[end]) == columns:
            end += 1
        bounds = groups.bounds(looked_at[begin]), groups.bounds(looked_at[end - 1])
        start, stop = clipped((min(bounds)[0], max(bounds)[1]), row_range)
        return _Remaining(start, stop, None if end == len(places) else bounds[1][side], columns or frozenset())

    def _remaining_columns(self, group: int) -> frozenset[bytes] | None:
        """Returns the columns that are read of a group; None: not even its rows are."""
        digest = self.row_groups.digests[group]
        is_covered = False
        columns = self._columns
        for groups in self._covering:
            place = groups.group_by_digest.get(digest)
            if place is not None:
                is_covered = True
                columns -= groups.complete_columns[place]
        return None if is_covered and not columns else columns


class _Remaining(NamedTuple):
    """These columns of the rows of [start, stop), which may be empty, remain of a source up to the frontier.

    The frontier is None at the end of the range.
    """

    start: bytes
    stop: bytes
    frontier: bytes | None
    columns: frozenset[bytes]
