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
from dataclasses import dataclass

import numpy as np

from rowlock_regionserver.arrow.columns import KIND, QUALIFIER, Column, column, kinds, single_chunk, single_chunk_keys
from rowlock_regionserver.arrow.masks import is_one_of
from rowlock_regionserver.arrow.merge import joined_rows, merged, sorted_cells
from rowlock_regionserver.arrow.sorted_run import SortedRun, slices_within
from rowlock_regionserver.cells import DELETE_FAMILY, Family, ReadPoint
from rowlock_regionserver.scan.ranges import RowRange
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.scan.window_rows import window_rows
from rowlock_regionserver.scan.window_selection import FamilyCells
from rowlock_regionserver.sources import Chunk, Source
from rowlock_regionserver.versions.visibility_columns import visible

View = Sequence[tuple[Family, Sequence[Source]]]

# The families that a scan reads, and the qualifiers of each; None means all qualifiers.
ColumnsRead = Mapping[bytes, frozenset[bytes] | None]


@dataclass(frozen=True, slots=True)
class Window:
    """The visible cells of whole rows, by family name; may be empty. `resume_key`: see WindowReader.next."""

    families: Sequence[FamilyCells]
    resume_key: bytes


@dataclass(frozen=True, slots=True)
class WideRow:
    """A row that is not read whole, and the sources of its families, by name.

    `resume_key` is the resume key after the row has been answered.
    """

    row: bytes
    view: View
    resume_key: bytes


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
    ) -> None:
        """Creates a reader at the start of the range, or at its end with `reverse`.

        `window_bytes` bounds a window, unless it is a single row. `bytes_held_max` bounds what is read ahead.
        `reads_values` says that values of visible cells will be read.
        """
        self._sources_now = sources_now
        self._columns_read = columns_read
        self._read_point = read_point
        self._reverse = reverse
        self._reads_values = reads_values
        self._window_bytes = window_bytes
        self._bytes_held_max = bytes_held_max
        self._chunks = SourceChunks(row_range, reverse=reverse, bytes_held_max=bytes_held_max)
        # The parts of one window that was split, to be returned one by one.
        self._pending: deque[Window | WideRow] = deque()
        self._window_bytes_held = 0

    @property
    def bytes_held(self) -> int:
        """Memory held for the window returned last and for later ones."""
        return self._chunks.bytes_held + self._window_bytes_held

    def next(self, bytes_max: int) -> Window | WideRow | None:
        """Returns the next window, for which it reads about `bytes_max`; None when the range is exhausted.

        After a window is answered, the rows of the range before its `resume_key` are done; in reverse, the rows from it
        on. The last resume key is the range's own end. Blocks on the sources' disks.
        """
        if self._pending:
            return self._pending.popleft()
        chunks = self._chunks
        if chunks.is_exhausted:
            return None
        view = self._view()
        sources = [source for _, sources in view for source in sources]
        row_bytes_max = max(1, min(self._window_bytes, self._bytes_held_max // (len(sources) or 1)))
        by_source = chunks.advance(sources, bytes_max, row_bytes_max)
        if isinstance(by_source, bytes):
            return WideRow(by_source, view, chunks.resume_key)
        self._window_bytes_held = sum(chunk.bytes_held for chunks in by_source.values() for chunk in chunks)
        families = [
            self._visible_cells(family, [chunk for source in of_family for chunk in by_source.get(id(source), ())])
            for family, of_family in view
        ]
        return self._split(families, view)

    def _view(self) -> list[tuple[Family, list[Source]]]:
        """Returns the families to read, by name, with the sources that may have visible cells."""
        newest = self._read_point.write_number
        view = [
            (family, [source for source in sources if source.write_number_min <= newest])
            for family, sources in self._sources_now()
            if self._columns_read is None or family.name in self._columns_read
        ]
        return sorted(view, key=lambda store: store[0].name)

    def _visible_cells(self, family: Family, chunks: Sequence[Chunk]) -> FamilyCells:
        """Returns the cells of one family's chunks that the read point sees."""
        runs = [chunk.run() for chunk in chunks]
        is_plain = all(self._is_plain(chunk, family) for chunk in chunks)
        if is_plain:
            joined = joined_rows(runs)
            if joined is not None:
                return FamilyCells(family, joined, 1)
        qualifiers = None if self._columns_read is None else self._columns_read[family.name]
        if qualifiers is not None:
            runs = [_of_qualifiers(run, qualifiers) for run in runs]
        run = sorted_cells(runs) if is_plain else merged(runs)
        run = SortedRun(single_chunk(run.keys), run.values)
        return FamilyCells(family, run.filter(visible(run.keys, self._read_point, family)), family.versions)

    def _is_plain(self, chunk: Chunk, family: Family) -> bool:
        """Returns whether every cell of the chunk is visible and the only version of its column."""
        expires = family.time_to_live_ms and chunk.timestamp_min + family.time_to_live_ms <= self._read_point.now_ms
        is_seen = chunk.write_number_max <= self._read_point.write_number and not expires
        return is_seen and not chunk.has_tombstones and not chunk.has_versions

    def _split(self, families: list[FamilyCells], view: View) -> Window | WideRow:
        """Returns the window, or the first of several smaller ones if values that are away would make it too large."""
        window_resume_key = self._chunks.resume_key
        present = [cells for cells in families if len(cells.run)]
        if not (self._reads_values and any(cells.run.values.are_away for cells in present)):
            return Window(families, window_resume_key)
        rows = window_rows([single_chunk_keys(cells.run.keys) for cells in present])
        byte_counts, cell_counts = np.zeros(len(rows.keys), np.int64), np.zeros(len(rows.keys), np.int64)
        for cells, places in zip(present, rows.of_cells, strict=True):
            np.add.at(byte_counts, places, cells.run.values.byte_counts())
            np.add.at(cell_counts, places, 1)
        slices = list(slices_within(byte_counts, self._window_bytes))
        for start, stop in reversed(slices) if self._reverse else slices:
            if self._reverse:
                resume_key = _key(rows.keys, start) if start else window_resume_key
            else:
                resume_key = _key(rows.keys, stop) if stop < len(rows.keys) else window_resume_key
            if byte_counts[start] > self._window_bytes and cell_counts[start] > 1:
                self._pending.append(WideRow(_key(rows.keys, start), view, resume_key))
            else:
                parts = [
                    FamilyCells(
                        cells.family, cells.run.slice(*np.searchsorted(places, (start, stop))), cells.versions_max
                    )
                    for cells, places in zip(present, rows.of_cells, strict=True)
                ]
                self._pending.append(Window(parts, resume_key))
        return self._pending.popleft()


def _of_qualifiers(run: SortedRun, qualifiers: frozenset[bytes]) -> SortedRun:
    """Returns the cells of these qualifiers and the family tombstones that may hide them, so that fewer are sorted."""
    run = SortedRun(single_chunk(run.keys), run.values)
    is_read = is_one_of(column(run.keys, QUALIFIER), qualifiers)
    return run.filter(is_read | (kinds(column(run.keys, KIND)) == DELETE_FAMILY))


def _key(keys: Column, index: int) -> bytes:
    key = keys[index].as_py()
    assert isinstance(key, bytes)
    return key
