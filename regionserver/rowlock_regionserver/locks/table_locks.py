"""The locks of a server: requests that wait with a bound, for threads and for the event loop.

A request is refused when it has waited for as long as its caller allows, with the holders in the error; nothing stays
of it then. No thread waits here on behalf of a remote client: the event loop waits, so that waiting requests take no
worker from the call that would release the lock. Threads that call `holding` are the server's own.

With `locks=0` every request is granted, and nothing is remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LockUnavailableError, RegionTooBusyError
from rowlock_regionserver.locks.lock import LockHolder, LockInfo, LockState, Wanted
from rowlock_regionserver.locks.lock_tree import Answer, LockRequest, LockTree
from rowlock_regionserver.sessions.session import SessionRef

_NAMED_MAX = 5

# Done when a request is granted, or withdrawn.
Granted: TypeAlias = "asyncio.Future[None]"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls an operation that takes locks, and how long it may wait for them.

    wait_ms: None: the server's default; 0: not at all. held: locks that were taken for this call already.
    """

    owner: str = "the server"
    session: SessionRef | None = None
    wait_ms: int | None = None
    held: LockRequest | None = None


THE_SERVER = Caller()


@dataclass(frozen=True, slots=True)
class LockStatistics:
    """The requests at one moment, and counts since the start."""

    held_count: int
    waiting_count: int
    granted_count: int
    refused_count: int


class TableLocks:
    """Thread-safe."""

    def __init__(self, config: Config, clock: Clock, next_number: Callable[[], int]) -> None:
        """`next_number` returns a number greater than all it has returned; it never blocks. For explicit locks."""
        self._config = config
        self._clock = clock
        self._next_number = next_number
        self._call_ids = itertools.count(1)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._tree = LockTree()
        self._when_granted: dict[LockRequest, Callable[[], None]] = {}  # of those that wait
        self._granted_count = 0
        self._refused_count = 0

    @property
    def is_on(self) -> bool:
        """Whether operations take locks."""
        return self._config.locks != 0

    def holder_of(self, caller: Caller, purpose: str) -> LockHolder:
        """Returns the holder for an operation of this caller."""
        if caller.session is not None:
            return LockHolder(caller.session.session_id, caller.owner, purpose, caller.session)
        return LockHolder(f"call-{next(self._call_ids)}", caller.owner, purpose)

    def wait_s(self, wait_ms: int | None) -> float:
        """Returns how long a request may wait, if its caller named this time, or none."""
        wanted = self._config.lock_wait_ms if wait_ms is None else wait_ms
        return min(wanted, self._config.lock_wait_ms_max) / 1000

    def request(
        self, holder: LockHolder, wanted: Wanted, wait_s: float, when_granted: Callable[[], None]
    ) -> LockRequest:
        """Requests locks. If the answer is not granted yet, `when_granted` is called later, in the releasing thread.

        The caller refuses it after `wait_s`. Raises LockUnavailableError if it must not wait, and RegionTooBusyError.
        """
        now_ms = self._clock.now_ms()
        request = LockRequest(holder, wanted, now_ms, waits_until_ms=now_ms + int(wait_s * 1000))
        if not self.is_on:
            request.taken = len(wanted)
            return request
        with self._lock:
            if wait_s > 0 and len(self._when_granted) >= self._config.lock_requests_waiting_max:
                raise RegionTooBusyError(
                    f"{len(self._when_granted)} requests wait for locks, which is lock_requests_waiting_max; retry",
                    table=wanted[0][0].table,
                    retry_after_ms=self._config.retry_after_ms,
                )
            answer = self._tree.request(request, may_wait=wait_s > 0)
            if answer is Answer.GRANTED:
                self._note_granted(request)
            elif answer is Answer.WAITING:
                self._when_granted[request] = when_granted
            else:
                raise self._refusal(request, wait_s)
        return request

    def refuse(self, request: LockRequest, wait_s: float) -> LockUnavailableError | None:
        """Withdraws a request that has waited this long. None: it is granted meanwhile, and holds its locks."""
        with self._lock:
            if request.is_granted:
                return None
            if request.is_gone:
                return LockUnavailableError("the request for the lock was withdrawn", table=request.wanted[0][0].table)
            return self._refusal(request, wait_s)

    def release(self, request: LockRequest) -> None:
        """Releases what the request holds, or withdraws it. Idempotent."""
        with self._lock:
            granted = self._leave(request)
        for when_granted in granted:
            when_granted()

    def is_held(self, request: LockRequest) -> bool:
        """Whether the request holds all it wanted."""
        with self._lock:
            return request.is_granted

    @contextlib.contextmanager
    def holding(self, holder: LockHolder, wanted: Wanted, wait_s: float) -> Iterator[LockRequest]:
        """Returns a context that holds the locks. For the server's own threads: blocks for up to `wait_s`.

        Raises LockUnavailableError and RegionTooBusyError.
        """
        granted = threading.Event()
        request = self.request(holder, wanted, wait_s, granted.set)
        try:
            if not self.is_held(request) and not granted.wait(wait_s):
                refusal = self.refuse(request, wait_s)
                if refusal is not None:
                    raise refusal
            yield request
        finally:
            self.release(request)

    def requested(self, holder: LockHolder, wanted: Wanted, wait_s: float) -> tuple[LockRequest, Granted]:
        """Requests locks on the event loop; `until_granted` must follow, or `release`. Raises as `request`."""
        loop = asyncio.get_running_loop()
        granted = loop.create_future()

        def set_granted() -> None:
            if not granted.done():
                granted.set_result(None)

        def from_thread() -> None:
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(set_granted)

        return self.request(holder, wanted, wait_s, from_thread), granted

    async def until_granted(self, request: LockRequest, granted: Granted, wait_s: float) -> None:
        """Waits for up to `wait_s`. Raises LockUnavailableError. If it raises, nothing of the request stays."""
        if self.is_held(request):
            return
        try:
            await asyncio.wait((granted,), timeout=wait_s)
        except BaseException:
            self.release(request)
            raise
        refusal = self.refuse(request, wait_s)
        if refusal is not None:
            raise refusal

    async def taken(self, holder: LockHolder, wanted: Wanted, wait_s: float) -> LockRequest:
        """Takes the locks on the event loop; waits for up to `wait_s`. The caller releases them. Raises as both."""
        request, granted = self.requested(holder, wanted, wait_s)
        await self.until_granted(request, granted, wait_s)
        return request

    def withdraw(self, request: LockRequest) -> None:
        """Releases the request; if its caller still waits, it wakes up and is refused."""
        with self._lock:
            when_granted = self._when_granted.get(request)
        self.release(request)
        if when_granted is not None:
            when_granted()

    def infos(self, table: str = "") -> list[LockInfo]:
        """Returns the locks of a table, or of all, by key, held ones first, in order of arrival."""
        with self._lock:
            found = [info for request in self._tree.requests for info in self._infos_of(request)]
        chosen = [info for info in found if not table or info.key.table == table]
        return sorted(chosen, key=lambda info: (info.key, info.state is LockState.WAITING))

    def statistics(self) -> LockStatistics:
        """From any thread."""
        with self._lock:
            waiting = len(self._when_granted)
            return LockStatistics(len(self._tree.requests) - waiting, waiting, self._granted_count, self._refused_count)

    # The caller of the methods below holds self._lock.

    def _note_granted(self, request: LockRequest) -> None:
        if request.holder.is_explicit:
            request.number = self._next_number()
        request.granted_ms = self._clock.now_ms()
        self._granted_count += 1

    def _leave(self, request: LockRequest) -> list[Callable[[], None]]:
        self._when_granted.pop(request, None)
        granted = self._tree.leave(request)
        for each in granted:
            self._note_granted(each)
        return [self._when_granted.pop(each) for each in granted]

    def _refusal(self, request: LockRequest, wait_s: float) -> LockUnavailableError:
        """Withdraws a request that is not granted, and returns its error."""
        blockers = self._tree.blockers(request)
        key, mode = request.wanted[request.taken]
        granted = self._leave(request)
        # A request that leaves can let others in only at its own node: shared ones that waited behind it. They are
        # notified here, under the lock: what is called only sets a flag.
        for when_granted in granted:
            when_granted()
        self._refused_count += 1
        what = f"table {key.table!r}" if not key.region_id else f"region {key.region_id} of table {key.table!r}"
        named = [_named(each.holder) for each in blockers[:_NAMED_MAX]]
        if len(blockers) > _NAMED_MAX:
            named.append(f"{len(blockers) - _NAMED_MAX} more")
        waited = f" after {wait_s:g} s" if wait_s else ""
        return LockUnavailableError(
            f"the {mode.value} lock of {what} was refused{waited}: it is held, or wanted earlier, by "
            f"{', '.join(named) or 'another request of this session'}; nothing was changed, retry",
            table=key.table,
            holders=[each.holder.holder_id for each in blockers],
        )

    def _infos_of(self, request: LockRequest) -> Sequence[LockInfo]:
        infos = [
            LockInfo(
                key,
                mode,
                LockState.HELD,
                request.holder,
                request.number,
                request.granted_ms or request.since_ms,
            )
            for key, mode in request.wanted[: request.taken]
        ]
        if not request.is_granted:
            key, mode = request.wanted[request.taken]
            waits_for = tuple(dict.fromkeys(each.holder.holder_id for each in self._tree.blockers(request)))
            infos.append(
                LockInfo(
                    key, mode, LockState.WAITING, request.holder, 0, request.since_ms, waits_for, request.waits_until_ms
                )
            )
        return infos

    def _check(self) -> None:
        """Asserts the invariants, for tests."""
        with self._lock:
            self._tree._check()
            waiting = {request for request in self._tree.requests if not request.is_granted}
            assert waiting == self._when_granted.keys(), (waiting, self._when_granted)


def _named(holder: LockHolder) -> str:
    return f"{holder.holder_id} ({holder.purpose})" if holder.purpose else holder.holder_id
