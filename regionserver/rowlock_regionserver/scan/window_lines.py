"""Merges the chunks of one family and window if only the newest cells are needed.

Lines stay lines wherever one line decides a row.

1. A chunk is visible if its numbers prove that every cell is a put that the read point sees and that can't expire. The
   cells of a visible chunk are formed into lines if other chunks have lines.
2. A row that only one line has passes as it is.
3. A row of several visible lines, its versions or those of several sources, becomes one line: of each column the
   newest value (line_overlay.py).
4. The other rows are merged as cells: those that have cells in a chunk that is not visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import ROW, Column, distinct_of_sorted, single_array, sorted_distinct
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.line_merging import LinesInOrder, concatenated_lines, in_succession
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.scan.line_overlay import RankedLines, one_line_a_row
from rowlock_regionserver.scan.window_rows import ranked_parts
from rowlock_regionserver.sources import Chunk


@dataclass(frozen=True, slots=True)
class WindowLines:
    """The newest visible cells as lines, one a row, and for the other rows the runs to merge as cells.

    `present` are rows of `runs`, ascending, that are certainly there, even if no visible cell of them was read.
    """

    lines: LinesInOrder | None
    runs: list[SortedRun]
    present: Column | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines of one visible chunk, or of several that follow one another. The flags are as in Chunk."""

    lines: Lines
    is_narrow: bool
    has_versions: bool


def window_lines(
    chunks: Sequence[Chunk], is_visible: Callable[[Chunk], bool], columns: frozenset[bytes] | None
) -> WindowLines:
    """Merges chunks of whole rows, of which some have lines.

    Of the lines only these columns are needed; None: all.
    """
    parts = [
        _Part(chunk.lines, chunk.is_narrow, chunk.has_versions)
        for chunk in chunks
        if chunk.lines is not None and is_visible(chunk)
    ]
    runs: list[SortedRun] = []
    for chunk in chunks:
        is_seen = is_visible(chunk)
        if chunk.lines is not None and is_seen:
            continue
        run = chunk.run()
        if parts and is_seen and not chunk.away:
            formed, rest = lines_of(run.table())
            if formed is not None:
                parts.append(_Part(formed, is_narrow=False, has_versions=formed.has_versions))
                run = SortedRun.of_table(rest)
        if len(run):
            runs.append(run)
    if not parts:
        return WindowLines(None, runs)
    if not runs:
        # None of them becomes cells.
        parts = [replace(part, lines=_selected(part.lines, columns)) for part in parts]
        has_versions = any(part.has_versions for part in parts)
        successive = None if has_versions else in_succession([part.lines for part in parts])
        if successive is not None:
            return WindowLines(LinesInOrder(successive), [])
        parts = list(_joined(parts))
        rows = parts[0].lines.rows
        if not has_versions and all(part.lines.rows.equals(rows) for part in parts[1:]):
            # Versions of the same rows.
            ranks = np.arange(len(rows))
            return WindowLines(one_line_a_row([RankedLines(part.lines, ranks) for part in parts]), [])
    # The longest comes first: if the others have no rows of their own, `ranked` sorts none.
    parts.sort(key=lambda part: len(part.lines), reverse=True)
    return _merged(parts, runs, columns)


def _joined(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Yields the parts; neighbours that follow one another, as the chunks of one source do, are joined."""
    group = [parts[0]]
    is_reverse = False
    for part in parts[1:]:
        last = group[-1].lines
        follows, precedes = last.row(-1) < part.lines.row(0), part.lines.row(-1) < last.row(0)
        has_direction = (precedes if is_reverse else follows) if len(group) > 1 else follows or precedes
        if has_direction and _may_be_joined([*group, part]):
            is_reverse = precedes
            group.append(part)
        else:
            yield _one_part(group[::-1] if is_reverse else group)
            group, is_reverse = [part], False
    yield _one_part(group[::-1] if is_reverse else group)


def _may_be_joined(parts: Sequence[_Part]) -> bool:
    """Returns whether together they keep the rule that rows with several lines have one number a line."""
    return not any(part.has_versions for part in parts) or not any(part.lines.is_by_cell for part in parts)


def _one_part(parts: Sequence[_Part]) -> _Part:
    return _Part(
        concatenated_lines([part.lines for part in parts]),
        any(part.is_narrow for part in parts),
        any(part.has_versions for part in parts),
    )


def _selected(lines: Lines, columns: frozenset[bytes] | None) -> Lines:
    return lines if columns is None else lines.select(columns)


def _merged(parts: Sequence[_Part], runs: list[SortedRun], columns: frozenset[bytes] | None) -> WindowLines:
    rows_of_lines = [part.lines.rows for part in parts]
    rows_of_runs = [distinct_of_sorted(single_array(run.keys.column(ROW))) for run in runs]
    distinct_count, places = ranked_parts([*rows_of_lines, *rows_of_runs])
    is_mixed = np.zeros(distinct_count, np.bool_)
    for of_run in places[len(parts) :]:
        is_mixed[of_run] = True
    kept: list[RankedLines] = []
    present: list[Column] = []
    for part, ranks in zip(parts, places, strict=False):
        mixed = is_mixed[ranks]
        if mixed.any():
            among_cells = part.lines.filter(mixed)
            runs.append(SortedRun.of_table(cells_of(among_cells)))
            if part.is_narrow:
                present.append(among_cells.rows)
        kept.append(RankedLines(_selected(part.lines, columns), ranks).filter(~mixed))
    certain = sorted_distinct(pa.concat_arrays(present)) if present else None
    return WindowLines(one_line_a_row(kept), [run for run in runs if len(run)], certain)
