"""Buffers the chunks that a merge reads ahead from its sources, and cuts them at common rows.

    start                edge
      |--- this step ----|
    a |rrrrrrrrrrrrrrrrrr|rrrrr                  read; cells beyond the edge stay buffered for later steps
    b |rrrrrrrrr.........|                       read up to the edge exactly
    c |                  |         (rrrrr        unread: the index says that it has nothing before this row
    d |                  | (rrrrrr               unread, and the nearest of the unread: the edge is not beyond its row

1. A step returns the rows of all sources up to an edge. The edge is the nearest row up to which a source has been read,
   or at which an unread source may begin. Each row is returned once.
2. Sources whose frontier is the edge are read further while the step has bytes left. So a short scan reads nothing from
   sources that begin later in the table, and little from most that overlap.
3. The buffers are bounded. Beyond the bound the chunks whose rows come last are dropped, and read again later.
4. A row that is wide in some source is a step of its own, which the caller reads (row_parts.py).

In reverse everything is mirrored: rows descend, and the range's stop moves towards its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.row_ranges import RowRange, is_empty
from rowlock_regionserver.sources import Chunk, LinesWanted, Reading, Source

# Smaller reads of one source cost more than they save for the others.
SOURCE_BYTES_MIN = 32 * 1024
# A read may return this much more than requested: the remainder of a block.
_BLOCK_BYTES = 128 * 1024


@dataclass(slots=True)
class _SourceBuffer:
    """A source and the chunks read ahead from it. The reference keeps the source's id() from being reused."""

    source: Source
    # The row up to which it has been read, or is known to have nothing; None: the end.
    frontier: bytes | None
    chunks: list[Chunk] = field(default_factory=list)  # in the order of reading, none empty
    wide_row: bytes | None = None  # at the frontier
    is_read: bool = False

    @property
    def bytes_held(self) -> int:
        return sum([chunk.bytes_held for chunk in self.chunks])


# The chunks of a step in order, by the id() of their source, without sources that have no rows in it; or a wide row.
Step = dict[int, list[Chunk]] | bytes


class SourceChunks:
    """Reads one range of the sources step by step, in the direction of the scan. Used by one thread."""

    def __init__(
        self, row_range: RowRange, *, reverse: bool, bytes_held_max: int, source_bytes_max: int = NO_LIMIT
    ) -> None:
        """`bytes_held_max` bounds the buffers between steps, `source_bytes_max` one read of a source without lines."""
        # What the reads of the next step ask of each source, by its id(); a source that is missing returns cells.
        self.lines_wanted: dict[int, LinesWanted] = {}
        self.reading = Reading.BULK
        self._range = row_range  # not returned yet
        self._reverse = reverse
        self._bytes_held_max = bytes_held_max
        self._source_bytes_max = source_bytes_max
        self._buffers: dict[int, _SourceBuffer] = {}
        self._merged_count = 1  # sources that had rows in the previous step
        self.is_exhausted = is_empty(row_range)
        self._wide_row: bytes | None = None  # the row that is the next step
        self.bytes_held = 0  # memory that the buffers keep alive for later steps

    @property
    def resume_key(self) -> bytes:
        """The rows of the range before this key, or in reverse from it on, were returned; at last the range's end."""
        start, stop = self._range
        return stop if self._reverse else start

    def advance(self, sources: Sequence[Source], bytes_max: int, row_bytes_max: int) -> Step:
        """Returns the next step: the rows up to the next edge, perhaps none, or a wide row.

        Reads about `bytes_max` in all, and never a row that has more than `row_bytes_max` in one source. Drops the
        buffers of sources that are no longer in `sources`. Blocks on the sources' disks. Must not be called on an
        exhausted range.
        """
        if self._wide_row is not None:
            return self._pass_wide_row(self._wide_row)
        self._buffers = {id(source): self._buffers.get(id(source)) or self._unread(source) for source in sources}
        edge = self._read(bytes_max, row_bytes_max)
        step = {key: chunks for key, buffer in self._buffers.items() if (chunks := self._take_up_to(buffer, edge))}
        self._merged_count = max(1, len(step))
        self._move_to(edge)
        self._drop_surplus()
        return step

    def _pass_wide_row(self, row: bytes) -> bytes:
        """Returns the wide row as the step; the next step begins after it."""
        self._wide_row = None
        edge = row if self._reverse else row + b"\x00"
        for buffer in self._buffers.values():
            self._take_up_to(buffer, edge)
        self._move_to(edge)
        return row

    def _unread(self, source: Source) -> _SourceBuffer:
        return _SourceBuffer(source, source.empty_until(*self._range, reverse=self._reverse))

    def _read(self, bytes_max: int, row_bytes_max: int) -> bytes | None:
        """Reads sources at the edge until about `bytes_max` were read; returns the edge, None when all is read."""
        # The first read of a source is small if it may be one of many that are merged from here on.
        unread_count = sum([buffer.frontier is not None for buffer in self._buffers.values()])
        bytes_first = min(SOURCE_BYTES_MIN, bytes_max) if unread_count > 1 else bytes_max
        buffered_count = sum([bool(buffer.chunks) for buffer in self._buffers.values()])
        bytes_read = 0
        nearest = max if self._reverse else min
        while True:
            frontiers = [buffer.frontier for buffer in self._buffers.values() if buffer.frontier is not None]
            if not frontiers:
                return None
            edge = nearest(frontiers)
            at_edge = [buffer for buffer in self._buffers.values() if buffer.frontier == edge]
            if any(buffer.wide_row is not None for buffer in at_edge):
                return edge
            if bytes_read >= bytes_max and not self._is_at_start(edge):
                return edge
            for buffer in at_edge:
                buffered_count += not buffer.chunks
                share = bytes_max // max(1, self._merged_count, buffered_count)
                bytes_requested = max(bytes_first, share) if buffer.is_read else bytes_first
                if buffer.source.line_timestamp_min is None:
                    bytes_requested = min(bytes_requested, self._source_bytes_max)
                bytes_held = self._read_one(buffer, edge, bytes_requested, row_bytes_max)
                bytes_read += max(bytes_requested, bytes_held - _BLOCK_BYTES)

    def _read_one(self, buffer: _SourceBuffer, frontier: bytes, bytes_max: int, row_bytes_max: int) -> int:
        """Reads the source from its frontier into its buffer; returns the bytes that the new chunk holds."""
        start, stop = self._range
        start, stop = (start, frontier) if self._reverse else (frontier, stop)
        wanted = self.lines_wanted.get(id(buffer.source))
        if wanted is not None and wanted.unread_columns_max and not self._is_alone(buffer):
            wanted = replace(wanted, unread_columns_max=0)
        chunk = buffer.source.read_rows(
            start,
            stop,
            bytes_max,
            row_bytes_max,
            reverse=self._reverse,
            lines=wanted,
            reading=self.reading,
        )
        if chunk.lines is not None and wanted is not None and not wanted.has_every_cell:
            chunk = replace(chunk, is_narrow=True)
        buffer.frontier, buffer.wide_row, buffer.is_read = chunk.frontier, chunk.wide_row, True
        if chunk.frontier is not None:
            is_progress = chunk.wide_row is not None or chunk.frontier != frontier
            assert is_progress, f"a chunk of [{start!r}, {stop!r}) ends at {chunk.frontier!r}"
            if chunk.wide_row is None and self._is_at_end(chunk.frontier):
                buffer.frontier = None
        if len(chunk):
            buffer.chunks.append(chunk)
        return chunk.bytes_held

    def _is_alone(self, buffer: _SourceBuffer) -> bool:
        """Returns whether no other source has more rows."""
        others = [each for each in self._buffers.values() if each is not buffer]
        return all(each.frontier is None and not each.chunks for each in others)

    def _take_up_to(self, buffer: _SourceBuffer, edge: bytes | None) -> list[Chunk]:
        """Removes the chunks up to the edge from the buffer and returns them."""
        taken: list[Chunk] = []
        remaining: list[Chunk] = []
        for chunk in buffer.chunks:
            if edge is None or (chunk.frontier is not None and not self._is_beyond(chunk.frontier, edge)):
                taken.append(chunk)
                continue
            first_part, last_part = _cut(chunk, edge)
            if self._reverse:
                first_part, last_part = last_part, first_part
            if first_part is not None:
                taken.append(first_part)
            if last_part is not None:
                remaining.append(last_part)
        buffer.chunks = remaining
        if edge is not None and buffer.frontier is not None and not self._is_beyond(buffer.frontier, edge):
            self._wide_row = self._wide_row or (buffer.wide_row if buffer.frontier == edge else None)
            # The source continues at the edge or beyond: its index says where, for the range from the edge on.
            buffer.frontier, buffer.wide_row = self._frontier_beyond(buffer, edge), None
        return taken

    def _frontier_beyond(self, buffer: _SourceBuffer, edge: bytes) -> bytes | None:
        start, stop = self._range
        start, stop = (start, edge) if self._reverse else (edge, stop)
        return None if is_empty((start, stop)) else buffer.source.empty_until(start, stop, reverse=self._reverse)

    def _move_to(self, edge: bytes | None) -> None:
        start, stop = self._range
        if edge is None:
            self.is_exhausted = True
            self._range = (start, start) if self._reverse else (stop, stop)
        else:
            self._range = (start, edge) if self._reverse else (edge, stop)
            self.is_exhausted = self._wide_row is None and is_empty(self._range)

    def _drop_surplus(self) -> None:
        """Drops the buffers whose rows come last until the bound is kept."""
        byte_count = sum([buffer.bytes_held for buffer in self._buffers.values()])
        if byte_count > self._bytes_held_max:
            filled = [buffer for buffer in self._buffers.values() if buffer.chunks]
            filled.sort(key=lambda buffer: _first(buffer.chunks[0], self._reverse), reverse=not self._reverse)
            for buffer in filled[:-1]:  # The nearest is needed by the next step.
                if byte_count <= self._bytes_held_max:
                    break
                byte_count -= buffer.bytes_held
                first = _first(buffer.chunks[0], self._reverse)
                buffer.chunks, buffer.wide_row = [], None
                buffer.frontier = first + b"\x00" if self._reverse else first
        self.bytes_held = byte_count

    def _is_beyond(self, frontier: bytes, edge: bytes) -> bool:
        return frontier < edge if self._reverse else frontier > edge

    def _is_at_start(self, frontier: bytes) -> bool:
        start, stop = self._range
        if self._reverse:
            return stop != b"" and frontier >= stop
        return frontier <= start

    def _is_at_end(self, frontier: bytes) -> bool:
        start, stop = self._range
        if self._reverse:
            return frontier <= start
        return stop != b"" and frontier >= stop


def in_parts(chunks: Sequence[Chunk], count: int) -> Iterator[list[Chunk]]:
    """Yields the chunks of a step in about `count` parts, each with some rows of all chunks, ascending."""
    longest = max(chunks, key=len, default=None)
    rest = list(chunks)
    for part in range(1, count):
        assert longest is not None, "parts of no chunk"
        row = longest.row(len(longest) * part // count)
        cut = [_cut(chunk, row) for chunk in rest]
        rest = [after for _, after in cut if after is not None]
        if before := [before for before, _ in cut if before is not None]:
            yield before
    if rest:
        yield rest


def _first(chunk: Chunk, reverse: bool) -> bytes:
    """Returns the row of the chunk that comes first in the direction of the scan."""
    return chunk.row(-1 if reverse else 0)


def _cut(chunk: Chunk, row: bytes) -> tuple[Chunk | None, Chunk | None]:
    """Returns the parts of a chunk before a row and from it on; None for an empty part."""
    place, count = chunk.first_at_or_after(row), len(chunk)
    if place in (0, count):
        return (chunk, None) if place else (None, chunk)
    return chunk.slice(0, place), chunk.slice(place, count)
