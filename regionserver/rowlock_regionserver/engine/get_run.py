"""Gets: executed on the loop, as most are, or by a worker."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rowlock_regionserver.engine.interfaces import GetRequest, Responder
from rowlock_regionserver.engine.point_run import INLINE_ROWS_MAX, PointRun
from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import MAKING_COST
from rowlock_regionserver.process_limits import out_of_memory
from rowlock_regionserver.region.check import check_answer

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points


def got_inline(points: Points, request: GetRequest, responder: Responder) -> bytes | None:
    """2 Try, on the loop, for a get, which has no state and needs no run. Returns None if it would have to wait."""
    try:
        answer = _got(points, request, INLINE_ROWS_MAX, may_wait=False)
    except Exception as error:
        return _failure(request, error)
    if answer is not None and len(answer) > points.few_bytes:
        if not responder.reserve(len(answer), must_fit=True):
            return request.failure(points.answer_refusal(), "")
        responder.release(len(answer))
    return answer


class GetRun(PointRun[GetRequest]):
    """A get that a worker executes."""

    NAME = "get"

    __slots__ = ()

    def _execute(self) -> None:
        try:
            answer = _got(self._points, self._request, None, may_wait=True)
            assert answer is not None
        except Exception as error:
            answer = _failure(self._request, error)
        self._answer_from_worker(answer)


def _got(points: Points, request: GetRequest, rows_max: int | None, *, may_wait: bool) -> bytes | None:
    """Makes the answer of a get. Returns None if it has more rows, or would have to wait for a disk and may not."""
    arguments = request.read(rows_max)
    if arguments is None:
        return None
    rows, selection = arguments
    with AnswerMemory(points.answers, points.few_bytes) as memory:
        cells = points.region(request.region_id).get(rows, selection, may_wait=may_wait, reached=memory.reached)
        if cells is None:
            return None
        answer = request.answer(cells)
    check_answer(len(answer), rows[0], points.config)  # Its exact size; the region has counted the cells only.
    return answer


def _failure(request: GetRequest, error: Exception) -> bytes:
    refusal = out_of_memory("a get", error) if isinstance(error, MemoryError) else error
    return request.failure(refusal, "executing a point request")


class AnswerMemory:
    """The memory of an answer to a get while it is made: cells, message and bytes. A context; used by one thread."""

    def __init__(self, account: Account, few_bytes: int) -> None:
        self._account = account
        self._few_bytes = few_bytes
        self._taken = 0

    def reached(self, byte_count: int) -> None:
        """Counts the bytes of cells read so far. Raises RegionTooBusyError or LimitExceededError if they don't fit."""
        if byte_count > self._few_bytes:
            more = MAKING_COST * byte_count - self._taken
            self._account.take(more)
            self._taken += more

    def __enter__(self) -> AnswerMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken:
            self._account.give(self._taken)
