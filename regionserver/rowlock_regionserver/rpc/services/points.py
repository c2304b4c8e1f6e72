"""Point requests: made at once on the event loop when nothing has to be waited for, else by a worker thread.

The outline of one request, which is accepted and answered exactly once:

1. Accept: counted, or refused when too many are in flight. Its deadline starts to run.
2. Try: read from its message and made on the loop with may_wait=False. Most end here, because a thread's hand-over
   costs more than they do. What is large or long by its look goes to a worker at once. For a change that is alone in
   the server the loop waits until it is synced, some milliseconds at most.
3. Hand over: what would have to wait is done by a worker with may_wait=True, and counted in the ledger until it is
   answered. If the deadline passes before a worker is free, it is answered DEADLINE_EXCEEDED and never begun;
   REGION_TOO_BUSY, if there is no room for it, or if clients have left too many answers unread, this one too.
4. Answer: on the loop. A change's comes when the log's thread says that it is published, carried by completions.py.

Neighbouring puts of one message share 2 and 4, see put_company.py.

A change that has begun is never cancelled: a deadline that passes later is the client's matter.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from rowlock_proto.v1.region_pb2 import PointRequest

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.engine.completions import Completions
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import RegionTooBusyError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.rpc.messages.answers import error_answer
from rowlock_regionserver.rpc.services.point_run import Asker, PointRegion, PointRun, got_inline

# Of answer_bytes_held_max: who leaves less unread is never refused for what others leave.
_FEW_UNREAD_SHARE = 256
# More that one stream leaves unread, and it is not read from either. Of all answers together fewer, when they are many.
_UNREAD_BYTES_MAX = 1 * MIB


@dataclass(frozen=True, slots=True)
class PointStatistics:
    """What point operations are at, and what they were since the start."""

    in_flight: int
    accepted_count: int
    handed_over_count: int
    refused_count: int


class Points:
    """Carries out point requests. Used on the event loop, except where a method says otherwise."""

    def __init__(
        self,
        region: Callable[[int], PointRegion],
        workers: Workers,
        config: Config,
        clock: Clock,
        ledger: Ledger,
        open_calls: Callable[[], int],
    ) -> None:
        """`open_calls`: how many calls of any kind the server has under way."""
        self.region = region  # Raises NotServingRegionError.
        self.workers = workers
        self.config = config
        self.clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._open_calls = open_calls
        self._completions = Completions(self._loop, lambda: self._in_flight)
        self.requests = ledger.requests
        self.answers = ledger.answers
        self.few_bytes = config.answer_bytes_held_max // ANSWER_COST // _FEW_UNREAD_SHARE
        self._in_flight = 0
        self._accepted_count = 0
        self._handed_over_count = 0
        self._refused_count = 0

    def statistics(self) -> PointStatistics:
        """From any thread."""
        return PointStatistics(self._in_flight, self._accepted_count, self._handed_over_count, self._refused_count)

    def accept(
        self,
        request: PointRequest,
        client_id: bytes,
        sequence_floor: int,
        asker: Asker,
        *,
        is_large: bool = False,
        has_company: bool = True,
    ) -> None:
        """Sees to it that the asker is answered once: perhaps before this returns, perhaps later.

        `is_large`: the request came in a message too large for the loop to look into. `has_company`: others came in the
        same message.
        """
        config = self.config
        if self._in_flight >= config.requests_in_flight_max:
            self._refused_count += 1
            asker.answered(error_answer(request.id, self._too_busy(), "accepting a request"))
            return
        self._accepted_count += 1
        is_get = request.HasField("get")
        if is_get and not is_large and (answer := got_inline(self, request, asker)) is not None:
            asker.answered(answer)
            return
        is_alone = not has_company and not self._in_flight and self._open_calls() == 1
        self._in_flight += 1
        timeout_ms = request.timeout_ms or config.row_lock_wait_ms
        deadline = self.clock.monotonic() + timeout_ms / 1000
        run = PointRun(self, request, client_id, sequence_floor, asker, deadline)
        if is_large or is_get or not run.try_inline(is_alone=is_alone):
            self._handed_over_count += 1
            run.hand_over(self.workers.points, self._loop, timeout_ms / 1000, is_counted=is_large)

    def reserve(self, count: int) -> bool:
        """Whether so many requests may be in flight besides; they are then, until they are `finished`."""
        if self._in_flight + count > self.config.requests_in_flight_max:
            return False
        self._in_flight += count
        return True

    def accepted(self, count: int) -> None:
        """So many requests were accepted and begun."""
        self._accepted_count += count

    def _too_busy(self) -> RegionTooBusyError:
        return RegionTooBusyError(
            f"{self._in_flight} requests are in flight, as many as requests_in_flight_max allows; try again",
            retry_after_ms=self.config.retry_after_ms,
        )

    @property
    def unread_bytes_max(self) -> int:
        """What a stream may leave unread before nothing more is read from it. From any thread."""
        bytes_max = min(self.config.request_bytes_max, _UNREAD_BYTES_MAX)
        return bytes_max if self.answers.has_room(ANSWER_COST * bytes_max) else self.few_bytes

    def unread_refusal(self, asker: Asker) -> RegionTooBusyError | None:
        """Why no more answers should be made for this asker now. From any thread.

        Who leaves few unread is never refused for what others leave.
        """
        if asker.unread_bytes <= self.few_bytes or self.answers.has_room(ANSWER_COST):
            return None
        return self.answer_refusal()

    def answer_refusal(self) -> RegionTooBusyError:
        """Why there is no room for an answer."""
        return RegionTooBusyError(
            f"{self.answers.bytes_held} bytes are held by answers that wait for clients to read them, of "
            f"answer_bytes_held_max = {self.answers.bytes_max}; read yours and try again",
            retry_after_ms=self.config.retry_after_ms,
        )

    def is_late(self, deadline: float) -> bool:
        """The deadline has passed. From any thread."""
        return self.clock.monotonic() >= deadline

    def on_loop(self, callback: Callable[[], None]) -> None:
        """Runs the callback now on the loop, or soon if this is another thread."""
        if threading.get_ident() == self._loop_thread:
            callback()
        else:
            self._completions.post(callback)

    def finished(self, count: int = 1) -> None:
        """So many accepted requests less; on the loop."""
        assert self._in_flight >= count, (self._in_flight, count)
        self._in_flight -= count
