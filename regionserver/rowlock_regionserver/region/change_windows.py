"""Reads a window of a region's changes from its sources, in order of write number.

One pass reads each source that may have numbers of the window, and gathers those cells (gathered_changes.py). Files
whose numbers all lie beyond what is gathered are left out from then on. A number that has too many cells for a window
is read alone: its cells come family by family, in row order, in parts that continue at a position. A row that is larger
than a read comes in parts too, cut between its columns.

Blocks on the disk. The caller compares the horizon of the region after the pass: see docs/changes.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rowlock_regionserver.arrow.columns import QUALIFIER, WRITE_NUMBER, Mask, bytes_at, integers, single_array
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.change_spans import Span
from rowlock_regionserver.region.gathered_changes import GatheredChanges, changes_of, concatenated_changes
from rowlock_regionserver.region.stores import View
from rowlock_regionserver.scan.row_parts import filtered_row_parts
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import Source

_READ_BYTES = 1 << 20
# A larger row is read in parts.
_ROW_BYTES_MAX = 1 << 20
# A number of no more windows comes whole.
_WHOLE = 2
# The write number, the family's number, the length of the row. The row and the qualifier follow.
_POSITION = struct.Struct("<QIH")


@dataclass(frozen=True, slots=True)
class Position:
    """Where the cells of a write number continue: at a family by its number, a row, and a qualifier in it."""

    write_number: int
    family_number: int
    row: bytes = b""
    qualifier: bytes = b""

    def encode(self) -> bytes:
        return _POSITION.pack(self.write_number, self.family_number, len(self.row)) + self.row + self.qualifier

    @staticmethod
    def decode(data: bytes) -> Position:
        """Raises InvalidRequestError for bytes that are not a position."""
        if len(data) < _POSITION.size:
            raise InvalidRequestError(f"a position in a write number has at least {_POSITION.size} bytes: {data!r}")
        write_number, family_number, row_bytes = _POSITION.unpack_from(data)
        names = data[_POSITION.size :]
        if len(names) < row_bytes:
            raise InvalidRequestError(
                f"a position in a write number with a row of {row_bytes} bytes has them: {data!r}"
            )
        return Position(write_number, family_number, names[:row_bytes], names[row_bytes:])


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
        return _part(view, spans, Position(gathered.oversized, 0), bytes_max, between)
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


# Where a part may end, some cells of the number, or None after a read that has found none.
_Step = Position | pa.Table | None


def _part(
    view: View, spans: Sequence[Span], position: Position, bytes_max: int, between: Callable[[], None]
) -> ChangeWindow:
    """Returns the next cells of one write number: at least one if there are more, about `bytes_max` at most."""
    number = position.write_number
    found: list[pa.Table] = []
    byte_count = 0
    for family, step in _steps(view, spans, position, bytes_max):
        between()
        if isinstance(step, Position):
            if byte_count >= bytes_max:
                return ChangeWindow(concatenated_changes(found), number - 1, step)
        elif step is not None:
            found.append(changes_of(step, family))
            byte_count += step.nbytes
    return ChangeWindow(concatenated_changes(found), number)


def _steps(view: View, spans: Sequence[Span], position: Position, bytes_max: int) -> Iterator[tuple[bytes, _Step]]:
    """Yields steps through the cells of one write number from a position on, each with the name of its family."""
    number = position.write_number
    for family_number in sorted([each for each in view if each >= position.family_number]):
        family, sources = view[family_number]
        with_number = [each for each in sources if each.write_number_min <= number <= each.write_number_max]
        at = position if family_number == position.family_number else Position(number, family_number)
        for span in spans if with_number else ():
            if span.since < number and not (span.stop and at.row >= span.stop):
                begin = at if at.row >= span.start else replace(at, row=span.start, qualifier=b"")
                for step in _steps_in_rows(with_number, begin, span.stop, bytes_max):
                    yield family.name, step


def _steps_in_rows(sources: Sequence[Source], at: Position, stop: bytes, bytes_max: int) -> Iterator[_Step]:
    """Yields steps through the rows from a position on."""
    row_bytes_max = min(bytes_max, _ROW_BYTES_MAX)
    start = at.row
    if at.qualifier:
        yield from _steps_in_row(sources, at, row_bytes_max)
        start += b"\0"
    chunks = SourceChunks((start, stop), reverse=False, bytes_held_max=bytes_max)
    while not chunks.is_exhausted:
        yield replace(at, row=chunks.resume_key, qualifier=b"")
        step = chunks.advance(sources, _READ_BYTES, row_bytes_max)
        if isinstance(step, bytes):
            yield from _steps_in_row(sources, replace(at, row=step, qualifier=b""), row_bytes_max)
            continue
        for of_source in step.values():
            for chunk in of_source:
                run = chunk.run()
                yield _cells(run, integers(single_array(run.keys.column(WRITE_NUMBER))) == at.write_number)


def _steps_in_row(sources: Sequence[Source], at: Position, bytes_max: int) -> Iterator[_Step]:
    """Yields steps through one row. A part may end between two columns."""
    qualifier = None
    for run in filtered_row_parts(
        sources, at.row, bytes_max, lambda cells: cells.write_number == at.write_number, at.qualifier
    ):
        if not len(run):
            yield None
            continue
        first, last = [bytes_at(run.keys.column(QUALIFIER), place) for place in (0, len(run) - 1)]
        if qualifier is not None and first != qualifier:
            yield replace(at, qualifier=first)
        qualifier = last
        yield run.table()
