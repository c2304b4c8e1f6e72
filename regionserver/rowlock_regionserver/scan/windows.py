"""Windows: whole rows of one range from all sources of the families that a scan reads, and what it sees of them.

A window has the rows up to an edge that all sources reach (source_chunks.py). What a read point sees of it is judged by
keys; values stay where they are until some are answered. The view is taken anew for each window: what is held of a
source that has left it is dropped, and a source that has come is read from where the last window ended. That is right
because every view has all that the read point sees.

A row is not read whole when some source has more of it than a window may hold, or when the values that are seen of it
are more than that. It is given as a WideRow, for wide_rows.py to read in parts.
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
from rowlock_regionserver.scan.window_choice import FamilyCells
from rowlock_regionserver.scan.window_rows import window_rows
from rowlock_regionserver.sources import Chunk, Source
from rowlock_regionserver.versions.visibility_columns import visible

View = Sequence[tuple[Family, Sequence[Source]]]

# The families that a scan reads, and of each the qualifiers; None: all of them.
ColumnsRead = Mapping[bytes, frozenset[bytes] | None]


@dataclass(frozen=True, slots=True)
class Window:
    """What is seen of whole rows, by family name; perhaps no cell. `resume_key`: see WindowReader."""

    families: Sequence[FamilyCells]
    resume_key: bytes


@dataclass(frozen=True, slots=True)
class WideRow:
    """A row that is not read whole, and the sources of the families to read, by name. `resume_key`: once it is."""

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
        """`window_bytes`: what a window takes at most, but for its only row; `bytes_held_max`: what is held beside it.

        `reads_values`: values of what is seen will be asked for.
        """
        self._sources_now = sources_now
        self._columns_read = columns_read
        self._read_point = read_point
        self._reverse = reverse
        self._reads_values = reads_values
        self._window_bytes = window_bytes
        self._bytes_held_max = bytes_held_max
        self._chunks = SourceChunks(row_range, reverse=reverse, bytes_held_max=bytes_held_max)
        # What was read and judged together, and is given one after the other.
        self._judged: deque[Window | WideRow] = deque()
        self._window_bytes_held = 0

    @property
    def bytes_held(self) -> int:
        """Memory that is held for the window that was given last, and for those to come."""
        return self._chunks.bytes_held + self._window_bytes_held

    def next(self, bytes_max: int) -> Window | WideRow | None:
        """The next window, for which about `bytes_max` are read; None: the range is exhausted.

        `resume_key` is what the range has before it, or backwards from it on, when the window has been answered; at
        last that is the range's own end. Blocks on the sources' disks.
        """
        if self._judged:
            return self._judged.popleft()
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
            self._seen(family, [chunk for source in of_family for chunk in by_source.get(id(source), ())])
            for family, of_family in view
        ]
        return self._divided(families, view)

    def _view(self) -> list[tuple[Family, list[Source]]]:
        """The families to read, by name, with the sources that may have something to see."""
        newest = self._read_point.write_number
        view = [
            (family, [source for source in sources if source.write_number_min <= newest])
            for family, sources in self._sources_now()
            if self._columns_read is None or family.name in self._columns_read
        ]
        return sorted(view, key=lambda store: store[0].name)

    def _seen(self, family: Family, chunks: Sequence[Chunk]) -> FamilyCells:
        """What the read point sees of one family's chunks."""
        runs = [SortedRun.of(chunk) for chunk in chunks]
        is_plain = all(self._is_plain(chunk, family) for chunk in chunks)
        if is_plain:
            joined = joined_rows(runs)
            if joined is not None:
                return FamilyCells(family, joined, 1)
        qualifiers = None if self._columns_read is None else self._columns_read[family.name]
        if qualifiers is not None:
            runs = [_narrowed(run, qualifiers) for run in runs]
        run = sorted_cells(runs) if is_plain else merged(runs)
        run = SortedRun(single_chunk(run.keys), run.values)
        return FamilyCells(family, run.kept(visible(run.keys, self._read_point, family)), family.versions)

    def _is_plain(self, chunk: Chunk, family: Family) -> bool:
        """Each of its cells is seen, and is its column's only one."""
        expires = family.time_to_live_ms and chunk.timestamp_min + family.time_to_live_ms <= self._read_point.now_ms
        is_seen = chunk.write_number_max <= self._read_point.write_number and not expires
        return is_seen and not chunk.has_tombstones and not chunk.has_versions

    def _divided(self, families: list[FamilyCells], view: View) -> Window | WideRow:
        """The window, or where values that are away would make it too large the first of several that are not."""
        reached = self._chunks.resume_key
        present = [cells for cells in families if len(cells.run)]
        if not (self._reads_values and any(cells.run.values.are_away for cells in present)):
            return Window(families, reached)
        rows = window_rows([single_chunk_keys(cells.run.keys) for cells in present])
        byte_counts, cell_counts = np.zeros(len(rows.keys), np.int64), np.zeros(len(rows.keys), np.int64)
        for cells, places in zip(present, rows.of_cells, strict=True):
            np.add.at(byte_counts, places, cells.run.values.byte_counts())
            np.add.at(cell_counts, places, 1)
        slices = list(slices_within(byte_counts, self._window_bytes))
        for start, stop in reversed(slices) if self._reverse else slices:
            if self._reverse:
                resume_key = _key(rows.keys, start) if start else reached
            else:
                resume_key = _key(rows.keys, stop) if stop < len(rows.keys) else reached
            if byte_counts[start] > self._window_bytes and cell_counts[start] > 1:
                self._judged.append(WideRow(_key(rows.keys, start), view, resume_key))
            else:
                parts = [
                    FamilyCells(
                        cells.family, cells.run.slice(*np.searchsorted(places, (start, stop))), cells.versions_max
                    )
                    for cells, places in zip(present, rows.of_cells, strict=True)
                ]
                self._judged.append(Window(parts, resume_key))
        return self._judged.popleft()


def _narrowed(run: SortedRun, qualifiers: frozenset[bytes]) -> SortedRun:
    """The cells of these qualifiers, and what may hide them: less to sort."""
    run = SortedRun(single_chunk(run.keys), run.values)
    is_read = is_one_of(column(run.keys, QUALIFIER), qualifiers)
    return run.kept(is_read | (kinds(column(run.keys, KIND)) == DELETE_FAMILY))


def _key(keys: Column, index: int) -> bytes:
    key = keys[index].as_py()
    assert isinstance(key, bytes)
    return key
