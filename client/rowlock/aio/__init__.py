"""rowlock for asyncio: the same names as `rowlock`, with calls awaited, `async for` over scans, `async with`.

async with rowlock.aio.connect("127.0.0.1:7460") as db:
    flights = db.table("flights")
    await flights.put(b"UA1545", {b"info:delay": b"5"})
    async for row, data in flights.scan(prefix=b"UA"):
        ...
    async with flights.batch() as batch:
        await batch.put(b"UA1546", {b"info:delay": b"0"})
"""

from __future__ import annotations

from rowlock.aio.batch import Batch
from rowlock.aio.bulk_write import BulkWrite
from rowlock.aio.change_feed import ChangeFeed
from rowlock.aio.client import Client
from rowlock.aio.connecting import connect, open
from rowlock.aio.lock import Lock
from rowlock.aio.scan import Scan
from rowlock.aio.session import Session
from rowlock.aio.snapshot import Snapshot
from rowlock.aio.table import Table
from rowlock.aio.typed_batch import TypedBatch
from rowlock.aio.typed_bulk_write import TypedBulkWrite
from rowlock.aio.typed_scan import TypedScan
from rowlock.aio.typed_table import TypedTable

__all__ = [
    "Batch",
    "BulkWrite",
    "ChangeFeed",
    "Client",
    "Lock",
    "Scan",
    "Session",
    "Snapshot",
    "Table",
    "TypedBatch",
    "TypedBulkWrite",
    "TypedScan",
    "TypedTable",
    "connect",
    "open",
]
