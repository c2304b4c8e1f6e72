"""Tables that are restored from named snapshots."""

from __future__ import annotations

from .serving_table import Serving
from .table_of_regions import TableOfRegions, numbered_rows


def restored(table: Serving, name: str = "s", to: str = "restored") -> TableOfRegions:
    """Restores a named snapshot to a new table."""
    table.server.restore_named_snapshot(name, to)
    return TableOfRegions(table.server, to)


def put_all(table: TableOfRegions, value: bytes) -> None:
    """Overwrites the rows that `fill` wrote."""
    for row in numbered_rows(40):
        table.put(row, value)
