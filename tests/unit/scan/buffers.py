"""The memory addresses of Arrow columns: equal addresses prove that nothing was copied."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import Column


def address(column: Column) -> int:
    """Returns the address of the column's bytes or numbers."""
    buffer = column.buffers()[-1]
    assert buffer is not None
    return buffer.address


def addresses(table: pa.Table) -> dict[str, list[int]]:
    """Returns the addresses of each chunk of each column."""
    return {
        name: [address(chunk) for chunk in column.chunks]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
