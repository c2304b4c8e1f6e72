"""An open scan as sessions see it: it can be listed, and ended from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.engine.open_scan import OpenScan
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.sessions.session import (
    HeldItem,
    HeldKind,
    SessionInfo,
    SessionState,
    session_ended_error,
)

# How long the caller of `end` waits for the scan.
_END_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ScanAbout:
    """What a list of sessions says of a scan."""

    table: str = ""
    region_id: int = 0
    owner: str = ""
    is_of_session: bool = False


NOTHING_KNOWN = ScanAbout()


class ListedScan:
    """An open scan, for lists of sessions, and for those that end it. A Holding of its session."""

    def __init__(
        self, scan_id: str, about: ScanAbout, clock: Clock, lease_ms: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.scan_id = scan_id
        self.about = about
        self.ended: asyncio.Future[RegionServerError] = loop.create_future()
        self.is_over = threading.Event()
        self._clock = clock
        self.lease_ms = lease_ms
        self._loop = loop
        self._started_ms = self._used_ms = clock.now_ms()

    def note_use(self) -> None:
        """Notes that the client has taken a batch."""
        self._used_ms = self._clock.now_ms()

    def info(self) -> SessionInfo:
        """Describes the scan as a session of its own. From any thread."""
        return SessionInfo(
            self.scan_id,
            0,
            self.about.owner,
            "scan without a session",
            SessionState.OPEN,
            self._started_ms,
            self._used_ms,
            self.lease_ms,
            (self.item(),),
            is_implicit=True,
        )

    def item(self) -> HeldItem:
        about = self.about
        return HeldItem(HeldKind.SCAN, about.table, f"scan of region {about.region_id} of {about.table}")

    def release(self, reason: str, *, is_stopping: bool) -> None:
        if not is_stopping:  # Then it ends by itself.
            self.end(session_ended_error(self.scan_id, f"its session ended: {reason}"))

    def end(self, error: RegionServerError) -> None:
        """Ends the scan with this error; blocks until it has ended, for a moment at most. Not on the loop."""

        def set_ended() -> None:
            if not self.ended.done():
                self.ended.set_result(error)

        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self._loop.call_soon_threadsafe(set_ended)
            self.is_over.wait(_END_SECONDS)


class AdmittedScan(NamedTuple):
    """An open scan, as it is listed, and the context in which it belongs to its session, if it has one."""

    scan: OpenScan
    listed: ListedScan
    held_by: AbstractContextManager[object]
