"""The cells of several segments that a flush keeps, as sorted tables: what it writes.

Window by window the segments are merged, and cells that no reader can see any more are dropped
(versions/visibility_columns.py, `retained`). Visibility is decided by keys, and only the values of kept cells are
copied, in tables of bounded size: a segment may hold more than a column of Arrow can, in one row or even in one column
of a row. A row that is larger than a window goes in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask, single_chunk
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.scan.row_parts import LongColumn, family_tombstones, long_column_runs, row_parts
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import NO_LIMIT, Source

# judge(cells, family_tombstone): which cells stay. The number is that of the row's newest family tombstone, where the
# cells are a part of a row; else 0.
Judge = Callable[[SortedCells, int], Mask]


def _nothing() -> None: ...


def kept_tables(
    sources: Sequence[Source],
    judge: Judge,
    bytes_max: int,
    merge_bytes_max: int = NO_LIMIT,
    *,
    between: Callable[[], None] = _nothing,
) -> Iterator[pa.Table]:
    """Tables of CELL_SCHEMA in store order, and `between` is called after each.

    Of each source `bytes_max` are read at once; less when those with rows in the last window would pass
    `merge_bytes_max` together. A table has about that at most, if it has more than one cell.
    """
    window_bytes = merge_bytes_max if merge_bytes_max < NO_LIMIT else bytes_max * max(1, len(sources))
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=NO_LIMIT, source_bytes_max=bytes_max)
    while chunks.wide_row is not None or not chunks.is_exhausted:
        if chunks.wide_row is None:
            given = chunks.advance(sources, window_bytes, window_bytes)
            runs = iter(
                [_kept(merged([SortedRun.of(chunk) for chunks in given.values() for chunk in chunks]), judge, 0)]
            )
        else:
            runs = _kept_of_row(sources, chunks.wide_row, judge, window_bytes)
            chunks.pass_wide_row()
        for run in runs:
            for table in run.tables(window_bytes):
                yield table
                between()


def _kept_of_row(sources: Sequence[Source], row: bytes, judge: Judge, bytes_max: int) -> Iterator[SortedRun]:
    """What stays of one row."""
    family_tombstone = max([-cell[2] for cell in family_tombstones(sources, row)], default=0)
    for part in row_parts(sources, row, bytes_max):
        if isinstance(part, LongColumn):
            yield from long_column_runs(sources, row, part, judge(part.cells, family_tombstone), bytes_max)
        else:
            yield _kept(part, judge, family_tombstone)


def _kept(run: SortedRun, judge: Judge, family_tombstone: int) -> SortedRun:
    if not len(run):
        return run
    run = SortedRun(single_chunk(run.keys), run.values)
    return run.kept(judge(SortedCells.of(run.keys), family_tombstone))
