"""rowlock: a row store for Python, the client.

    import rowlock

    with rowlock.connect("127.0.0.1:7460") as db:
        db.create_table("flights", {"info": rowlock.Family()})
        flights = db.table("flights")
        flights.put(b"UA1545", {b"info:delay": b"5"})
        flights.row(b"UA1545")                              # {b"info:delay": b"5"}

`rowlock.aio` has the same names for asyncio. Modules are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# First of all imports, and before grpc; fork.py says why.
from rowlock import errors
from rowlock._transport import fork  # noqa: F401
from rowlock.errors import *  # noqa: F403

if TYPE_CHECKING:
    from rowlock import aio
    from rowlock._core.bulk_write_requests import BulkWriteResult
    from rowlock._core.typed_filters import TypedColumn
    from rowlock.batch import Batch
    from rowlock.bulk_outcome import BulkResult
    from rowlock.bulk_write import BulkWrite
    from rowlock.change_feed import ChangeFeed
    from rowlock.changes import Append, Delete, Increment, Put
    from rowlock.checks import Check, CheckResult
    from rowlock.client import Client
    from rowlock.compactions import Compaction
    from rowlock.connecting import connect, open
    from rowlock.counters import counter_value
    from rowlock.filters import ColumnExpression, Filter, RowKeyExpression, column, row_key
    from rowlock.lock import Lock
    from rowlock.mapping import Mapping
    from rowlock.named_snapshot import NamedSnapshot
    from rowlock.region_info import RegionInfo
    from rowlock.rows import Cell
    from rowlock.scan import Scan
    from rowlock.schema import (
        Durability,
        Family,
        FlushResult,
        Limits,
        Region,
        RegionStatistics,
        ServerInfo,
        TableDescription,
    )
    from rowlock.selection import CellFilter
    from rowlock.session import Session
    from rowlock.session_info import HeldItem, LockInfo, SessionInfo
    from rowlock.snapshot import Snapshot
    from rowlock.split_plan import Split
    from rowlock.statistics import ClientStatistics, ConnectionStatistics
    from rowlock.status import MemoryPart, ProcedureStatus, ServerStatus, SnapshotStatus, TableStatus
    from rowlock.table import Table
    from rowlock.typed_batch import TypedBatch
    from rowlock.typed_bulk_write import TypedBulkWrite
    from rowlock.typed_checks import TypedCheckResult
    from rowlock.typed_scan import TypedScan
    from rowlock.typed_table import TypedTable

_MODULES = {
    "rowlock._core.bulk_write_requests": ("BulkWriteResult",),
    "rowlock._core.typed_filters": ("TypedColumn",),
    "rowlock.batch": ("Batch",),
    "rowlock.bulk_outcome": ("BulkResult",),
    "rowlock.bulk_write": ("BulkWrite",),
    "rowlock.change_feed": ("ChangeFeed",),
    "rowlock.changes": ("Append", "Delete", "Increment", "Put"),
    "rowlock.checks": ("Check", "CheckResult"),
    "rowlock.client": ("Client",),
    "rowlock.compactions": ("Compaction",),
    # Not named after its functions: importing a module sets its name on the package, which would hide the function.
    "rowlock.connecting": ("connect", "open"),
    "rowlock.counters": ("counter_value",),
    "rowlock.filters": ("ColumnExpression", "Filter", "RowKeyExpression", "column", "row_key"),
    "rowlock.lock": ("Lock",),
    "rowlock.mapping": ("Mapping",),
    "rowlock.named_snapshot": ("NamedSnapshot",),
    "rowlock.region_info": ("RegionInfo",),
    "rowlock.rows": ("Cell",),
    "rowlock.scan": ("Scan",),
    "rowlock.schema": (
        "Durability",
        "Family",
        "FlushResult",
        "Limits",
        "Region",
        "RegionStatistics",
        "ServerInfo",
        "TableDescription",
    ),
    "rowlock.selection": ("CellFilter",),
    "rowlock.session": ("Session",),
    "rowlock.session_info": ("HeldItem", "LockInfo", "SessionInfo"),
    "rowlock.snapshot": ("Snapshot",),
    "rowlock.split_plan": ("Split",),
    "rowlock.statistics": ("ClientStatistics", "ConnectionStatistics"),
    "rowlock.status": ("MemoryPart", "ProcedureStatus", "ServerStatus", "SnapshotStatus", "TableStatus"),
    "rowlock.table": ("Table",),
    "rowlock.typed_batch": ("TypedBatch",),
    "rowlock.typed_bulk_write": ("TypedBulkWrite",),
    "rowlock.typed_checks": ("TypedCheckResult",),
    "rowlock.typed_scan": ("TypedScan",),
    "rowlock.typed_table": ("TypedTable",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "aio",
    "Append",
    "Batch",
    "BulkResult",
    "BulkWrite",
    "BulkWriteResult",
    "Cell",
    "CellFilter",
    "ChangeFeed",
    "Check",
    "CheckResult",
    "Client",
    "ClientStatistics",
    "ColumnExpression",
    "Compaction",
    "ConnectionStatistics",
    "Delete",
    "Durability",
    "Family",
    "Filter",
    "FlushResult",
    "HeldItem",
    "Increment",
    "Limits",
    "Lock",
    "LockInfo",
    "Mapping",
    "MemoryPart",
    "NamedSnapshot",
    "ProcedureStatus",
    "Put",
    "Region",
    "RegionInfo",
    "RegionStatistics",
    "RowKeyExpression",
    "Scan",
    "ServerInfo",
    "ServerStatus",
    "Session",
    "SessionInfo",
    "Snapshot",
    "SnapshotStatus",
    "Split",
    "Table",
    "TableDescription",
    "TableStatus",
    "TypedBatch",
    "TypedBulkWrite",
    "TypedCheckResult",
    "TypedColumn",
    "TypedScan",
    "TypedTable",
    "column",
    "connect",
    "counter_value",
    "open",
    "row_key",
]
__all__ += errors.__all__


def __getattr__(name: str) -> object:
    """Imports the module of a public name at its first use. Raises AttributeError for an unknown name."""
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("rowlock")
    if name == "aio":
        return importlib.import_module("rowlock.aio")
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'rowlock' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
