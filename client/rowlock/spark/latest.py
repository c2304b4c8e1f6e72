"""The option snapshot=latest: one snapshot for each Spark query, which the query's tasks create.

Spark plans a DataFrame once and uses the partitions for all of its queries, so all queries would share a snapshot that
planning creates. But each query has its own id, which Spark passes to the query's tasks:

1. The snapshot's id is a hash of the DataFrame's and the query's. The first task creates the snapshot; the others,
   retries and tasks of other scans of the same DataFrame in the query included, find it.
2. No task creates it a second time. The server remembers which snapshots have ended; a server that was started after
   the query began may have forgotten, so the task does not use it. The query's id contains its creation time, by the
   driver's clock. The clocks of driver and executor may differ by as much as the server takes to restart.
3. Spark runs the jobs of df.rdd and df.foreach without a query. There the DataFrame has one snapshot, of the first job.
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
from rowlock.spark.snapshots import SnapshotRef

_QUERY_ID = "spark.sql.execution.query.id"
# A UUID of version 7 begins with 48 bits of milliseconds.
_BITS_AFTER_MS = 80


def query_of_task() -> UUID | None:
    """Returns the id of this task's query; None for a job without one."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(_QUERY_ID)
    return None if text is None else UUID(text)


def snapshot_of_query(client: Client, ref: SnapshotRef, query: UUID | None) -> SnapshotRef:
    """Returns the snapshot of the query, or the DataFrame's `ref` without a query. Raises SnapshotEndedError."""
    if query is None:
        return ref
    server = client.server_info()
    age_ms = time.time() * 1000 - (query.int >> _BITS_AFTER_MS)
    if age_ms >= server.uptime_ms:
        raise SnapshotEndedError(
            f"the server restarted {server.uptime_ms} ms ago, after the query had begun: its tasks may have read at a "
            "read point before the restart"
        )
    snapshot_id = hashlib.sha256(ref.snapshot_id + query.bytes).digest()[:SNAPSHOT_ID_BYTES]
    return replace(ref, snapshot_id=snapshot_id, incarnation_id=server.incarnation_id)
