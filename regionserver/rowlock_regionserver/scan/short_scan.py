"""The first rows of a scan, one by one, for clients that need the newest value of each column only.

Windows are made for many rows: they cost about a millisecond a source, however few the rows are. Most scans that are
opened by a point request end after some tens of rows. So these are read as Python objects:

1. Each source gives its first rows, up to the limit. The first source that has more bounds what the others give. Every
   row before this edge is known then.
2. A row that only one source has, as one line whose cells are all puts that the read point sees, is answered as it is.
3. The cells of any other row are put in order, and versions/visibility.py says which of them the read point sees, as
   for a get.

A scan is short if its client takes such rows (ScanPlan.newest_rows), it selects nothing but columns, and ascends. Where
a source can't give few rows, where there are many sources or none of the rows has a selected column, and after the
first answers, the windows go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.config import KIB
from rowlock_regionserver.few_rows import FewRows, LineValues
from rowlock_regionserver.operations import ColumnSelector, ScanPlan
from rowlock_regionserver.row_ranges import is_empty
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.selection import requested_qualifiers, selects_columns_only
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import FewWanted, Reading, Source, WouldWaitError
from rowlock_regionserver.versions.visibility import are_seen, visible_cells

# Without a limit, the client probably leaves soon, or goes on for long.
ROWS_MAX = 128
UNLIMITED_ROWS_MAX = 32
# Of one answer, and of what each source may give for it.
ANSWER_BYTES_MAX = 128 * KIB
# Of more, windows merge the rows faster.
SOURCES_MAX = 64


def is_short(plan: ScanPlan) -> bool:
    """Returns whether the first rows of such a scan may be read here."""
    has_large_batches = plan.batch_rows >= ROWS_MAX and plan.batch_bytes >= ANSWER_BYTES_MAX
    is_plain = plan.row_form is None and not plan.reverse
    return plan.newest_rows and is_plain and has_large_batches and selects_columns_only(plan.selection)


class FoundRows(NamedTuple):
    """The rows of a range up to the frontier; None: all of it."""

    rows: NewestRows
    frontier: bytes | None


class ShortScan:
    """Reads the first rows of a scan that is_short. Used by one thread at a time."""

    def __init__(
        self,
        sources_now: Callable[[], View],
        columns: Sequence[ColumnSelector],
        row_limit: int,
        rows_at: Sequence[RowsAt],
        is_slice_over: Callable[[], bool],
        reading: Callable[[], Reading],
    ) -> None:
        """`columns`: those of the selection. `rows_at` ascend. `row_limit`: 0: none. See scanner.scan."""
        self._sources_now = sources_now
        self._requested = requested_qualifiers(columns)
        self._is_slice_over = is_slice_over
        self._reading = reading
        self.rows_left = row_limit  # meaningless without a limit
        self._has_limit = row_limit > 0
        # What was not answered yet.
        self.rows_at = [each for each in rows_at if not is_empty(each.rows)]

    @property
    def is_at_end(self) -> bool:
        """Whether no row follows."""
        return not self.rows_at or (self._has_limit and not self.rows_left)

    def answers(self) -> Iterator[tuple[NewestRows, bytes]]:
        """Yields rows, perhaps none, and the key before which all rows are answered, as in ScanAnswer.

        Ends where the windows have to go on, which is nowhere if `is_at_end`.
        """
        while not self.is_at_end and self._reading() is not Reading.BULK:
            (start, stop), read_point = self.rows_at[0]
            rows_max = min(self.rows_left, ROWS_MAX) if self._has_limit else UNLIMITED_ROWS_MAX
            merge = self._read(start, stop, read_point, rows_max)
            if merge is None:
                return
            rows, frontier = merge.first_rows(rows_max)
            self.rows_left -= len(rows)
            if frontier is None or is_empty((frontier, stop)):
                del self.rows_at[0]
            else:
                self.rows_at[0] = RowsAt((frontier, stop), read_point)
            yield rows, stop if frontier is None else frontier
            if self._requested is not None and not len(rows):
                return  # The selected columns are rare, perhaps.

    def _read(self, start: bytes, stop: bytes, read_point: ReadPoint, rows_max: int) -> _Merge | None:
        """Returns the rows of all sources from `start` on; None if one can't give few rows.

        Raises WouldWaitError for a source that would wait, and if it takes long on the event loop.
        """
        merge, newest, reading = _Merge(read_point, stop), read_point.write_number, self._reading()
        source_count = 0
        for family, sources in sorted(self._sources_now(), key=_name_of):
            columns: frozenset[bytes] | None = None
            if self._requested is not None:
                if family.name not in self._requested:
                    continue
                columns = self._requested[family.name]
            merge.add_family(family.as_of(newest), columns)
            wanted = FewWanted(rows_max, ANSWER_BYTES_MAX, reading, columns)
            # The oldest one is mostly the largest, and so the one that bounds the others best.
            for source in reversed(sources):
                if source.write_number_min > newest:
                    continue
                source_count += 1
                if source_count > SOURCES_MAX:
                    return None
                if reading is Reading.AT_ONCE and source_count > 1 and self._is_slice_over():
                    raise WouldWaitError
                few = source.few_rows(start, merge.stop, wanted)
                if few is None:
                    return None
                merge.add(few)
        return merge


def _name_of(store: tuple[Family, Sequence[Source]]) -> bytes:
    return store[0].name


class _Row(NamedTuple):
    """An answered row: the names and the values of its columns."""

    row: bytes
    names: tuple[bytes, ...]
    values: Sequence[bytes]


class _Part:
    """The rows of one source."""

    def __init__(self, family: int, prefix: bytes, few: FewRows, *, are_seen: bool) -> None:
        """`are_seen`: the read point sees all cells, whatever limits the family has had."""
        self.family = family
        self.few = few
        self._prefix = prefix
        # If a line may be answered as it is. Else the cells of a row have to be judged.
        self.lines_of = few.lines_of if are_seen else None
        self.lines: LineValues | None = None  # of the rows before the frontier
        self.names: tuple[bytes, ...] = ()

    def read_lines(self, stop: bytes) -> int:
        """Reads the lines of the rows before `stop`, if they may be answered, and returns how many these rows are."""
        rows = self.few.rows
        count = bisect_left(rows, stop) if stop else len(rows)
        if count and self.lines_of is not None:
            self.lines = lines = self.lines_of(count)
            self.names = tuple([self._prefix + qualifier for qualifier in lines.qualifiers])
        return count

    def row_of_line(self, place: int, lines: LineValues) -> _Row:
        """Returns the row at a place of the lines."""
        row, values, names = self.few.rows[place], lines.of_rows[place], self.names
        if not lines.has_nulls:
            return _Row(row, names, cast("tuple[bytes, ...]", values))
        present = [value for value in values if value is not None]
        if len(present) < len(values):
            names = tuple([name for name, value in zip(names, values, strict=True) if value is not None])
        return _Row(row, names, present)


class _Merge:
    """Puts the rows of several sources together."""

    def __init__(self, read_point: ReadPoint, stop: bytes) -> None:
        """`stop` is that of the range; empty: it has none."""
        self._read_point = read_point
        self.stop = stop  # the frontier, once a source has more rows
        self._frontier: bytes | None = None
        self._families: list[tuple[Family, frozenset[bytes] | None]] = []  # by name
        self._parts: list[_Part] = []
        self._place_of_set: dict[tuple[bytes, ...], int] = {}

    def add_family(self, family: Family, columns: frozenset[bytes] | None) -> None:
        """Says to which family the next rows belong, and which of its columns are selected; families come by name."""
        self._families.append((family, columns))

    def add(self, few: FewRows) -> None:
        """Adds the rows of a source, read up to `stop`."""
        if few.frontier is not None:
            self._frontier = self.stop = few.frontier
        if not few.rows:
            return
        family, _ = self._families[-1]
        facts = few.facts
        is_seen = facts is not None and are_seen(self._read_point, facts.write_number_max, facts.timestamp_min, family)
        self._parts.append(_Part(len(self._families) - 1, family.name + b":", few, are_seen=is_seen))

    def first_rows(self, rows_max: int) -> FoundRows:
        """Returns the first rows that have a visible cell, at most `rows_max`, perhaps none."""
        stop, frontier = self.stop, self._frontier
        if len(self._parts) == 1 and self._parts[0].lines_of is not None:
            return FoundRows(self._rows_of_lines(self._parts[0], stop), frontier)
        places: dict[bytes, list[tuple[_Part, int]]] = {}
        for part in self._parts:
            rows = part.few.rows
            for place, row in enumerate(rows[: bisect_left(rows, stop)] if stop else rows):
                places.setdefault(row, []).append((part, place))
        in_order = sorted(places)
        if len(in_order) > rows_max:
            frontier = stop = in_order[rows_max]
            del in_order[rows_max:]
        for part in self._parts:
            part.read_lines(stop)
        return FoundRows(self._answered([self._row(row, places[row]) for row in in_order]), frontier)

    def _rows_of_lines(self, part: _Part, stop: bytes) -> NewestRows:
        """Returns the rows of the only source."""
        count = part.read_lines(stop)
        lines = part.lines
        if lines is None or not part.names:
            return NewestRows((), (), (), ())
        if not lines.has_nulls:
            values = cast("Sequence[tuple[bytes, ...]]", lines.of_rows)
            return NewestRows(part.few.rows[:count], [part.names], [0] * count, values)
        return self._answered([part.row_of_line(place, lines) for place in range(count)])

    def _row(self, row: bytes, of_row: Sequence[tuple[_Part, int]]) -> _Row:
        """Returns a row, given its places in the parts."""
        part, place = of_row[0]
        if len(of_row) == 1 and part.lines is not None:
            return part.row_of_line(place, part.lines)
        return self._row_of_cells(row, of_row)

    def _row_of_cells(self, row: bytes, of_row: Sequence[tuple[_Part, int]]) -> _Row:
        """Returns the newest visible values of a row, perhaps none, given its places in the parts."""
        names: list[bytes] = []
        values: list[bytes] = []
        for number, (family, columns) in enumerate(self._families):
            gathered = [part.few.cells_of(place) for part, place in of_row if part.family == number]
            if not gathered:
                continue
            cells = gathered[0]
            if len(gathered) > 1:
                cells = sorted([cell for some in gathered for cell in some])
            previous: bytes | None = None
            for qualifier, _, _, _, value in visible_cells(cells, self._read_point, family):
                if qualifier != previous and (columns is None or qualifier in columns):
                    previous = qualifier
                    assert isinstance(value, bytes), f"a value of {len(value)} bytes is away"
                    names.append(family.name + b":" + qualifier)
                    values.append(value)
        return _Row(row, tuple(names), values)

    def _answered(self, found: Sequence[_Row]) -> NewestRows:
        """Returns the rows that have values."""
        found = [each for each in found if each.values]
        sets = [self._place_of(names) for _, names, _ in found]
        return NewestRows([row for row, _, _ in found], list(self._place_of_set), sets, [each.values for each in found])

    def _place_of(self, names: tuple[bytes, ...]) -> int:
        return self._place_of_set.setdefault(names, len(self._place_of_set))
