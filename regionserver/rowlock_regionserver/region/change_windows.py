"""Reads a window of a region's changes from its sources, in order of write number.

One pass reads each source that may have numbers of the window, and gathers those cells (gathered_changes.py). Files
whose numbers all lie beyond what is gathered are left out from then on. A number that has too many cells for a window
is read alone: its cells come in row order, family by family, in parts that continue at a position.

Blocks on the disk. The caller compares the horizon of the region after the pass: see docs/changes.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowlock_regionserver.arrow.columns import WRITE_NUMBER, Mask, integers, single_array
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.change_spans import Span
from rowlock_regionserver.region.gathered_changes import GatheredChanges, changes_of, concatenated_changes
from rowlock_regionserver.region.stores import View
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import Source

_READ_BYTES = 1 << 20
_ROW_BYTES_MAX = 8 << 20
# A number of no more windows comes whole.
_WHOLE = 2
_POSITION = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Position:
    """Where the cells of a write number go on: a family by its number, and a row."""

    write_number: int
    family_number: int
    row: bytes

    def encode(self) -> bytes:
        return _POSITION.pack(self.write_number, self.family_number) + self.row

    @staticmethod
    def decode(data: bytes) -> Position:
        """Raises InvalidRequestError for bytes that are no position."""
        if len(data) < _POSITION.size:
            raise InvalidRequestError(f"a position in a write number has at least {_POSITION.size} bytes: {data!r}")
        write_number, family_number = _POSITION.unpack_from(data)
        return Position(write_number, family_number, data[_POSITION.size :])


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """Changes of a region. `through`: all changes up to this number were returned, with this window.

    position: where the number after `through` goes on, of which the window is a part; None: it is not begun.
    """

    changes: pa.Table  # CHANGE_SCHEMA
    through: int
    position: Position | None = None


def read_window(
    view: View,
    spans: Sequence[Span],
    until: int,
    position: Position | None,
    bytes_max: int,
    *,
    between: Callable[[], None] = yield_now,
) -> ChangeWindow:
    """Returns the next changes of the spans, up to the number `until`, of about `bytes_max`.

    A number with more than twice as many comes in parts, all others come whole. Calls `between` after each read.
    """
    if position is not None:
        return _part(view, spans, position, bytes_max, between)
    gathered = GatheredChanges(until, bytes_max, _WHOLE * bytes_max)
    for family, sources in view.values():
        for span in spans:
            for source in sources:
                if span.since < source.write_number_max and source.write_number_min <= gathered.limit:
                    _gather(source, family.name, span, gathered, between)
    changes = gathered.changes()
    if gathered.oversized and not len(changes):
        return _part(view, spans, Position(gathered.oversized, 0, b""), bytes_max, between)
    return ChangeWindow(changes, gathered.limit)


def _gather(source: Source, family: bytes, span: Span, gathered: GatheredChanges, between: Callable[[], None]) -> None:
    """Adds the cells of one source. Its smallest number may pass the limit meanwhile: then the rest has none either."""
    for run in _runs(source, span):
        if source.write_number_min > gathered.limit or span.since >= gathered.limit:
            return
        numbers = integers(single_array(run.keys.column(WRITE_NUMBER)))
        cells = _cells(run, (numbers > span.since) & (numbers <= gathered.limit))
        if cells is not None:
            gathered.add(cells, family)
        between()


def _runs(source: Source, span: Span) -> Iterator[SortedRun]:
    """Yields the source's cells of the span's rows, in row order."""
    at: bytes | None = span.start
    while at is not None and not (span.stop and at >= span.stop):
        chunk = source.read_rows(at, span.stop, _READ_BYTES, _ROW_BYTES_MAX)
        if len(chunk):
            yield chunk.run()
        at = chunk.frontier
        if chunk.wide_row is not None:
            for part in source.row_parts(chunk.wide_row, _READ_BYTES):
                yield part.run()
            at = chunk.wide_row + b"\0"


def _cells(run: SortedRun, mask: Mask) -> pa.Table | None:
    """Returns the cells where the mask is true, with their values; None if there are none."""
    return run.filter(mask).table() if mask.any() else None


def _part(
    view: View, spans: Sequence[Span], position: Position, bytes_max: int, between: Callable[[], None]
) -> ChangeWindow:
    """Returns the next cells of one write number, at least one if there are more."""
    number = position.write_number
    found: list[pa.Table] = []
    byte_count = 0
    for family_number in sorted([each for each in view if each >= position.family_number]):
        family, sources = view[family_number]
        with_number = [each for each in sources if each.write_number_min <= number <= each.write_number_max]
        first = position.row if family_number == position.family_number else b""
        for span in spans:
            start = max(span.start, first)
            if not with_number or span.since >= number or (span.stop and start >= span.stop):
                continue
            chunks = SourceChunks((start, span.stop), reverse=False, bytes_held_max=bytes_max)
            while not chunks.is_exhausted:
                if byte_count >= bytes_max:
                    rest = Position(number, family_number, chunks.resume_key)
                    return ChangeWindow(concatenated_changes(found), number - 1, rest)
                for run in _step(chunks, with_number):
                    numbers = integers(single_array(run.keys.column(WRITE_NUMBER)))
                    cells = _cells(run, numbers == number)
                    if cells is not None:
                        found.append(changes_of(cells, family.name))
                        byte_count += cells.nbytes
                between()
    return ChangeWindow(concatenated_changes(found), number)


def _step(chunks: SourceChunks, sources: Sequence[Source]) -> Iterator[SortedRun]:
    """Yields the cells of the next rows, from all sources."""
    step = chunks.advance(sources, _READ_BYTES, _ROW_BYTES_MAX)
    if isinstance(step, bytes):
        for source in sources:
            for part in source.row_parts(step, _READ_BYTES):
                yield part.run()
        return
    for of_source in step.values():
        for chunk in of_source:
            yield chunk.run()
