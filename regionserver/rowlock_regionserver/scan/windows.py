"""Windows: the visible cells of whole rows in one range, merged from all sources of the families that a scan reads.

A window holds the rows up to an edge that all sources reach (source_chunks.py). Visibility is decided by keys alone;
values are not read until they are answered. Each window takes a new view: chunks buffered from a source that has left
the view are dropped, and a new source is read from where the last window ended. This is correct because every view
contains all that the read point sees.

A row is not read whole when one source has more of it than a window may hold, or when its visible values exceed a
window. It is returned as a WideRow, which wide_rows.py reads in parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from rowlock_regionserver.arrow.columns import KIND, QUALIFIER, column, kinds, single_chunk
from rowlock_regionserver.arrow.masks import is_one_of
from rowlock_regionserver.arrow.merge import merged_with_shared
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import DELETE_FAMILY, Family, ReadPoint
from rowlock_regionserver.row_ranges import RowRange
from rowlock_regionserver.scan.redundant_rows import RedundantRows
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.scan.window_lines import window_lines
from rowlock_regionserver.scan.window_selection import FamilyCells
from rowlock_regionserver.scan.window_split import View, WideRow, Window, split_window
from rowlock_regionserver.sources import CELLS_OF_LINES, Chunk, LinesWanted, Reading, Source, WouldWaitError
from rowlock_regionserver.versions.visibility import are_seen
from rowlock_regionserver.versions.visibility_columns import visible

# A worker reads from more of them, because each takes its time.
AT_ONCE_SOURCES_MAX = 8

# The families that a scan reads, and the qualifiers of each; None means all qualifiers.
ColumnsRead = Mapping[bytes, frozenset[bytes] | None]


class WindowReader:
    """Reads one range window by window, in the scan's direction. Used by one thread."""

    def __init__(
        self,
        sources_now: Callable[[], View],
        columns_read: ColumnsRead | None,
        read_point: ReadPoint,
        row_range: RowRange,
        *,
        reverse: bool,
        reads_values: bool,
        window_bytes: int,
        bytes_held_max: int,
        line_columns: Mapping[bytes, frozenset[bytes]] | None = None,
        takes_compressed: bool = False,
        takes_rows: bool = True,
        newest_only: bool = False,
        takes_lines: bool = False,
        unread_columns_max: int = 0,
    ) -> None:
        """Creates a reader at the start of the range, or at its end with `reverse`.

        `window_bytes` bounds a window, unless it is a single row or stays unread. `bytes_held_max` bounds what is read
        ahead.
        `reads_values` says that values of visible cells will be read. `line_columns`: windows may have lines, and of
        each family only these columns matter beside the rows themselves. `takes_lines`: windows may have lines with all
        columns. If neither is given, windows have cells. `takes_compressed`: values of lines may be compressed.
        `takes_rows`: their rows are answered. `newest_only`: of each column only the newest cell is answered or
        compared; with `line_columns` it always is. `unread_columns_max`: see LinesWanted.
        """
        self._line_columns = line_columns
        self._may_take_compressed = takes_compressed
        self._takes_compressed = False  # in this window
        self._takes_rows = takes_rows
        self._newest_only = newest_only or line_columns is not None
        self._takes_lines = takes_lines
        self._unread_columns_max = unread_columns_max
        self._sources_now = sources_now
        self._columns_read = columns_read
        self._read_point = read_point
        self._reverse = reverse
        self._reads_values = reads_values
        self._window_bytes = window_bytes
        self._bytes_held_max = bytes_held_max
        self._chunks = SourceChunks(row_range, reverse=reverse, bytes_held_max=bytes_held_max)
        self._redundant = None if line_columns is None else RedundantRows(line_columns, read_point)
        # The parts of one window that was split, to be returned one by one.
        self._pending: deque[Window | WideRow] = deque()
        self._window_bytes_held = 0

    @property
    def bytes_held(self) -> int:
        """Memory held for the window returned last and for later ones."""
        return self._chunks.bytes_held + self._window_bytes_held

    def next(self, bytes_max: int, reading: Reading = Reading.BULK) -> Window | WideRow | None:
        """Returns the next window, for which it reads about `bytes_max`; None when the range is exhausted.

        After a window is answered, the rows of the range before its `resume_key` are done; in reverse, the rows from it
        on. The last resume key is the range's own end. Blocks on the sources' disks, unless it reads AT_ONCE: then it
        raises WouldWaitError.
        """
        if self._pending:
            return self._pending.popleft()
        chunks = self._chunks
        chunks.reading = reading
        self._takes_compressed = self._may_take_compressed and reading is Reading.BULK
        if chunks.is_exhausted:
            return None
        view = self._view()
        sources = [source for _, sources in view for source in sources]
        if reading is Reading.AT_ONCE and len(sources) > AT_ONCE_SOURCES_MAX:
            raise WouldWaitError
        row_bytes_max = max(1, min(self._window_bytes, self._bytes_held_max // (len(sources) or 1)))
        chunks.lines_wanted = {
            id(source): wanted
            for family, of_family in view
            for wanted in [self._wanted(family, of_family)]
            if wanted is not None
            for source in of_family
            if source.line_timestamp_min is not None
        }
        takes_cells = self._line_columns is None
        if any(
            wanted.marks_others or (takes_cells and not wanted.counts_cells) for wanted in chunks.lines_wanted.values()
        ):
            # Lines become cells, or may have to be merged as cells.
            bytes_max = max(1, bytes_max // CELLS_OF_LINES)
        by_source = chunks.advance(sources, bytes_max, row_bytes_max)
        if isinstance(by_source, bytes):
            if reading is Reading.AT_ONCE:
                raise WouldWaitError
            return WideRow(by_source, view, chunks.resume_key)
        self._window_bytes_held = sum(chunk.bytes_held for chunks in by_source.values() for chunk in chunks)
        families = [
            self._visible_cells(
                family,
                [chunk for source in of_family for chunk in by_source.get(id(source), ())],
            )
            for family, of_family in view
        ]
        if not self._reads_values:
            return Window(families, chunks.resume_key)
        self._pending += split_window(families, view, chunks.resume_key, self._window_bytes, reverse=self._reverse)
        return self._pending.popleft()

    def _view(self) -> View:
        """Returns the families to read, by name, with the sources that may have visible cells which matter."""
        newest = self._read_point.write_number
        view: list[tuple[Family, Sequence[Source]]] = [
            (family.as_of(newest), [source for source in sources if source.write_number_min <= newest])
            for family, sources in self._sources_now()
            if self._columns_read is None or family.name in self._columns_read
        ]
        view.sort(key=lambda store: store[0].name)
        return view if self._redundant is None else self._redundant.reduced(view)

    def _wanted(self, family: Family, sources: Sequence[Source]) -> LinesWanted | None:
        """Returns what the window takes of the lines of a family's sources; None: all their cells."""
        if self._line_columns is None:
            if not self._reads_values:
                return LinesWanted(frozenset(), marks_others=True)
            read = self._qualifiers_read(family)
            if read is not None:
                return LinesWanted(read)
            if self._takes_lines:
                return LinesWanted(
                    compressed=self._takes_compressed,
                    counts_cells=True,
                    unread_columns_max=0 if self._hides_lines(family, sources) else self._unread_columns_max,
                )
            # One source's lines become cells at once. Those of several are merged as lines, which are fewer.
            if not self._newest_only or len(sources) < 2:
                return None
            return LinesWanted(compressed=self._chunks.reading is Reading.BULK, counts_cells=True)
        columns = self._line_columns.get(family.name, frozenset())
        if any(source.has_tombstones for source in sources) or self._hides_lines(family, sources):
            # Any cell of a line may decide whether its row is there.
            return LinesWanted(columns, marks_others=True)
        without_rows = self._takes_compressed and not self._takes_rows
        return LinesWanted(
            columns,
            compressed=self._takes_compressed,
            without_rows=without_rows,
            unread_columns_max=self._unread_columns_max,
        )

    def _hides_lines(self, family: Family, sources: Sequence[Source]) -> bool:
        """Returns whether some lines of the sources may be hidden from the read point."""
        return any(
            source.line_timestamp_min is not None
            and not are_seen(self._read_point, source.write_number_max, source.line_timestamp_min, family)
            for source in sources
        )

    def _visible_cells(self, family: Family, chunks: Sequence[Chunk]) -> FamilyCells:
        """Returns the cells of one family's chunks that the read point sees."""
        if not self._newest_only or all(chunk.lines is None for chunk in chunks):
            is_plain = all(self._is_visible(chunk, family) and not chunk.has_versions for chunk in chunks)
            return self._visible_run(family, [chunk.run() for chunk in chunks], is_plain=is_plain)
        is_visible = partial(self._is_visible, family=family)
        if self._line_columns is None:
            of_lines = window_lines(chunks, is_visible, self._qualifiers_read(family))
            others = self._visible_run(family, of_lines.runs, is_plain=False)
            if of_lines.lines is None:
                return others
            if self._takes_lines and not len(others.run):
                return replace(others, lines=of_lines.lines.lines())
            return others.with_cells(of_lines.lines.cells())
        of_lines = window_lines(chunks, is_visible, self._line_columns.get(family.name, frozenset()))
        return replace(
            self._visible_run(family, of_lines.runs, is_plain=False),
            lines=None if of_lines.lines is None else of_lines.lines.lines(),
            present=of_lines.present,
        )

    def _qualifiers_read(self, family: Family) -> frozenset[bytes] | None:
        """Returns the qualifiers of a family that are read; None: all."""
        return None if self._columns_read is None else self._columns_read[family.name]

    def _visible_run(self, family: Family, runs: Sequence[SortedRun], *, is_plain: bool) -> FamilyCells:
        """Returns the cells of the runs that the read point sees; `is_plain`: all, and one of each column."""
        qualifiers = self._qualifiers_read(family)
        if qualifiers is not None:
            runs = [_of_qualifiers(run, qualifiers) for run in runs]
        run, may_share_rows = merged_with_shared(runs)
        if is_plain and not may_share_rows:
            return FamilyCells(family, run, 1)
        run = SortedRun(single_chunk(run.keys), run.values)
        if not len(run):
            return FamilyCells(family, run, family.versions)
        return FamilyCells(family, run.filter(visible(run.keys, self._read_point, family)), family.versions)

    def _is_visible(self, chunk: Chunk, family: Family) -> bool:
        """Returns whether every cell is a put that the read point sees, unless a later put of its column hides it."""
        return not chunk.has_tombstones and are_seen(
            self._read_point, chunk.write_number_max, chunk.timestamp_min, family
        )


def _of_qualifiers(run: SortedRun, qualifiers: frozenset[bytes]) -> SortedRun:
    """Returns the cells of these qualifiers and the family tombstones that may hide them, so that fewer are sorted."""
    run = SortedRun(single_chunk(run.keys), run.values)
    is_read = is_one_of(column(run.keys, QUALIFIER), qualifiers)
    return run.filter(is_read | (kinds(column(run.keys, KIND)) == DELETE_FAMILY))
