"""All cells of several sources as sorted tables of whole rows, window by window, nothing judged: what a flush reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.scan.columns import single_chunk
from rowlock_regionserver.scan.merge import first_at_or_after, merged
from rowlock_regionserver.sources import Chunk, Source


def _nothing() -> None: ...


def raw_windows(
    sources: Sequence[Source], bytes_max: int, *, between: Callable[[], None] = _nothing
) -> Iterator[pa.Table]:
    """Tables of CELL_SCHEMA in store order, one chunk a column. Memory: about `bytes_max` of each source, twice.

    `between` is called after each source that was read, and after each window.
    """
    held: dict[int, Chunk] = {}
    start = b""
    while True:
        for i, source in enumerate(sources):
            if i not in held:
                held[i] = source.read_rows(start, b"", bytes_max)
                between()
        frontiers = [chunk.frontier for chunk in held.values() if chunk.frontier is not None]
        edge = min(frontiers, default=None)
        tables = []
        for i, chunk in list(held.items()):
            if edge is None or chunk.frontier == edge:
                tables.append(chunk.table)
                del held[i]
            else:
                cut = first_at_or_after(chunk.table, edge)
                tables.append(chunk.table.slice(0, cut))
                held[i] = _after(chunk, cut)
        window = merged(tables)
        if window.num_rows:
            yield single_chunk(window)
            between()
        if edge is None:
            return
        start = edge


def _after(chunk: Chunk, cut: int) -> Chunk:
    return Chunk(
        chunk.table.slice(cut),
        chunk.frontier,
        chunk.has_tombstones,
        chunk.has_versions,
        chunk.write_number_max,
        chunk.timestamp_min,
    )
