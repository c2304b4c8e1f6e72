"""Held scans: opened by point requests, not complete, and waiting for their clients to go on by a call.

1. A held scan keeps its read point, its session, and its place among the open scans. It is stepped by nobody.
2. It is taken once, by the call that goes on. Until then it ends by its lease, which is short, because a client goes
   on at once; with the connection over which it was opened; when its client says so; when it is ended as a listed
   scan; and when the server stops.
3. A call that comes too late gets the reason if the scan was ended, and else LEASE_EXPIRED, after which a client
   resumes at a new read point. The reason is remembered for as long as the lease would have lasted.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.listed_scan import AdmittedScan
from rowlock_regionserver.errors import LeaseExpiredError, RegionServerError, StoppingError


def new_id() -> int:
    """Returns an id for a held scan, which no other client can guess. From any thread."""
    return 1 + secrets.randbits(63)


@dataclass(slots=True)
class _Held:
    admitted: AdmittedScan
    responder: Responder
    lease: asyncio.TimerHandle
    failure: RegionServerError | None = None  # then it is released


class HeldScans:
    """The held scans of a server. Used on the event loop."""

    def __init__(
        self, release: Callable[[AdmittedScan], None], loop: asyncio.AbstractEventLoop, config: Config
    ) -> None:
        self._release = release
        self._loop = loop
        self._lease_ms = min(config.scan_held_ms, config.scan_lease_ms)
        self._call_lease_ms = config.scan_lease_ms
        self._held: dict[int, _Held] = {}
        self._is_stopped = False
        self.expired_count = 0

    def __len__(self) -> int:
        """How many scans are held."""
        return sum([held.failure is None for held in self._held.values()])

    def hold(self, held_id: int, admitted: AdmittedScan, responder: Responder) -> None:
        """Holds an open scan for the client of the responder; releases it if nobody can go on with it."""
        if self._is_stopped or responder.is_gone:
            self._release(admitted)
            return
        admitted.listed.lease_ms = self._lease_ms
        admitted.listed.note_use()
        lease = self._loop.call_later(self._lease_ms / 1000, self._expire, held_id)
        self._held[held_id] = _Held(admitted, responder, lease)
        admitted.listed.ended.add_done_callback(partial(self._end, held_id))

    def take(self, held_id: int) -> AdmittedScan:
        """Returns the scan, which the caller releases. Raises LeaseExpiredError, or the error that ended it."""
        held = self._held.pop(held_id, None)
        if held is None:
            raise LeaseExpiredError(
                f"no scan is held under this id: its client did not go on within scan_held_ms = {self._lease_ms}, or "
                "the connection over which it was opened was closed; resume the scan after the last complete row, at "
                "a new read point"
            )
        held.lease.cancel()
        if held.failure is not None:
            raise held.failure
        held.admitted.listed.lease_ms = self._call_lease_ms
        held.admitted.listed.note_use()
        return held.admitted

    def free(self, held_id: int) -> None:
        """Frees a scan with which its client won't go on; a no-op if it is gone."""
        held = self._held.pop(held_id, None)
        if held is not None:
            held.lease.cancel()
            self._release(held.admitted)

    def free_gone(self) -> None:
        """Frees the scans whose connections were closed. O(held scans)."""
        for held_id in [held_id for held_id, held in self._held.items() if held.responder.is_gone]:
            self.free(held_id)

    def stop(self) -> None:
        """Frees all scans, and holds none any more."""
        self._is_stopped = True
        for held in self._held.values():
            self._fail(held, StoppingError("the server is stopping; resume the scan after the last complete row"))

    def _expire(self, held_id: int) -> None:
        if self._held[held_id].failure is None:
            self.expired_count += 1
        self.free(held_id)

    def _end(self, held_id: int, ended: asyncio.Future[RegionServerError]) -> None:
        held = self._held.get(held_id)
        if held is not None and not ended.cancelled():
            self._fail(held, ended.result())

    def _fail(self, held: _Held, error: RegionServerError) -> None:
        held.failure = error
        self._release(held.admitted)
