"""What a merge has read of its sources ahead of the row that it has reached.

    start                edge
      |--- given now ----|
    a |rrrrrrrrrrrrrrrrrr|rrrrr                  read; what is beyond the edge is held for the next time
    b |rrrrrrrrr.........|                       read up to the edge exactly
    c |                  |         (rrrrr        unread: the index says that it has nothing before this row
    d |                  | (rrrrrr               unread, and the nearest of these: the edge stands there at the latest

1. A step gives the rows of all sources up to an edge: the nearest row to which one has been read, or at which an unread
   one may begin. Each row is given once.
2. What stands at the edge is read on, as long as the step has bytes left. So sources that come later in the table, and
   most of those that overlap, cost a short scan nothing.
3. What is held is bounded: beyond that the chunks whose rows come last are dropped, and read again when it is their
   turn.
4. A row that is wide in some source is a step of its own, which is for the caller to read (row_parts.py).

Backwards all of it is mirrored: what ascends descends, and the range's stop moves towards its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rowlock_regionserver.arrow.merge import first_at_or_after, first_row, last_row
from rowlock_regionserver.scan.ranges import RowRange, is_empty
from rowlock_regionserver.sources import NO_LIMIT, Chunk, Source

# Less of a source at once costs more than it spares others.
SOURCE_BYTES_MIN = 32 * 1024
# So much more than was asked for comes unasked: the rest of a block.
_BLOCK_BYTES = 128 * 1024


@dataclass(slots=True)
class _Held:
    """A source and what is held of it; it stands here so that its id can't be used again meanwhile."""

    source: Source
    # To which it has been read, or up to which it is known to have nothing; None: to the end.
    frontier: bytes | None
    chunks: list[Chunk] = field(default_factory=list)  # in the order of reading, none empty
    wide_row: bytes | None = None  # at the frontier
    is_read: bool = False

    @property
    def bytes_held(self) -> int:
        return sum([chunk.bytes_held for chunk in self.chunks])


# What each source, by its id(), has of a step, in order; those without rows are left out. Or a wide row.
Step = dict[int, list[Chunk]] | bytes


class SourceChunks:
    """Reads the sources of one range, step by step, in the direction of the scan. Used by one thread."""

    def __init__(
        self, row_range: RowRange, *, reverse: bool, bytes_held_max: int, source_bytes_max: int = NO_LIMIT
    ) -> None:
        """`bytes_held_max`: what is held from step to step; `source_bytes_max`: what is read of a source at once."""
        self._range = row_range  # what has not been given yet
        self._reverse = reverse
        self._bytes_held_max = bytes_held_max
        self._source_bytes_max = source_bytes_max
        self._held: dict[int, _Held] = {}
        self._merged_count = 1  # sources that had rows in the step before
        self.is_exhausted = is_empty(row_range)
        self._wide_row: bytes | None = None  # the row that is the next step
        self.bytes_held = 0  # what is kept alive for later steps

    @property
    def resume_key(self) -> bytes:
        """What the range has before it was given, or backwards from it on; at last that is the range's own end."""
        start, stop = self._range
        return stop if self._reverse else start

    def advance(self, sources: Sequence[Source], bytes_max: int, row_bytes_max: int) -> Step:
        """The next step: the rows up to the next edge, perhaps none, or a wide row.

        Reads about `bytes_max` in all, and never a row that has more than `row_bytes_max` in one source. What is held
        of sources that are not among these any more is dropped. Blocks on the sources' disks. Not for a range that is
        exhausted.
        """
        if self._wide_row is not None:
            return self._pass_wide_row(self._wide_row)
        self._held = {id(source): self._held.get(id(source)) or self._unread(source) for source in sources}
        edge = self._read(bytes_max, row_bytes_max)
        given = {key: chunks for key, held in self._held.items() if (chunks := self._taken(held, edge))}
        self._merged_count = max(1, len(given))
        self._move_to(edge)
        self._drop_surplus()
        return given

    def _pass_wide_row(self, row: bytes) -> bytes:
        """The step is the wide row, and the next one begins behind it."""
        self._wide_row = None
        edge = row if self._reverse else row + b"\x00"
        for held in self._held.values():
            self._taken(held, edge)
        self._move_to(edge)
        return row

    def _unread(self, source: Source) -> _Held:
        return _Held(source, source.empty_until(*self._range, reverse=self._reverse))

    def _read(self, bytes_max: int, row_bytes_max: int) -> bytes | None:
        """Reads on at the edge for as many bytes; gives the edge. None: all has been read."""
        # Of a source that comes in little is read at first: it may be one of many that are merged from here on.
        bytes_first = min(SOURCE_BYTES_MIN, bytes_max, self._source_bytes_max)
        holding_count = sum([bool(held.chunks) for held in self._held.values()])
        bytes_read = 0
        nearest = max if self._reverse else min
        while True:
            frontiers = [held.frontier for held in self._held.values() if held.frontier is not None]
            if not frontiers:
                return None
            edge = nearest(frontiers)
            standing = [held for held in self._held.values() if held.frontier == edge]
            if any(held.wide_row is not None for held in standing):
                return edge
            if bytes_read >= bytes_max and not self._is_at_start(edge):
                return edge
            for held in standing:
                holding_count += not held.chunks
                share = bytes_max // max(1, self._merged_count, holding_count)
                bytes_asked = min(max(bytes_first, share), self._source_bytes_max) if held.is_read else bytes_first
                bytes_given = self._read_one(held, edge, bytes_asked, row_bytes_max)
                bytes_read += max(bytes_asked, bytes_given - _BLOCK_BYTES)

    def _read_one(self, held: _Held, frontier: bytes, bytes_max: int, row_bytes_max: int) -> int:
        """Reads the source on from its frontier; gives the bytes that this holds."""
        start, stop = self._range
        start, stop = (start, frontier) if self._reverse else (frontier, stop)
        chunk = held.source.read_rows(start, stop, bytes_max, row_bytes_max, reverse=self._reverse)
        held.frontier, held.wide_row, held.is_read = chunk.frontier, chunk.wide_row, True
        if chunk.frontier is not None:
            is_progress = chunk.wide_row is not None or chunk.frontier != frontier
            assert is_progress, f"a chunk of [{start!r}, {stop!r}) ends at {chunk.frontier!r}"
            if chunk.wide_row is None and self._is_at_end(chunk.frontier):
                held.frontier = None
        if chunk.table.num_rows:
            held.chunks.append(chunk)
        return chunk.bytes_held

    def _taken(self, held: _Held, edge: bytes | None) -> list[Chunk]:
        """What is held of the source up to the edge, and is held no longer."""
        given: list[Chunk] = []
        left: list[Chunk] = []
        for chunk in held.chunks:
            if edge is None or (chunk.frontier is not None and not self._is_beyond(chunk.frontier, edge)):
                given.append(chunk)
                continue
            first_part, last_part = _cut(chunk, edge)
            if self._reverse:
                first_part, last_part = last_part, first_part
            if first_part is not None:
                given.append(first_part)
            if last_part is not None:
                left.append(last_part)
        held.chunks = left
        if edge is not None and held.frontier is not None and not self._is_beyond(held.frontier, edge):
            self._wide_row = self._wide_row or (held.wide_row if held.frontier == edge else None)
            # It goes on at the edge, or further on: that is asked of its index when the range has moved there.
            held.frontier, held.wide_row = self._again(held, edge), None
        return given

    def _again(self, held: _Held, edge: bytes) -> bytes | None:
        start, stop = self._range
        start, stop = (start, edge) if self._reverse else (edge, stop)
        return None if is_empty((start, stop)) else held.source.empty_until(start, stop, reverse=self._reverse)

    def _move_to(self, edge: bytes | None) -> None:
        start, stop = self._range
        if edge is None:
            self.is_exhausted = True
            self._range = (start, start) if self._reverse else (stop, stop)
        else:
            self._range = (start, edge) if self._reverse else (edge, stop)
            self.is_exhausted = self._wide_row is None and is_empty(self._range)

    def _drop_surplus(self) -> None:
        """Drops what comes last of what is held, as far as that is too much."""
        byte_count = sum([held.bytes_held for held in self._held.values()])
        if byte_count > self._bytes_held_max:
            holding = [held for held in self._held.values() if held.chunks]
            holding.sort(key=lambda held: _first(held.chunks[0], self._reverse), reverse=not self._reverse)
            for held in holding[:-1]:  # The nearest is wanted at once.
                if byte_count <= self._bytes_held_max:
                    break
                byte_count -= held.bytes_held
                first = _first(held.chunks[0], self._reverse)
                held.chunks, held.wide_row = [], None
                held.frontier = first + b"\x00" if self._reverse else first
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


def _first(chunk: Chunk, reverse: bool) -> bytes:
    """The row that reading comes to first."""
    return last_row(chunk.table) if reverse else first_row(chunk.table)


def _cut(chunk: Chunk, row: bytes) -> tuple[Chunk | None, Chunk | None]:
    """What a chunk has before a row, and from it on."""
    place, count = first_at_or_after(chunk.table, row), chunk.table.num_rows
    if place in (0, count):
        return (chunk, None) if place else (None, chunk)
    return _slice(chunk, 0, place), _slice(chunk, place, count)


def _slice(chunk: Chunk, start: int, stop: int) -> Chunk:
    """Some of the cells of a chunk."""
    table = chunk.table.slice(start, stop - start)
    away = tuple([(place - start, value) for place, value in chunk.away if start <= place < stop])
    held = chunk.bytes_held
    if held and chunk.table.column(0).num_chunks > 1:  # Parts of one piece of memory keep all of it.
        held = table.get_total_buffer_size()
    return replace(chunk, table=table, away=away, bytes_held=held)
