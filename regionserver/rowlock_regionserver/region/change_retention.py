"""Keeps the changes of one region for its feed, while its table has one: moves the horizon as time passes.

The state is changed first, and the horizon in Mvcc after it, by which flushes and compactions drop cells. So the
horizon here is never below one by which a cell was dropped. Each manifest takes it from here after its files were
written: so it is not below theirs either.
"""

from __future__ import annotations

import threading

from rowlock_regionserver.cells import NEWEST
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.region.retained_changes import POINTS, RetainedChanges


class ChangeRetention:
    """The change feed's retention in one region. Thread-safe."""

    def __init__(self, mvcc: Mvcc, clock: Clock, found: RetainedChanges | None, retained_ms: int) -> None:
        """`found`: the manifest's. `retained_ms`: the table's; 0: it has no feed."""
        self._mvcc = mvcc
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock for writing; each is replaced by one assignment.
        self._retained_ms = retained_ms
        self._state = found if retained_ms else None
        if self._state is not None:
            mvcc.retain_after(self._state.horizon)

    @property
    def state(self) -> RetainedChanges | None:
        """What is retained; None: the table has no feed, or it has not begun."""
        return self._state

    def switch(self, retained_ms: int) -> bool:
        """Begins the feed at the newest write number, ends it, or retains for another time. Whether it began or ended.

        The caller holds the gate exclusively, or is opening the region: no cell is dropped meanwhile that comes later.
        """
        with self._lock:
            before = self._state
            self._retained_ms = retained_ms
            if not retained_ms:
                self._state = None
                self._mvcc.retain_after(NEWEST)
            elif before is None:
                self._state = RetainedChanges(self._mvcc.last)
                self._mvcc.retain_after(self._mvcc.last)
            return (before is None) != (self._state is None)

    def note_time(self) -> None:
        """Notes the current read point, and moves the horizon. To be called often; cheap."""
        if self._state is None:
            return
        with self._lock:
            if self._state is None:
                return
            read_point, now_ms = self._mvcc.read_point, self._clock.now_ms()
            state = self._state.noted(now_ms, read_point, self._retained_ms // POINTS)
            state = state.advanced(now_ms, self._retained_ms)
            if state is not self._state:
                self._state = state
                self._mvcc.retain_after(state.horizon)

    def end_ancestor(self, last: int) -> None:
        """Notes the last number of the region whose rows this one takes over: the manifest has a bound of it."""
        with self._lock:
            if self._state is not None:
                self._state = self._state.with_ancestor_ended(last)

    def inherited(
        self, region_id: int, start: bytes, stop: bytes, newest: int, numbers_ahead: int
    ) -> RetainedChanges | None:
        """Returns the state for the regions that take over the rows, as of now. No write is under way.

        newest: the newest write number. The last one is at most `numbers_ahead` greater.
        """
        with self._lock:
            if self._state is None:
                return None
            state = self._state.noted(self._clock.now_ms(), newest, 0)
            return state.as_ancestor(region_id, start, stop, newest + numbers_ahead)
