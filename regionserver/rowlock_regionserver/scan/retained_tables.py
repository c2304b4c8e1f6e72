"""Merges one family's sources into sorted tables and lines of the cells to retain: the contents of a new store file.

The sources are merged window by window (source_chunks.py), and cells that no reader can see any more are dropped
(versions/retention_columns.py). The rules look at keys only, and only the values of retained cells are copied, into
tables of bounded size: a source may hold more than an Arrow column can, in one row or even in one column of a row. A
row that is larger than a window is written in parts (row_parts.py).

A window stays lines in two cases, without the cells that have expired. If each row has one line, there is nothing to
resolve, because a column has only one version: the lines pass as they are. If a family of one version is read at no
read point before its newest cell, each row becomes one line, with the newest value of each column: lines have no
tombstones, so its other puts are surplus. Cells become lines before that if they are at most half of the window's cells
and in columns of its lines, like single puts between batches. All other windows are merged as cells.

Scans have a loop of their own over the same steps and parts: see docs/decisions/windows_of_scans_and_flushes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask, single_chunk
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.line_merging import in_succession, merged_lines, newest_whole_lines
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.scan.line_overlay import RankedLines, one_line_a_row
from rowlock_regionserver.scan.row_parts import filtered_row_parts, judged_with_family_tombstones
from rowlock_regionserver.scan.source_chunks import SourceChunks, in_parts
from rowlock_regionserver.scan.window_rows import ranked
from rowlock_regionserver.sources import Chunk, LinesWanted, Source
from rowlock_regionserver.versions.retention import Retention
from rowlock_regionserver.versions.retention_columns import retained

# The greatest share of a window's cells of which lines are formed.
_FORMED_SHARE_MAX = 0.5

# Windows that stay lines grow to this size, some sixteen blocks, because each window takes the same steps.
LINES_BYTES = 4 * MIB
# They grow further if they have fewer bytes of each source that has lines, because each window cuts each source.
_LINES_OF_SOURCE_BYTES = 64 * KIB
# But they grow to at most so many times the size of other windows.
_LINES_GROWTH_MAX = 8

# Lines of different columns stay lines if together they have at most this many times their own places.
_PLACES_GROWTH_MAX = 4

# Returns which cells to retain. The cells are whole rows, or columns of one row after all its family tombstones.
_Rule = Callable[[SortedCells], Mask]


def _do_nothing() -> None: ...


def _count_nothing(cell_count: int) -> None: ...


def retained_tables(
    sources: Sequence[Source],
    retention: Retention,
    versions: int,
    bytes_max: int,
    merge_bytes_max: int = NO_LIMIT,
    *,
    lines_bytes: int = LINES_BYTES,
    bytes_held_max: int = NO_LIMIT,
    merging: Callable[[int], None] = _count_nothing,
    between: Callable[[], None] = _do_nothing,
) -> Iterator[pa.Table | Lines]:
    """Yields tables of CELL_SCHEMA, or lines, in store order.

    Calls `merging` for each window, with the number of its cells (0 if it is a row that is merged in parts), and
    `between` after each piece, or after a window of which nothing remains.

    `versions` is the family's limit. The sources must not change meanwhile. `bytes_held_max` bounds what is held of
    sources for later windows; what is not held is read again.
    One read of a source without lines takes `bytes_max`, and less if the sources with rows in the last window would
    exceed `merge_bytes_max` in total. A table of several cells has about `merge_bytes_max` at most. Windows that stay
    lines grow to `lines_bytes`, or with many sources to more, but to at most eight times as much as others. Blocks on
    disks.
    """
    window_bytes = merge_bytes_max if merge_bytes_max < NO_LIMIT else bytes_max * max(1, len(sources))
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=bytes_held_max, source_bytes_max=bytes_max)
    chunks.lines_wanted = {id(source): LinesWanted() for source in sources}
    rule = partial(retained, retention=retention, versions=versions)
    with_lines = sum([source.line_timestamp_min is not None for source in sources])
    grown_bytes = max(lines_bytes, with_lines * _LINES_OF_SOURCE_BYTES)
    grown_bytes = max(window_bytes, min(grown_bytes, _LINES_GROWTH_MAX * window_bytes))
    step_bytes = window_bytes
    while not chunks.is_exhausted:
        step = chunks.advance(sources, step_bytes, window_bytes)
        pieces: Iterable[pa.Table | Lines] | None
        if isinstance(step, bytes):
            step_bytes = window_bytes
            merging(0)
            pieces = _tables(_retained_of_row(sources, step, rule, window_bytes), window_bytes)
        else:
            of_step = [chunk for of_source in step.values() for chunk in of_source]
            merging(sum([chunk.table.num_rows if chunk.lines is None else chunk.lines.cell_count for chunk in of_step]))
            pieces = _lines_of(of_step, retention, versions)
            if pieces is None:
                # In parts, because a window of lines may have grown, and a merge keeps the interpreter.
                parts = in_parts(of_step, step_bytes // window_bytes)
                pieces = _tables((run for part in parts for run in _retained_of_rows(part, rule)), window_bytes)
                step_bytes = window_bytes
            elif of_step:
                step_bytes = min(2 * step_bytes, grown_bytes)
        is_empty = True
        for piece in pieces:
            is_empty = False
            yield piece
            between()
        if is_empty:
            between()


def _tables(runs: Iterable[SortedRun], bytes_max: int) -> Iterator[pa.Table]:
    for run in runs:
        yield from run.tables(bytes_max)


def _lines_of(chunks: Sequence[Chunk], retention: Retention, versions: int) -> Sequence[Lines] | None:
    """Returns the retained rows as lines; None if they must be merged as cells."""
    if retention.past:
        return None
    if retention.expired_through >= 0 and any(chunk.write_number_max > retention.retained_after for chunk in chunks):
        return None  # Some expired cells stay, for the change feed.
    lines = _as_lines(chunks)
    if lines is None or _have_few_columns_in_common(lines):
        return None
    newest = max([chunk.write_number_max for chunk in chunks], default=0)
    only_newest = versions == 1 and retention.protected[0][0] >= newest
    retained_ones = _one_line_a_row(lines, only_newest=only_newest)
    if retained_ones is None:
        return None
    return [rest for rest in (each.later_than(retention.expired_through) for each in retained_ones) if len(rest)]


def _one_line_a_row(parts: Sequence[Lines], *, only_newest: bool) -> Sequence[Lines] | None:
    """Returns the lines in row order; None if some row has several lines, unless only its newest cells count."""
    if only_newest and (in_succession(parts) is None or any(part.has_versions for part in parts)):
        whole = newest_whole_lines(parts)
        if whole is not None:
            return [whole]
    merged_ones = merged_lines(parts)
    return _newest_lines(parts) if merged_ones is None and only_newest else merged_ones


def _have_few_columns_in_common(parts: Sequence[Lines]) -> bool:
    """Returns whether most places of lines with the columns of all parts would be empty."""
    qualifiers = {qualifier for part in parts for qualifier in part.qualifiers}
    own = sum([len(part) * len(part.qualifiers) for part in parts])
    return len(qualifiers) * sum(map(len, parts)) > _PLACES_GROWTH_MAX * own


def _as_lines(chunks: Sequence[Chunk]) -> list[Lines] | None:
    """Returns all cells of the chunks as lines; None if most are not lines, or if some can't be."""
    lines = [chunk.lines for chunk in chunks if chunk.lines is not None]
    if len(lines) < len(chunks):
        of_cells = [chunk for chunk in chunks if chunk.lines is None]
        cell_count = sum([chunk.table.num_rows for chunk in of_cells])
        if cell_count > _FORMED_SHARE_MAX * (cell_count + sum([each.cell_count for each in lines])):
            return None
        if any(chunk.away for chunk in of_cells):
            return None
        # A column that only they have stays cells: few rows of the window have it.
        qualifiers = {qualifier for each in lines for qualifier in each.qualifiers}
        for chunk in of_cells:
            formed, others = lines_of(chunk.table)
            if others.num_rows or (formed is not None and not qualifiers.issuperset(formed.qualifiers)):
                return None
            if formed is not None:
                lines.append(formed)
    return lines


def _newest_lines(parts: Sequence[Lines]) -> list[Lines]:
    """Returns one line for each row, with the newest cell of each column."""
    # The longest comes first: if the others have no rows of their own, `ranked` sorts none.
    longest_first = sorted(parts, key=len, reverse=True)
    _, ranks = ranked(pa.concat_arrays([part.rows for part in longest_first]))
    ends = np.cumsum([len(part) for part in longest_first])
    of_parts = [RankedLines(*each) for each in zip(longest_first, np.split(ranks, ends[:-1]), strict=True)]
    newest = one_line_a_row(of_parts, keeps_write_numbers=True)
    return [] if newest is None else [newest.lines()]


def _retained_of_row(sources: Sequence[Source], row: bytes, rule: _Rule, bytes_max: int) -> Iterable[SortedRun]:
    """Returns the retained cells of one row, in parts."""
    return filtered_row_parts(sources, row, bytes_max, judged_with_family_tombstones(sources, row, rule))


def _retained_of_rows(chunks: Sequence[Chunk], rule: _Rule) -> Iterable[SortedRun]:
    """Returns the retained cells of whole rows, without keeping the dropped ones in memory."""
    run = merged([chunk.run() for chunk in chunks])
    if not len(run):
        return ()
    run = SortedRun(single_chunk(run.keys), run.values)
    return (run.filter(rule(SortedCells.of(run.keys))),)
