"""Merges one family's sources into sorted tables and lines of the cells to retain: the contents of a new store file.

The sources are merged window by window (source_chunks.py), and a retention rule drops cells: for a flush, those that no
reader can see any more (versions/visibility_columns.py, `retained`). The rule looks at keys only, and only the values
of retained cells are copied, into tables of bounded size: a source may hold more than an Arrow column can, in one row
or even in one column of a row. A row that is larger than a window is written in parts (row_parts.py).

If a window has only lines, and each row has one, there is nothing to resolve and nothing to drop, because a column has
only one version: the lines pass as they are. All other windows are merged as cells.

Scans have a loop of their own over the same steps and parts: see docs/decisions/windows_of_scans_and_flushes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask, single_chunk
from rowlock_regionserver.arrow.line_merging import merged_lines
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.scan.row_parts import family_tombstones, filtered_row_parts
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import Chunk, LinesWanted, Source

# retain(cells, family_tombstone) returns which cells to retain. `family_tombstone` is the write number of the row's
# newest family tombstone if the cells are a part of a row, else 0.
RetentionRule = Callable[[SortedCells, int], Mask]


def _do_nothing() -> None: ...


def retained_tables(
    sources: Sequence[Source],
    retain: RetentionRule,
    bytes_max: int,
    merge_bytes_max: int = NO_LIMIT,
    *,
    between: Callable[[], None] = _do_nothing,
) -> Iterator[pa.Table | Lines]:
    """Yields tables of CELL_SCHEMA, or lines, in store order, and calls `between` after each.

    One read of a source takes `bytes_max`, or less if the sources with rows in the last window would exceed
    `merge_bytes_max` in total. A table of several cells has about `merge_bytes_max` at most. Blocks on disks.
    """
    window_bytes = merge_bytes_max if merge_bytes_max < NO_LIMIT else bytes_max * max(1, len(sources))
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=NO_LIMIT, source_bytes_max=bytes_max)
    chunks.lines_wanted = {id(source): LinesWanted() for source in sources}
    while not chunks.is_exhausted:
        step = chunks.advance(sources, window_bytes, window_bytes)
        pieces: Iterable[pa.Table | Lines]
        if isinstance(step, bytes):
            pieces = _tables(_retained_of_row(sources, step, retain, window_bytes), window_bytes)
        else:
            of_step = [chunk for of_source in step.values() for chunk in of_source]
            pieces = _lines_of(of_step) or _tables(_retained_of_rows(of_step, retain), window_bytes)
        for piece in pieces:
            yield piece
            between()


def _tables(runs: Iterable[SortedRun], bytes_max: int) -> Iterator[pa.Table]:
    for run in runs:
        yield from run.tables(bytes_max)


def _lines_of(chunks: Sequence[Chunk]) -> Sequence[Lines]:
    """Returns the rows as lines, all of which are retained; empty unless all are lines, and each row is one."""
    lines = [chunk.lines for chunk in chunks if chunk.lines is not None]
    if not lines or len(lines) < len(chunks):
        return ()
    return merged_lines(lines) or ()


def _retained_of_row(
    sources: Sequence[Source], row: bytes, retain: RetentionRule, bytes_max: int
) -> Iterable[SortedRun]:
    """Returns the retained cells of one row, in parts."""
    family_tombstone = max([-cell[2] for cell in family_tombstones(sources, row)], default=0)
    return filtered_row_parts(sources, row, bytes_max, lambda cells: retain(cells, family_tombstone))


def _retained_of_rows(chunks: Sequence[Chunk], retain: RetentionRule) -> Iterable[SortedRun]:
    """Returns the retained cells of whole rows, without keeping the dropped ones in memory."""
    run = merged([chunk.run() for chunk in chunks])
    if not len(run):
        return ()
    run = SortedRun(single_chunk(run.keys), run.values)
    return (run.filter(retain(SortedCells.of(run.keys), 0)),)
