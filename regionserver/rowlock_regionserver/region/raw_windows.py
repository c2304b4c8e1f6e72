"""All cells of several sources as sorted tables of whole rows, window by window, nothing judged: what a flush reads.

Each source is read ahead by some bytes; a window ends at the nearest row to which all of them have been read. Sources
that come later in the table, as bulk batches of sorted rows do, wait with what was read of them and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rowlock_regionserver.scan.columns import single_chunk
from rowlock_regionserver.scan.merge import first_at_or_after, first_row, merged
from rowlock_regionserver.sources import Chunk, Source

# Less of a source at once costs more than it spares others.
SOURCE_BYTES_MIN = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Held:
    """What was read of a source and has not been given, and its first row: looked up once, asked for in each window."""

    chunk: Chunk
    first: bytes | None


def _nothing() -> None: ...


def raw_windows(
    sources: Sequence[Source], bytes_max: int, merge_bytes_max: int = 1 << 62, *, between: Callable[[], None] = _nothing
) -> Iterator[pa.Table]:
    """Tables of CELL_SCHEMA in store order, one chunk a column, and `between` is called after each.

    Of each source `bytes_max` are read at once; less when those with rows in the last window would pass
    `merge_bytes_max` together, but not less than SOURCE_BYTES_MIN for that reason. Memory: about that of each, twice.
    """
    held: dict[int, _Held] = {}
    start = b""
    merged_count = 1
    while True:
        bytes_each = min(bytes_max, max(SOURCE_BYTES_MIN, merge_bytes_max // merged_count))
        for i, source in enumerate(sources):
            if i not in held:
                held[i] = _held(source.read_rows(start, b"", bytes_each))
        frontiers = [part.chunk.frontier for part in held.values() if part.chunk.frontier is not None]
        edge = min(frontiers, default=None)
        tables = []
        for i, part in list(held.items()):
            chunk = part.chunk
            if edge is None or chunk.frontier == edge:
                tables.append(chunk.table)
                del held[i]
            elif part.first is not None and part.first < edge:
                cut = first_at_or_after(chunk.table, edge)
                tables.append(chunk.table.slice(0, cut))
                held[i] = _held(replace(chunk, table=chunk.table.slice(cut)))
        merged_count = max(1, len(tables))
        window = merged(tables)
        if window.num_rows:
            yield single_chunk(window)
            between()
        if edge is None:
            return
        start = edge


def _held(chunk: Chunk) -> _Held:
    return _Held(chunk, first_row(chunk.table) if chunk.table.num_rows else None)
