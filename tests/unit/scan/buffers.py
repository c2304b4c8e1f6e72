"""Where Arrow columns stand in memory: equal addresses say that nothing was copied."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import Column


def address(column: Column) -> int:
    """Where the column's bytes or numbers stand."""
    buffer = column.buffers()[-1]
    assert buffer is not None
    return buffer.address


def addresses(table: pa.Table) -> dict[str, list[int]]:
    """The same of each chunk of each column."""
    return {
        name: [address(chunk) for chunk in column.chunks]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
