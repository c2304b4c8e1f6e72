"""Scans: worker threads make their batches, a few at a time, and the event loop sends them.

1. A scan reads nothing on the event loop. Its steps may run in different threads, but never two at once. The first step
   makes one batch, since that often meets the scan's limit; later steps make several, as many as one window yields.
   Steps and sends alternate; gRPC's buffers keep the client busy meanwhile. Tried: making the next batches while the
   last ones are sent. Sending holds the interpreter lock, so it was no faster (350 ms for 141 MB either way), and it
   held more memory.
   A step without a full batch for scan_heartbeat_ms ends after its current window, so that all scans and bulk batches
   get a share of the workers. It sends the rows found so far, perhaps none, with the resume key: a heartbeat for the
   client.
2. A closed scan closes its read point at once, or after the current window if a step is running.
3. If a client does not read the next batch within the lease, the scan closes its read point and ends with
   LEASE_EXPIRED.
4. At most scans_open_max scans are open. A scan begins only if the memory that the open ones hold, perhaps for clients
   that don't read, leaves enough for a window; otherwise it is refused with REGION_TOO_BUSY. While scans hold more than
   half of scan_bytes_held_max, each step ends after its window, which makes windows smaller.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.interfaces import ScanAnswers, ScannedRegion
from rowlock_regionserver.engine.listed_scan import NOTHING_KNOWN, ListedScan, ScanAbout
from rowlock_regionserver.engine.tasks import cancel
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import LeaseExpiredError, RegionServerError, RegionTooBusyError, StoppingError
from rowlock_regionserver.ledger import Account, Holding, Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sessions.session import SessionInfo

# A step's batches; a window of the default size is cut into twice as many.
STEP_BATCHES_MAX = 4

# Encodes an answer, read at this read point, for the front end that sends it. Called by worker threads.
Encode = Callable[[ScanAnswer, int], bytes]


class OpenScan:
    """One scan, stepped by worker threads. Thread-safe."""

    def __init__(
        self, region: ScannedRegion, plan: ScanPlan, encode: Encode, account: Account, config: Config, clock: Clock
    ) -> None:
        self._encode = encode
        self._account = account
        self._window_bytes = config.scan_window_bytes
        self._slice_seconds = config.scan_heartbeat_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()  # held for a whole step
        # Guarded by self._lock:
        self._context: AbstractContextManager[tuple[int, ScanAnswers]] | None = region.scan(
            plan, is_slice_over=self._is_slice_over
        )
        self._answers: ScanAnswers | None = None
        self._read_point = 0
        self._holding = Holding(account)
        self._failure: Exception | None = None
        self._slice_ends_at = 0.0
        # Set by the thread that closes the scan, read after each window and each step.
        self._is_closed = False

    def step(self, count: int = 1) -> list[bytes]:
        """Returns the next encoded answers, at most `count`; none at the end, or after `close`. Blocks.

        Closes the scan when it fails. If some batches were made before a failure, returns them, and raises the failure
        in the next step.
        """
        try:
            with self._lock:
                return self._step(count)
        except BaseException:
            self._is_closed = True
            raise
        finally:
            if self._is_closed:
                self.close()

    def _step(self, count: int) -> list[bytes]:
        if self._failure is not None:
            raise self._failure
        batches: list[bytes] = []
        self._begin_slice()
        try:
            while (batch := self._next()) is not None:
                batches.append(batch)
                if len(batches) == count or self._is_slice_over():
                    break
        except Exception as error:
            if not batches:
                raise
            self._failure = error
        return batches

    def _begin_slice(self) -> None:
        self._slice_ends_at = self._clock.monotonic() + self._slice_seconds

    def _is_slice_over(self) -> bool:
        is_over = self._is_closed or self._clock.monotonic() >= self._slice_ends_at
        # When memory is half full, each slice ends after its window: the rows are sent, and windows become smaller.
        return is_over or self._account.is_half_full

    def _next(self) -> bytes | None:
        if self._context is None or self._is_closed:
            return None
        if self._answers is None:
            if not self._account.has_room(self._window_bytes):
                raise self._account.refusal(self._window_bytes)
            self._read_point, self._answers = self._context.__enter__()
        answer = _next(self._answers)
        if answer is None or self._is_closed:
            self._is_closed = True
            return None
        if not answer.resume_key:
            # While batches are full, only their number ends the step.
            self._begin_slice()
        # The windows from which this batch and the next ones are sliced, and the cells read ahead.
        self._holding.set(self._answers.bytes_held)
        return self._encode(answer, self._read_point)

    def close(self) -> None:
        """Closes the read point and frees the memory, now or when the running step ends. Does not wait for the step."""
        self._is_closed = True
        # The thread that holds the lock checks the flag after releasing it, so one of the two closes the context.
        if self._lock.acquire(blocking=False):
            try:
                context, self._context = self._context, None
                was_entered, self._answers = self._answers is not None, None
                self._holding.set(0)
                if context is not None and was_entered:
                    context.__exit__(None, None, None)
            finally:
                self._lock.release()


def _next(answers: ScanAnswers) -> ScanAnswer | None:
    try:
        return next(answers)
    except StopIteration:
        return None


@dataclass(frozen=True, slots=True)
class ScanStatistics:
    """The open scans and their memory, and counts of all opened ones and of expired leases."""

    open_count: int
    bytes_held: int
    opened_count: int
    lease_expired_count: int


class Scans:
    """The scans of a server. Used on the event loop, except where a method says otherwise."""

    def __init__(self, workers: Workers, config: Config, clock: Clock, ledger: Ledger) -> None:
        self._workers = workers
        self._config = config
        self._clock = clock
        self._account = ledger.scans
        self._loop = asyncio.get_running_loop()
        self._stopping: asyncio.Future[None] = self._loop.create_future()
        self._open_count = 0
        self._opened_count = 0
        self._lease_expired_count = 0
        self._numbers = itertools.count(1)
        self._listed: dict[str, ListedScan] = {}  # by id

    def statistics(self) -> ScanStatistics:
        """From any thread."""
        return ScanStatistics(self._open_count, self._account.bytes_held, self._opened_count, self._lease_expired_count)

    def stop(self) -> None:
        """Ends every scan with SERVER_STOPPING, at the batch that it is sending or sends next."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def serve(
        self,
        region: ScannedRegion,
        plan: ScanPlan,
        encode: Encode,
        write: Callable[[bytes], Coroutine[None, None, None]],
        about: ScanAbout = NOTHING_KNOWN,
        holding: Callable[[ListedScan], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Writes the scan's encoded answers. Raises RegionServerError if it ends early, with its read point closed.

        `holding` is entered with the scan while it is open; the scan may be ended from any thread meanwhile.
        """
        if self._open_count >= self._config.scans_open_max:
            raise RegionTooBusyError(
                f"{self._open_count} scans are open, as many as scans_open_max allows; close unused scans and retry",
                retry_after_ms=self._config.retry_after_ms,
            )
        scan = OpenScan(region, plan, encode, self._account, self._config, self._clock)
        self._open_count += 1
        self._opened_count += 1
        listed = ListedScan(f"scan-{next(self._numbers)}", about, self._clock, self._config.scan_lease_ms, self._loop)
        try:
            with holding(listed):
                self._listed[listed.scan_id] = listed
                await self._write_batches(scan, write, listed)
        finally:
            self._open_count -= 1
            self._listed.pop(listed.scan_id, None)
            # Closing may close files, so a worker does it, unless the running step does.
            self._workers.quick.submit(scan.close).add_done_callback(lambda _: listed.is_over.set())

    def implicit_sessions(self) -> list[SessionInfo]:
        """Returns the scans that belong to no session, each as a session. From any thread."""
        return [listed.info() for listed in list(self._listed.values()) if not listed.about.is_of_session]

    def end(self, scan_id: str, error: RegionServerError) -> None:
        """Ends a scan with this error, if it is open. From any thread but the loop's."""
        listed = self._listed.get(scan_id)
        if listed is not None:
            listed.end(error)

    async def _write_batches(
        self, scan: OpenScan, write: Callable[[bytes], Coroutine[None, None, None]], listed: ListedScan
    ) -> None:
        pool = self._workers.streams
        count = 1
        unread = Holding(self._account)
        try:
            while batches := await self._loop.run_in_executor(pool, scan.step, count):
                count = min(2 * count, STEP_BATCHES_MAX)
                unread.set(sum(map(len, batches)))
                # Reversed, so that each batch can be popped, and freed when it is written.
                batches.reverse()
                while batches:
                    # The batch being written counts twice, because gRPC copies it.
                    unread.set(sum(map(len, batches)) + len(batches[-1]))
                    await self._write(write(batches.pop()), listed)
                unread.set(0)
        finally:
            unread.set(0)

    async def _write(self, writing: Coroutine[None, None, None], listed: ListedScan) -> None:
        """Waits until gRPC has accepted the batch, for as long as the lease lasts."""
        task = self._loop.create_task(writing)
        try:
            waited: set[asyncio.Future[Any]] = {task, self._stopping, listed.ended}  # Any: of three types
            await asyncio.wait(
                waited,
                timeout=self._config.scan_lease_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._stopping.done():
                raise StoppingError("the server is stopping; resume the scan after the last complete row")
            if listed.ended.done():
                raise listed.ended.result()
            listed.note_use()
            if not task.done():
                self._lease_expired_count += 1
                raise LeaseExpiredError(
                    f"the client did not read the next batch within scan_lease_ms = {self._config.scan_lease_ms}; "
                    "resume the scan after the last complete row, at a new read point"
                )
            await task
        finally:
            cancel(task)
