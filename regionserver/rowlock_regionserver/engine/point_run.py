"""One accepted request that was not answered at once; points.py has the outline."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from rowlock_regionserver.engine.interfaces import Request, Responder
from rowlock_regionserver.errors import DeadlineError, RegionServerError
from rowlock_regionserver.memory_plan import REQUEST_COST, ROW_COST

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points

R = TypeVar("R", bound=Request)

# A worker executes a request of more rows, so that the loop stays responsive.
INLINE_ROWS_MAX = 64
# A worker also executes a change of more parts: changes and checks of all its rows.
INLINE_PARTS_MAX = 256
# What is counted for a message of one request beside that request.
_MESSAGE_COST = 1000


class PointRun(ABC, Generic[R]):
    """One accepted request, until it is answered."""

    NAME: ClassVar[str]  # for the log

    __slots__ = (
        "_began",
        "_deadline",
        "_future",
        "_held_bytes",
        "_is_answered",
        "_points",
        "_request",
        "_responder",
        "_timeout",
        "_timer",
    )

    def __init__(self, points: Points, request: R, responder: Responder) -> None:
        self._points = points
        self._request = request
        self._responder = responder
        self._began = points.clock.monotonic()
        self._timeout = (request.timeout_ms or points.config.row_lock_wait_ms) / 1000  # seconds
        self._deadline = self._began + self._timeout
        self._future: Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False
        self._held_bytes = 0

    @abstractmethod
    def _execute(self) -> None:
        """Executes the request, in a worker, which may wait. Ensures that `_answer` is called."""

    def hand_over(self, pool: Executor, loop: asyncio.AbstractEventLoop, *, is_counted: bool) -> None:
        """3 Hand over, on the loop. `is_counted`: the ledger counts its message until all of that is answered."""
        request = self._request
        rows_cost = ROW_COST * request.row_count()
        cost = REQUEST_COST * request.byte_count() + rows_cost
        requests = self._points.requests
        try:
            if is_counted and cost + _MESSAGE_COST > requests.bytes_max:
                # "Busy" would be wrong: it never fits beside its own message.
                raise requests.refusal(cost + _MESSAGE_COST)
            self._hold(rows_cost if is_counted else cost)
        except RegionServerError as refusal:
            self._answer(request.failure(refusal, ""))
            return
        self._timer = loop.call_later(self._timeout, self._give_up)
        self._future = pool.submit(self._run_in_worker)

    def _hold(self, byte_count: int) -> None:
        """Counts its memory until it is answered. Raises RegionTooBusyError or LimitExceededError."""
        self._points.requests.take(byte_count)
        self._held_bytes = byte_count

    def _give_up(self) -> None:
        """Called at the deadline. A request that a worker has begun checks the deadline itself."""
        assert self._future is not None
        if self._future.cancel():
            self._answer(self._request.failure(_too_late(), "waiting for a worker"))

    def _run_in_worker(self) -> None:
        points, responder = self._points, self._responder
        if responder.is_gone:
            points.on_loop(partial(self._answer, b""))
        elif points.is_late(self._deadline):
            points.on_loop(partial(self._answer, self._request.failure(_too_late(), "")))
        elif (refusal := points.unread_refusal(responder)) is not None:
            points.on_loop(partial(self._answer, self._request.failure(refusal, "")))
        else:
            self._execute()

    def _answer_from_worker(self, answer: bytes) -> None:
        points, responder = self._points, self._responder
        if not responder.reserve(len(answer), must_fit=len(answer) > points.few_bytes):
            answer = self._request.failure(points.answer_refusal(), "")
            responder.reserve(len(answer), must_fit=False)
        points.on_loop(partial(self._answer_reserved, answer))

    def _answer_reserved(self, answer: bytes) -> None:
        self._responder.release(len(answer))
        self._answer(answer)

    def _answer(self, answer: bytes) -> None:
        """4 Answer, on the loop."""
        request, points = self._request, self._points
        assert not self._is_answered, f"a request of region {request.region_id} was answered twice"
        self._is_answered = True
        if self._timer is not None:
            self._timer.cancel()
        points.finished()
        if self._held_bytes:
            points.requests.give(self._held_bytes)
        self._responder.send(answer)
        if points.slow_calls.is_slow(self._began):
            points.slow_calls.log(self._began, self.NAME, request.region_id, request.row_count())


def _too_late() -> DeadlineError:
    return DeadlineError("the deadline passed while the request waited for a worker; nothing was changed, retry")
