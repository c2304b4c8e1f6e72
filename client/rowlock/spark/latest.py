"""With snapshot=latest: one moment for each query of Spark, which its tasks make.

Spark plans a DataFrame once and uses the partitions for all of its queries, so a moment that planning takes would be
the moment of all of them. What begins anew with each query is its id, which Spark tells the query's tasks:

1. The snapshot's id is made from the DataFrame's and the query's. Whichever task comes first makes it, and the others,
   those of repeated attempts and of other scans of the same DataFrame in the query too, find it.
2. No task makes it a second time: the server remembers what has ended, and one that was started after the query began
   may have forgotten, so it is not asked. A query's id says when it was drawn, by the clock of the driver. That and the
   executor's may differ by as much as the server takes to be started anew.
3. Where Spark runs jobs without a query, for df.rdd and df.foreach, the DataFrame has one moment: that of the first.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from uuid import UUID

from pyspark import TaskContext

from rowlock._core.snapshot_requests import SNAPSHOT_ID_BYTES
from rowlock.client import Client
from rowlock.errors import SnapshotEndedError
from rowlock.spark.read_points import ReadPoint

_QUERY_ID = "spark.sql.execution.query.id"
# Of a UUID of version 7, which has 48 bits of milliseconds in front.
_BITS_BEHIND_MS = 80


def query_of_task() -> UUID | None:
    """The query that this task is of; None for a job without one."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(_QUERY_ID)
    return None if text is None else UUID(text)


def point_of_query(client: Client, drawn: ReadPoint, query: UUID | None) -> ReadPoint:
    """The read point of the query, or of the jobs that have none. Raises SnapshotEndedError."""
    if query is None:
        return drawn
    server = client.server_info()
    age_ms = time.time() * 1000 - (query.int >> _BITS_BEHIND_MS)
    if age_ms >= server.uptime_ms:
        raise SnapshotEndedError(
            f"the server was started anew {server.uptime_ms} ms ago, when the query was there already: it may have "
            "read what the server had before"
        )
    snapshot_id = hashlib.sha256(drawn.snapshot_id + query.bytes).digest()[:SNAPSHOT_ID_BYTES]
    return replace(drawn, snapshot_id=snapshot_id, incarnation_id=server.incarnation_id)
