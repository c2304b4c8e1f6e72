"""Scans: worker threads make their batches, a few at a time, and send them, or the event loop does.

1. A scan reads nothing on the event loop. Its steps may run in different threads, but never two at once.
   On a direct connection a step sends each batch before it makes the next one, for a twentieth of a second. The system
   keeps a batch for the client, so neither side waits for the other. If the client does not take a batch within a
   moment, the step ends, and the event loop sends the rest.
   By gRPC the event loop sends the batches of a step. The first step makes one batch, since that often meets the scan's
   limit; later steps make several, as many as one window yields. From the second step on, the next one is made
   meanwhile, unless scans hold more than half of scan_bytes_held_max. Otherwise one side would wait for the other: gRPC
   accepts little more than a client has read.
   By either way a step without a full batch for scan_heartbeat_ms ends after its current window, so that all scans and
   bulk batches get a share of the workers. It sends the rows found so far, perhaps none, with the resume key: a
   heartbeat for the client.
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
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, bytes_beyond, bytes_held
from rowlock_regionserver.engine.held_scans import HeldScans
from rowlock_regionserver.engine.interfaces import ScannedRegion
from rowlock_regionserver.engine.listed_scan import NOTHING_KNOWN, AdmittedScan, ListedScan, ScanAbout
from rowlock_regionserver.engine.open_scan import Encode, OpenScan
from rowlock_regionserver.engine.slow_calls import SlowCalls
from rowlock_regionserver.engine.tasks import cancel
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import LeaseExpiredError, RegionServerError, RegionTooBusyError, StoppingError
from rowlock_regionserver.ledger import Account, Holding, Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.sessions.session import SessionInfo

T = TypeVar("T")

# Writes an encoded batch. It was taken when the returned coroutine or future has ended; None: it was taken at once.
Write = Callable[[EncodedMessage], Coroutine[None, None, None] | asyncio.Future[None] | None]

# A step's batches where the event loop sends them; a window of the default size is cut into twice as many.
STEP_BATCHES_MAX = 4


class BatchSender(NamedTuple):
    """Sends batches on a connection that worker threads may use.

    send: called by worker threads; returns whether the batch was taken whole. send_rest: called on the loop while no
    step runs; sends the rest, and returns what ends when it was taken. None: there is no rest.
    """

    send: Callable[[EncodedMessage], bool]
    send_rest: Callable[[], asyncio.Future[None] | None]


@dataclass(frozen=True, slots=True)
class ScanStatistics:
    """The open scans and their memory, and counts of all opened ones and of expired leases."""

    open_count: int
    bytes_held: int
    opened_count: int
    lease_expired_count: int


class _StepAhead:
    """A step whose batches are made while earlier ones are sent, and counted until they are taken."""

    def __init__(
        self,
        step: Coroutine[None, None, list[EncodedMessage]],
        account: Account,
        is_over: Callable[[], bool],
        when_made: Callable[[], None],
    ) -> None:
        """is_over: returns whether the scan counts no window any more. when_made: called when the step has ended."""
        self._is_over = is_over
        self._when_made = when_made
        self._made = Holding(account)
        self._is_taken = False  # perhaps before asyncio calls `_count`
        self._task = asyncio.get_running_loop().create_task(step)
        self._task.add_done_callback(self._count)

    def _count(self, task: asyncio.Task[list[EncodedMessage]]) -> None:
        if not (self._is_taken or task.cancelled()) and task.exception() is None:
            batches = task.result()
            # The last batch may keep a window alive, which an open scan counts itself.
            last = bytes_beyond(batches[-1]) if batches and self._is_over() else 0
            self._made.set(sum(map(len, batches)) + last)
        if not self._is_taken:
            self._when_made()

    async def batches(self) -> list[EncodedMessage]:
        """Waits for the batches, which the caller counts from now on. Raises the failure of the step."""
        try:
            return await self._task
        finally:
            self._take()

    def cancel(self) -> None:
        """Drops the batches."""
        cancel(self._task)
        self._take()

    def _take(self) -> None:
        self._is_taken = True
        self._made.set(0)


class Scans:
    """The scans of a server. Used on the event loop, except where a method says otherwise."""

    def __init__(self, workers: Workers, slow_calls: SlowCalls, config: Config, clock: Clock, ledger: Ledger) -> None:
        self._workers = workers
        self._slow_calls = slow_calls
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
        self.held = HeldScans(self.release, self._loop, config)

    def statistics(self) -> ScanStatistics:
        """From any thread."""
        expired_count = self._lease_expired_count + self.held.expired_count
        return ScanStatistics(self._open_count, self._account.bytes_held, self._opened_count, expired_count)

    def stop(self) -> None:
        """Ends every scan with SERVER_STOPPING, at the batch or the step that it is sending; held ones at once."""
        if not self._stopping.done():
            self._stopping.set_result(None)
            self.held.stop()

    async def serve(
        self,
        region: ScannedRegion,
        plan: ScanPlan,
        encode: Encode,
        write: Write | BatchSender,
        about: ScanAbout = NOTHING_KNOWN,
        holding: Callable[[ListedScan], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Writes the scan's encoded answers; see `admit` and `write_answers`."""
        await self.write_answers(self.admit(region, plan, encode, about, holding), write)

    def admit(
        self,
        region: ScannedRegion,
        plan: ScanPlan,
        encode: Encode,
        about: ScanAbout = NOTHING_KNOWN,
        holding: Callable[[ListedScan], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> AdmittedScan:
        """Counts and lists a scan until it is released. Raises RegionTooBusyError if too many are open.

        `holding` is entered with the scan while it is open; the scan may be ended from any thread meanwhile.
        """
        if self._open_count >= self._config.scans_open_max:
            raise RegionTooBusyError(
                f"{self._open_count} scans are open, as many as scans_open_max allows; close unused scans and retry",
                retry_after_ms=self._config.retry_after_ms,
            )
        scan = OpenScan(region, plan, encode, self._account, self._config, self._clock)
        listed = ListedScan(f"scan-{next(self._numbers)}", about, self._clock, self._config.scan_lease_ms, self._loop)
        held_by = holding(listed)
        held_by.__enter__()
        self._open_count += 1
        self._opened_count += 1
        self._listed[listed.scan_id] = listed
        return AdmittedScan(scan, listed, held_by)

    def release(self, admitted: AdmittedScan) -> None:
        """Ends what `admit` began, and frees the scan. Idempotent."""
        scan, listed = admitted.scan, admitted.listed
        if self._listed.pop(listed.scan_id, None) is None:
            return
        self._open_count -= 1
        admitted.held_by.__exit__(None, None, None)
        if scan.is_freed:
            listed.is_over.set()
        else:
            # Closing may close files, so a worker does it, unless the running step does.
            self._workers.quick.submit(scan.close).add_done_callback(lambda _: listed.is_over.set())

    async def write_answers(self, admitted: AdmittedScan, write: Write | BatchSender) -> None:
        """Writes the encoded answers that the scan has not given yet, and releases it.

        Raises RegionServerError if it ends early, with its read point closed.
        """
        try:
            if isinstance(write, BatchSender):
                await self._send_batches(admitted.scan, write, admitted.listed)
            else:
                await self._write_batches(admitted.scan, write, admitted.listed)
        finally:
            self.release(admitted)

    def implicit_sessions(self) -> list[SessionInfo]:
        """Returns the scans that belong to no session, each as a session. From any thread."""
        return [listed.info() for listed in list(self._listed.values()) if not listed.about.is_of_session]

    def end(self, scan_id: str, error: RegionServerError) -> None:
        """Ends a scan with this error, if it is open. From any thread but the loop's."""
        listed = self._listed.get(scan_id)
        if listed is not None:
            listed.end(error)

    async def _write_batches(self, scan: OpenScan, write: Write, listed: ListedScan) -> None:
        count = 1
        batches: list[EncodedMessage] = []
        writing_bytes = 0
        unread = Holding(self._account)
        ahead: _StepAhead | None = None

        def count_unread() -> None:
            # The last batch may keep a window alive, which an open scan counts itself.
            last = bytes_beyond(batches[0]) if batches and scan.is_over else 0
            unread.set(writing_bytes + sum(map(len, batches)) + last)

        try:
            while batches := await (
                self._step(partial(scan.step, count), listed) if ahead is None else ahead.batches()
            ):
                # Reversed, so that each batch can be popped, and freed when it is written.
                batches.reverse()
                count_unread()
                # A first step often ends the scan, or its client does.
                ahead = None
                if count > 1 and not self._account.is_half_full:
                    step = self._step(partial(scan.step, STEP_BATCHES_MAX), listed)
                    ahead = _StepAhead(step, self._account, lambda: scan.is_over, count_unread)
                count = min(2 * count, STEP_BATCHES_MAX)
                while batches:
                    # The batch being written counts twice, because gRPC copies it. In parts it may keep alive a window
                    # that no later batch has a part of.
                    writing_bytes = len(batches[-1]) + bytes_held(batches[-1])
                    count_unread()
                    await self._write(write(batches.pop()), listed)
                writing_bytes = 0
                count_unread()
        finally:
            unread.set(0)
            # The traceback of a failure may keep this frame alive until a garbage collection.
            batches = []
            if ahead is not None:
                ahead.cancel()
                ahead = None

    async def _send_batches(self, scan: OpenScan, sender: BatchSender, listed: ListedScan) -> None:
        unread = Holding(self._account)
        try:
            while not scan.is_over:
                unread.set(await self._step(partial(scan.send_step, sender.send), listed))
                await self._write(sender.send_rest(), listed)
                unread.set(0)
        finally:
            unread.set(0)

    async def _step(self, step: Callable[[], T], listed: ListedScan) -> T:
        """Lets a worker make a step, and returns what it returns."""
        began = self._clock.monotonic()
        self._workers.scan_step_count += 1
        try:
            made = await self._loop.run_in_executor(self._workers.streams, step)
        finally:
            self._workers.scan_step_count -= 1
        if self._slow_calls.is_slow(began):
            self._slow_calls.log(began, "step of a scan", listed.about.region_id)
        return made

    async def _write(
        self, writing: Coroutine[None, None, None] | asyncio.Future[None] | None, listed: ListedScan
    ) -> None:
        """Waits until the batch is taken, for as long as the lease lasts."""
        if writing is None:
            self._raise_if_ended(listed)
            listed.note_use()
            return
        task = asyncio.ensure_future(writing)
        try:
            waited: set[asyncio.Future[Any]] = {task, self._stopping, listed.ended}  # Any: of three types
            await asyncio.wait(
                waited,
                timeout=self._config.scan_lease_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._raise_if_ended(listed)
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

    def _raise_if_ended(self, listed: ListedScan) -> None:
        """Raises the error of a scan that ends early."""
        if self._stopping.done():
            raise StoppingError("the server is stopping; resume the scan after the last complete row")
        if listed.ended.done():
            raise listed.ended.result()
