"""The cells of one family's sources that are kept, as sorted tables: what is written to a new store file.

Window by window the sources are merged (source_chunks.py), and cells that a judge does not keep are dropped: for a
flush, those that no reader can see any more (versions/visibility_columns.py, `retained`). They are judged by keys, and
only the values of kept cells are copied, in tables of bounded size: a source may hold more than a column of Arrow can,
in one row or even in one column of a row. A row that is larger than a window goes in parts (row_parts.py).

A scan has its own windows, made of the same steps and parts: see docs/decisions/windows_of_scans_and_flushes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask, single_chunk
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.scan.row_parts import family_tombstones, kept_of_row
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import NO_LIMIT, Chunk, Source

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
    while not chunks.is_exhausted:
        step = chunks.advance(sources, window_bytes, window_bytes)
        runs = (
            _kept_of_row(sources, step, judge, window_bytes)
            if isinstance(step, bytes)
            else _kept_of_rows([chunk for of_source in step.values() for chunk in of_source], judge)
        )
        for run in runs:
            for table in run.tables(window_bytes):
                yield table
                between()


def _kept_of_row(sources: Sequence[Source], row: bytes, judge: Judge, bytes_max: int) -> Iterable[SortedRun]:
    """What stays of one row."""
    family_tombstone = max([-cell[2] for cell in family_tombstones(sources, row)], default=0)
    return kept_of_row(sources, row, bytes_max, lambda cells: judge(cells, family_tombstone))


def _kept_of_rows(chunks: Sequence[Chunk], judge: Judge) -> Iterable[SortedRun]:
    """What stays of whole rows; nothing else of them is held."""
    run = merged([SortedRun.of(chunk) for chunk in chunks])
    if not len(run):
        return ()
    run = SortedRun(single_chunk(run.keys), run.values)
    return (run.kept(judge(SortedCells.of(run.keys), 0)),)
