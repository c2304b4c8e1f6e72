"""The worker threads, which may wait for a lock, a disk or a long computation, unlike the event loop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

_TABLE_THREADS = 4
_QUICK_THREADS = 2
# Each holds some windows of changes in memory.
_CHANGES_THREADS = 2


class Workers:
    """Six pools, so that one kind of wait does not delay another. Threads start when they are first needed.

    Their queues have no bound of their own: the caller counts requests in flight and refuses early.
    """

    def __init__(self, thread_count: int, procedure_count: int = 1) -> None:
        # Point operations that need a lock or a block that is not in memory.
        self.points = ThreadPoolExecutor(thread_count, thread_name_prefix="point")
        # Steps of scans, and bulk batches: each takes milliseconds; a whole stream may take any time.
        self.streams = ThreadPoolExecutor(thread_count, thread_name_prefix="stream")
        self.scan_step_count = 0  # steps that scans wait for; used on the event loop
        # Operations on tables, flushes, and new snapshots: each may wait for the disk, for any time.
        self.tables = ThreadPoolExecutor(_TABLE_THREADS, thread_name_prefix="table")
        # Calls of row procedures, which have a process each (procedures/runner.py).
        self.procedures = ThreadPoolExecutor(procedure_count, thread_name_prefix="procedure")
        # Reads of change feeds, which may have to pass many files for few changes.
        self.is_stopping = False  # a read of changes ends then
        self.changes = ThreadPoolExecutor(_CHANGES_THREADS, thread_name_prefix="changes")
        # Calls that never wait but are too long for the loop: lookups of tables and regions, with which each client
        # begins, and the calls that renew and end snapshots and close scans.
        self.quick = ThreadPoolExecutor(_QUICK_THREADS, thread_name_prefix="quick")

    def stop(self) -> None:
        """Drops calls that have not begun, and waits for the others."""
        self.is_stopping = True
        for pool in (self.points, self.streams, self.tables, self.procedures, self.changes, self.quick):
            pool.shutdown(wait=True, cancel_futures=True)
