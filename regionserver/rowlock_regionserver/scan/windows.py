"""Windows: whole rows of one range from all sources of the families that a scan reads, up to a common row.

Each source gives a chunk of whole rows up to a frontier of its own. A window ends at the nearest of these; what a
source gave beyond it is held for the next window, so no row is read twice and memory is about one chunk a source. The
view is taken anew for each window: what is held of a source that has left it is dropped, and a source that has come is
read from where the last window ended. That is right because every view has all that the read point sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rowlock_regionserver.cells import DELETE_FAMILY, Family, ReadPoint
from rowlock_regionserver.scan.columns import KIND, QUALIFIER, column, keep, kinds, single_chunk
from rowlock_regionserver.scan.masks import is_one_of
from rowlock_regionserver.scan.merge import first_at_or_after, joined_rows, merged
from rowlock_regionserver.scan.ranges import RowRange, is_empty
from rowlock_regionserver.scan.visibility import visible
from rowlock_regionserver.scan.window_choice import FamilyCells
from rowlock_regionserver.sources import Chunk, Source

View = Sequence[tuple[Family, Sequence[Source]]]

# The families that a scan reads, and of each the qualifiers; None: all of them.
ColumnsRead = Mapping[bytes, frozenset[bytes] | None]


@dataclass(frozen=True, slots=True)
class _Held:
    """What a source gave; the source stands beside it so that its id can't be used again meanwhile."""

    source: Source
    chunk: Chunk


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
    ) -> None:
        self._sources_now = sources_now
        self._columns_read = columns_read
        self._read_point = read_point
        self._range = row_range  # what has not been given yet
        self._reverse = reverse
        self._held: dict[int, _Held] = {}
        self._is_exhausted = is_empty(row_range)

    @property
    def row_reached(self) -> bytes:
        """What the range has before it was given, or backwards from it on; at last that is the range's own end."""
        start, stop = self._range
        return stop if self._reverse else start

    def next(self, bytes_max: int, merge_bytes_max: int) -> list[FamilyCells] | None:
        """The next window by family name, perhaps without a cell; None: the range is exhausted.

        Reads about `bytes_max` of each source that has nothing left over, less when the sources together would pass
        `merge_bytes_max`. Blocks on the sources' disks.
        """
        if self._is_exhausted:
            return None
        view = self._view()
        source_count = sum(len(sources) for _, sources in view)
        bytes_each = max(1, min(bytes_max, merge_bytes_max // max(1, source_count)))
        held = {
            id(source): self._held.get(id(source)) or _Held(source, self._read(source, bytes_each))
            for _, sources in view
            for source in sources
        }
        edge = self._edge([part.chunk for part in held.values()])
        window = []
        self._held = {}
        for family, sources in view:
            given = []
            for source in sources:
                table, left_over = self._split(held[id(source)].chunk, edge)
                if table.num_rows:
                    given.append(replace(held[id(source)].chunk, table=table))
                if left_over is not None:
                    self._held[id(source)] = _Held(source, left_over)
            window.append(self._seen(family, given))
        self._move_to(edge)
        return window

    def _view(self) -> list[tuple[Family, list[Source]]]:
        """The families to read, by name, with the sources that may have something to see."""
        newest = self._read_point.write_number
        view = [
            (family, [source for source in sources if source.write_number_min <= newest])
            for family, sources in self._sources_now()
            if self._columns_read is None or family.name in self._columns_read
        ]
        return sorted(view, key=lambda store: store[0].name)

    def _read(self, source: Source, bytes_max: int) -> Chunk:
        start, stop = self._range
        chunk = source.read_rows(start, stop, bytes_max, reverse=self._reverse)
        frontier = chunk.frontier
        if frontier is None:
            return chunk
        if self._reverse:
            assert not stop or frontier < stop, f"a chunk of [{start!r}, {stop!r}) backwards ends at {frontier!r}"
            is_end = frontier <= start
        else:
            assert frontier > start, f"a chunk of [{start!r}, {stop!r}) ends at {frontier!r}"
            is_end = stop != b"" and frontier >= stop
        return replace(chunk, frontier=None) if is_end else chunk

    def _edge(self, chunks: Sequence[Chunk]) -> bytes | None:
        """The row that all chunks reach; None: all have given all."""
        frontiers = [chunk.frontier for chunk in chunks if chunk.frontier is not None]
        if not frontiers:
            return None
        return max(frontiers) if self._reverse else min(frontiers)

    def _split(self, chunk: Chunk, edge: bytes | None) -> tuple[pa.Table, Chunk | None]:
        """What of a chunk belongs to the window that ends at `edge`, and what is left over; None: read it anew."""
        if edge is None or chunk.frontier == edge:
            return chunk.table, None
        cut = first_at_or_after(chunk.table, edge)
        below, above = chunk.table.slice(0, cut), chunk.table.slice(cut)
        if self._reverse:
            return above, replace(chunk, table=below)
        return below, replace(chunk, table=above)

    def _move_to(self, edge: bytes | None) -> None:
        start, stop = self._range
        if edge is None:
            self._is_exhausted = True
            self._range = (start, start) if self._reverse else (stop, stop)
        elif self._reverse:
            self._range = (start, edge)
        else:
            self._range = (edge, stop)

    def _seen(self, family: Family, chunks: Sequence[Chunk]) -> FamilyCells:
        """What the read point sees of one family's chunks."""
        tables = [chunk.table for chunk in chunks]
        if all(self._is_plain(chunk, family) for chunk in chunks):
            joined = joined_rows(tables)
            if joined is not None:
                return FamilyCells(family, joined, 1)
        qualifiers = None if self._columns_read is None else self._columns_read[family.name]
        if qualifiers is not None:
            tables = [_narrowed(single_chunk(table), qualifiers) for table in tables]
        return FamilyCells(family, visible(single_chunk(merged(tables)), self._read_point, family), family.versions)

    def _is_plain(self, chunk: Chunk, family: Family) -> bool:
        """Each of its cells is seen, and is its column's only one."""
        expires = family.time_to_live_ms and chunk.timestamp_min + family.time_to_live_ms <= self._read_point.now_ms
        is_seen = chunk.write_number_max <= self._read_point.write_number and not expires
        return is_seen and not chunk.has_tombstones and not chunk.has_versions


def _narrowed(table: pa.Table, qualifiers: frozenset[bytes]) -> pa.Table:
    """The cells of these qualifiers, and what may hide them: less to sort. One chunk a column."""
    is_read = is_one_of(column(table, QUALIFIER), qualifiers)
    return keep(table, is_read | (kinds(column(table, KIND)) == DELETE_FAMILY))
