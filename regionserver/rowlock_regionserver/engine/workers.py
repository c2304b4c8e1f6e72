"""The threads that may wait: for a lock, a disk, or a long computation. The event loop never does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

_TABLE_THREADS = 4
_QUICK_THREADS = 2


class Workers:
    """Four pools, so that no kind of waiting holds up another. Threads start when they are first needed.

    Their queues have no bound of their own: the caller counts what is in flight and refuses early.
    """

    def __init__(self, thread_count: int) -> None:
        # Point operations that met a lock or a block that is not in memory.
        self.points = ThreadPoolExecutor(thread_count, thread_name_prefix="point")
        # Steps of scans, and bulk batches: each takes milliseconds, all of them together for as long as they like.
        self.streams = ThreadPoolExecutor(thread_count, thread_name_prefix="stream")
        # Tables made, dropped and flushed, and snapshots made: each may wait for the disk as long as that takes.
        self.tables = ThreadPoolExecutor(_TABLE_THREADS, thread_name_prefix="table")
        # What waits for nothing but is not for the loop: questions about tables and regions, with which each client
        # begins, snapshots renewed and ended, and scans closed.
        self.quick = ThreadPoolExecutor(_QUICK_THREADS, thread_name_prefix="quick")

    def stop(self) -> None:
        """Drops what has not begun and waits for what has."""
        for pool in (self.points, self.streams, self.tables, self.quick):
            pool.shutdown(wait=True, cancel_futures=True)
