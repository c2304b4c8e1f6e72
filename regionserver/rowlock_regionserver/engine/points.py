"""Admission of point requests: executed on the event loop if they need not wait, else by a worker thread.

The outline of one request, which is accepted and answered exactly once:

1. Accept: the request is counted, or refused when too many are in flight. Its deadline starts to run.
2. Try: it is decoded and executed on the loop with may_wait=False. Most requests end here, because handing one to a
   thread costs more than executing it. A large or long request goes to a worker at once. For a single change in an
   otherwise idle server, the loop blocks until it is synced, some milliseconds at most.
3. Hand over: a worker executes a request that would have to wait, with may_wait=True. The ledger counts it until it is
   answered. If the deadline passes before a worker is free, the answer is DEADLINE_EXCEEDED and the request never
   begins. The answer is REGION_TOO_BUSY if there is no memory for the request, or if clients have left too many answers
   unread, and this client too.
4. Answer: on the loop. A change is answered when the log thread has published it; completions.py carries the answer.

Adjacent puts and increments of one message share 2 and 4, see coalesced_changes.py. Puts in columns are never tried on
the loop.

A change that has begun is never cancelled, even if its deadline passes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.engine.call_run import CallRun
from rowlock_regionserver.engine.change_run import ChangeRun
from rowlock_regionserver.engine.completions import Completions
from rowlock_regionserver.engine.get_run import GetRun, got_inline
from rowlock_regionserver.engine.interfaces import (
    CallRequest,
    ChangeRequest,
    GetRequest,
    OpenScanRequest,
    PointRegion,
    PutRowsRequest,
    Request,
    Responder,
)
from rowlock_regionserver.engine.put_rows_run import PutRowsRun
from rowlock_regionserver.engine.scan_openings import ScanOpenings
from rowlock_regionserver.engine.slow_calls import SlowCalls
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import NotServingRegionError, ProcedureNotFoundError, RegionTooBusyError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.operations import RowMutation
from rowlock_regionserver.procedures.runner import ProcedureRunner

# Of answer_bytes_held_max: a caller with fewer unread bytes is never refused because of others.
_FEW_UNREAD_SHARE = 256
# With more unread bytes, a stream is not read. The bound is lower while all answers together are near their bound.
_UNREAD_BYTES_MAX = 1 * MIB


@dataclass(frozen=True, slots=True)
class PointStatistics:
    """Point operations in flight, and counts since the start."""

    in_flight: int
    accepted_count: int
    handed_over_count: int
    refused_count: int


class Points:
    """Admits point requests. Used on the event loop, except where a method says otherwise."""

    def __init__(
        self,
        region: Callable[[int], PointRegion],
        workers: Workers,
        config: Config,
        clock: Clock,
        ledger: Ledger,
        open_calls: Callable[[], int],
        procedures: ProcedureRunner | None = None,
        successor: Callable[[int, Sequence[bytes]], PointRegion | None] = lambda region_id, rows: None,
    ) -> None:
        """`open_calls`: returns the number of active calls of any kind. `procedures`: None: there are none.

        `successor`: returns the region that has taken over these rows of a region; None if there is none.
        """
        self.region = region  # Raises NotServingRegionError.
        self._successor = successor
        self.workers = workers
        self.config = config
        self.clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._open_calls = open_calls
        self.slow_calls = SlowCalls(lambda region_id: region(region_id).table_name, config, clock)
        self._completions = Completions(self._loop, lambda: self._in_flight)
        self.requests = ledger.requests
        self.answers = ledger.answers
        self.few_bytes = config.answer_bytes_held_max // ANSWER_COST // _FEW_UNREAD_SHARE
        self.openings: ScanOpenings | None = None
        self.procedures = procedures or ProcedureRunner({}, config, clock)
        self._in_flight = 0
        self._accepted_count = 0
        self._handed_over_count = 0
        self._refused_count = 0

    def statistics(self) -> PointStatistics:
        """May be called from any thread."""
        return PointStatistics(self._in_flight, self._accepted_count, self._handed_over_count, self._refused_count)

    def get(self, request: GetRequest, responder: Responder, *, is_large: bool = False) -> None:
        """Answers the get once: perhaps before this returns, perhaps later.

        `is_large`: the request is of a message that is too large to be decoded on the loop, and that the ledger counts
        already.
        """
        if not self._accepts(request, responder):
            return
        if not is_large and (answer := got_inline(self, request, responder)) is not None:
            responder.send(answer)
            return
        self._in_flight += 1
        self._hand_over(GetRun(self, request, responder), is_large)

    def open_scan(self, request: OpenScanRequest, responder: Responder, *, is_large: bool = False) -> None:
        """Opens a scan, and answers with its first rows, once; see scan_openings.py. `is_large`: as in `get`."""
        openings = self.openings
        assert openings is not None, "these points open no scans"
        if not self._accepts(request, responder):
            return
        run = openings.open(self, request, responder, is_large=is_large)
        if run is not None:
            self._in_flight += 1
            self._handed_over_count += 1
            run.hand_over(self.workers.streams, self._loop, is_counted=is_large)

    def _accepts(self, request: Request, responder: Responder) -> bool:
        """Counts the request; or returns False, and answers that too many are in flight."""
        if self._in_flight >= self.config.requests_in_flight_max:
            self._refuse(request, responder)
            return False
        self._accepted_count += 1
        return True

    def region_to_change(self, region_id: int, mutations: Sequence[RowMutation]) -> PointRegion:
        """Returns the region, or the one that has taken over all of these rows of it.

        Raises NotServingRegionError. May be called from any thread.
        """
        try:
            return self.region(region_id)
        except NotServingRegionError:
            successor = self._successor(region_id, [mutation.row for mutation in mutations])
            if successor is None:
                raise
            return successor

    def caller_is_gone(self) -> None:
        """Frees what responders that are gone have left behind."""
        if self.openings is not None:
            self.openings.scans.held.free_gone()

    def change(
        self, request: ChangeRequest, responder: Responder, *, is_large: bool = False, is_single: bool = False
    ) -> None:
        """Makes the change and answers it once: perhaps before this returns, perhaps later.

        `is_large`: as in `get`. `is_single`: its message has no other request.
        """
        if not self._accepts(request, responder):
            return
        is_alone = is_single and not self._in_flight and self._open_calls() == 1
        self._in_flight += 1
        run = ChangeRun(self, request, responder)
        if is_large or not run.try_inline(is_alone=is_alone):
            self._hand_over(run, is_large)

    def put_rows(self, request: PutRowsRequest, responder: Responder, *, is_large: bool = False) -> None:
        """Makes puts in columns and answers them once. A worker makes them: they are many. `is_large`: as in `get`."""
        if not self._accepts(request, responder):
            return
        self._in_flight += 1
        self._hand_over(PutRowsRun(self, request, responder), is_large)

    def call(self, request: CallRequest, responder: Responder, *, is_large: bool = False) -> None:
        """Calls a row procedure and answers it once, perhaps before this returns. `is_large`: as in `get`."""
        if not self._accepts(request, responder):
            return
        try:
            self.procedures.check(request.name)
        except ProcedureNotFoundError as error:
            responder.send(request.failure(error, ""))
            return
        self._in_flight += 1
        self._handed_over_count += 1
        run = CallRun(self, request, responder, self.procedures)
        run.hand_over(self.workers.procedures, self._loop, is_counted=is_large)

    def _hand_over(self, run: GetRun | ChangeRun | PutRowsRun, is_large: bool) -> None:
        self._handed_over_count += 1
        run.hand_over(self.workers.points, self._loop, is_counted=is_large)

    def _refuse(self, request: Request, responder: Responder) -> None:
        self._refused_count += 1
        refusal = RegionTooBusyError(
            f"{self._in_flight} requests are in flight, which is requests_in_flight_max; retry",
            retry_after_ms=self.config.retry_after_ms,
        )
        responder.send(request.failure(refusal, "accepting a request"))

    def reserve(self, count: int) -> bool:
        """Counts this many requests as in flight until they are `finished`. Returns False if that would be too many."""
        if self._in_flight + count > self.config.requests_in_flight_max:
            return False
        self._in_flight += count
        return True

    def accepted(self, count: int) -> None:
        """Counts requests that were accepted and begun."""
        self._accepted_count += count

    @property
    def unread_bytes_max(self) -> int:
        """The unread bytes with which a stream is no longer read. From any thread."""
        bytes_max = min(self.config.request_bytes_max, _UNREAD_BYTES_MAX)
        return bytes_max if self.answers.has_room(ANSWER_COST * bytes_max) else self.few_bytes

    def unread_refusal(self, responder: Responder) -> RegionTooBusyError | None:
        """Returns an error if no more answers should be made for this caller now. From any thread.

        A caller with few unread bytes is never refused because of others.
        """
        if responder.unread_bytes <= self.few_bytes or self.answers.has_room(ANSWER_COST):
            return None
        return self.answer_refusal()

    def answer_refusal(self) -> RegionTooBusyError:
        """Returns the error for an answer without memory."""
        return RegionTooBusyError(
            f"{self.answers.bytes_held} bytes of answers wait for clients to read them, of answer_bytes_held_max = "
            f"{self.answers.bytes_max}; read your answers, and retry",
            retry_after_ms=self.config.retry_after_ms,
        )

    def is_late(self, deadline: float) -> bool:
        """Whether the deadline has passed. From any thread."""
        return self.clock.monotonic() >= deadline

    def on_loop(self, callback: Callable[[], None]) -> None:
        """Runs the callback on the loop: at once in the loop's thread, else soon."""
        if threading.get_ident() == self._loop_thread:
            callback()
        else:
            self._completions.post(callback)

    def soon(self, callback: Callable[[], None]) -> None:
        """Runs the callback on the loop, when all answers that are there have been passed to their responders."""
        self._completions.soon(callback)

    def finished(self, count: int = 1) -> None:
        """Ends this many requests that were in flight; on the loop."""
        assert self._in_flight >= count, (self._in_flight, count)
        self._in_flight -= count
