"""A lock that a client has taken explicitly, as its session holds it."""

from __future__ import annotations

from collections.abc import Callable

from rowlock_regionserver.locks.lock import Wanted
from rowlock_regionserver.locks.lock_tree import LockRequest
from rowlock_regionserver.locks.table_locks import TableLocks
from rowlock_regionserver.sessions.session import HeldItem, HeldKind


class SessionLock:
    """A Holding: the end of the session releases the lock, also if it is still waited for."""

    def __init__(self, locks: TableLocks, request: LockRequest, forget: Callable[[], object]) -> None:
        """`forget` is called when it is released with its session."""
        self._locks = locks
        self._forget = forget
        self.request = request

    def item(self) -> HeldItem:
        key, mode = self.request.wanted[-1]
        is_waiting = not self.request.is_granted
        text = f"{mode.value} lock of {places_text(self.request.wanted)}{' (waits)' if is_waiting else ''}"
        return HeldItem(HeldKind.LOCK, key.table, text, is_waiting)

    def release(self, reason: str, *, is_stopping: bool) -> None:
        self._forget()
        self._locks.withdraw(self.request)


def places_text(wanted: Wanted) -> str:
    """Names the tables and regions that were asked for, without the tables of the regions."""
    regions = {key.table for key, _ in wanted if key.region_id}
    return ", ".join(
        f"region {key.region_id} of {key.table}" if key.region_id else key.table
        for key, _ in wanted
        if key.region_id or key.table not in regions
    )
