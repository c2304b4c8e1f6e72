"""The rows that changed since a write number: for commits that must not undo others' changes, or that replace rows.

Only sources that have newer cells are read, and of these only what the ranges need. A row that is larger than a chunk
counts as changed if its source has newer cells at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    ROW,
    WRITE_NUMBER,
    Column,
    binary_array,
    boolean_array,
    distinct_of_sorted,
    integers,
    single_array,
    sorted_distinct,
)
from rowlock_regionserver.region.stores import View
from rowlock_regionserver.sources import Source

_READ_BYTES = 1 << 20
_ROW_BYTES_MAX = 8 << 20

# Half-open; an empty stop means no bound.
Ranges = Sequence[tuple[bytes, bytes]]


def changed_rows(view: View, write_number: int, ranges: Ranges) -> Iterator[Column]:
    """Yields arrays of the rows in these ranges with a cell, or a tombstone, of a later write number; some repeatedly.

    Each array ascends. Blocks on the disk. What a later change has hidden from all readers may be missing.
    """
    for _, sources in view.values():
        for source in sources:
            if source.write_number_max > write_number:
                for start, stop in ranges:
                    yield from _changed_in(source, write_number, start, stop)


def _changed_in(source: Source, write_number: int, start: bytes, stop: bytes) -> Iterator[Column]:
    at: bytes | None = start
    while at is not None:
        chunk = source.read_rows(at, stop, _READ_BYTES, _ROW_BYTES_MAX)
        if chunk.table.num_rows:
            # A chunk of several blocks has several Arrow chunks.
            rows = single_array(chunk.table.column(ROW))
            is_later = integers(single_array(chunk.table.column(WRITE_NUMBER))) > write_number
            if not is_later.all():
                rows = rows.filter(boolean_array(is_later))
            if len(rows):
                yield distinct_of_sorted(rows)
        at = chunk.frontier
        if chunk.wide_row is not None:
            yield binary_array([chunk.wide_row])
            at = chunk.wide_row + b"\0"


def distinct_rows(arrays: Iterator[Column]) -> Column:
    """Returns the rows of all arrays, each once, ascending. Other threads run meanwhile, however many they are."""
    found = list(arrays)
    return sorted_distinct(pa.chunked_array(found)) if found else binary_array([])
