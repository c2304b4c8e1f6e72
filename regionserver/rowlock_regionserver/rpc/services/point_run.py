"""One point request on its way from message to answer; points.py has the outline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rowlock_proto.v1.region_pb2 import PointRequest

from rowlock_regionserver.errors import (
    DeadlineError,
    InvalidRequestError,
    RegionServerError,
    RegionTooBusyError,
    UnknownOutcomeError,
)
from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import ANSWER_COST, MAKING_COST, REQUEST_COST, ROW_COST
from rowlock_regionserver.operations import AnswerCell, RowMutation, RowOutcome, RowResult, Selection, WriteOptions
from rowlock_regionserver.region.mutate.check import check_answer
from rowlock_regionserver.rpc.messages.answers import error_answer, get_answer, mutate_answer
from rowlock_regionserver.rpc.messages.changes import Mutations, TooLongError, check_client_id, row_mutations
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.messages.reads import rows_of, selection

if TYPE_CHECKING:
    from rowlock_regionserver.rpc.services.points import Points

logger = logging.getLogger(__name__)

# A request of more rows is converted and made by a worker, so that the loop stays quick for everybody else.
INLINE_ROWS_MAX = 64
# So is a change of more parts: changes and checks, of all its rows.
INLINE_PARTS_MAX = 256


class PointRegion(Protocol):
    """A region as point operations see it. Thread-safe."""

    def get(
        self, rows: Sequence[bytes], selection: Selection, *, may_wait: bool, reached: Callable[[int], None]
    ) -> list[Sequence[AnswerCell]] | None:
        """The rows' cells, in the order asked; None: it would have to wait for a disk and may not.

        `reached` is told after each row how many bytes they are by now; it may raise.
        """

    def mutate(
        self,
        mutations: Sequence[RowMutation],
        options: WriteOptions,
        done: Callable[[list[RowOutcome]], None],
        *,
        may_wait: bool,
    ) -> bool:
        """Makes the changes and calls `done` once, from any thread; False: it would have to wait and may not."""

    def mutate_each(
        self,
        mutations: Sequence[RowMutation],
        options: WriteOptions,
        done: Callable[[list[int], list[RowOutcome]], None],
    ) -> bool:
        """The same for changes of several requests, without waiting; `done` gets the places of some, until all came."""


class Asker(Protocol):
    """Who waits for an answer."""

    @property
    def is_gone(self) -> bool:
        """Nobody will read the answer, so what has not begun need not begin. Read from any thread."""

    @property
    def unread_bytes(self) -> int:
        """Its answers that wait to be sent, and those that are coming. Read from any thread."""

    def coming(self, byte_count: int, *, must_fit: bool) -> bool:
        """An answer of so many bytes was made. False: it must fit, and all answers leave no room. From any thread."""

    def came(self, byte_count: int) -> None:
        """What was coming is answered next; on the loop."""

    def answered(self, answer: bytes, count: int = 1) -> None:
        """Takes a PointAnswers message with the answers of so many requests; on the loop, once for each request."""


def got(points: Points, request: PointRequest, *, may_wait: bool) -> bytes | None:
    """The answer of a get; None: it would have to wait for a disk and may not."""
    config = points.config
    get = request.get
    rows = rows_of(get, config)
    with AnswerRoom(points.answers, points.few_bytes) as room:
        asked = selection(get, config)
        cells = points.region(request.region_id).get(rows, asked, may_wait=may_wait, reached=room.reached)
        if cells is None:
            return None
        answer = get_answer(request.id, cells)
    check_answer(len(answer), rows[0], config)  # Its exact size; the region has added up what is in it.
    return answer


class AnswerRoom:
    """What the answer to a get takes while it is made: cells, message and bytes. A context; used by one thread."""

    def __init__(self, account: Account, few_bytes: int) -> None:
        self._account = account
        self._few_bytes = few_bytes
        self._taken = 0

    def reached(self, byte_count: int) -> None:
        """So many bytes of cells were read. Raises RegionTooBusyError or LimitExceededError when that is too much."""
        if byte_count > self._few_bytes:
            more = MAKING_COST * byte_count - self._taken
            self._account.take(more)
            self._taken += more

    def __enter__(self) -> AnswerRoom:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken:
            self._account.give(self._taken)


def got_inline(points: Points, request: PointRequest, asker: Asker) -> bytes | None:
    """2 Try, on the loop, for a get: it leaves nothing behind, so it needs no run. None: it would have to wait."""
    try:
        answer = got(points, request, may_wait=False) if len(request.get.rows) <= INLINE_ROWS_MAX else None
    except Exception as error:
        return error_answer(request.id, error, "making a point request")
    if answer is not None and len(answer) > points.few_bytes:
        if not asker.coming(len(answer), must_fit=True):
            return error_answer(request.id, points.answer_refusal(), "")
        asker.came(len(answer))
    return answer


class PointRun:
    """One accepted request."""

    __slots__ = (
        "_asker",
        "_client_id",
        "_deadline",
        "_future",
        "_held_bytes",
        "_is_answered",
        "_mutations",
        "_points",
        "_request",
        "_sequence_floor",
        "_timer",
    )

    def __init__(
        self,
        points: Points,
        request: PointRequest,
        client_id: bytes,
        sequence_floor: int,
        asker: Asker,
        deadline: float,
    ) -> None:
        self._points = points
        self._request = request
        self._client_id = client_id
        self._sequence_floor = sequence_floor
        self._asker = asker
        self._deadline = deadline
        self._mutations: Mutations | None = None
        self._future: Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False
        self._held_bytes = 0

    def try_inline(self, *, is_alone: bool) -> bool:
        """2 Try, on the loop. False: it would have to wait, or is large; nothing was done."""
        return len(self._request.mutate.mutations) <= INLINE_ROWS_MAX and self._run(may_wait=False, is_alone=is_alone)

    def hand_over(self, pool: Executor, loop: asyncio.AbstractEventLoop, timeout: float, *, is_counted: bool) -> None:
        """3 Hand over, on the loop. `is_counted`: the message that it came in is, until all of it is answered."""
        try:
            self._hold((0 if is_counted else REQUEST_COST * self._request.ByteSize()) + _rows_bytes(self._request))
        except RegionServerError as refusal:
            self._answer(error_answer(self._request.id, refusal, ""))
            return
        self._timer = loop.call_later(timeout, self._give_up)
        self._future = pool.submit(self._run_in_worker)

    def _hold(self, byte_count: int) -> None:
        """Counts what it takes until it is answered. Raises RegionTooBusyError or LimitExceededError."""
        self._points.requests.take(byte_count)
        self._held_bytes = byte_count

    def _give_up(self) -> None:
        """The deadline has passed. What a worker has begun looks at the deadline by itself."""
        assert self._future is not None
        if self._future.cancel():
            self._answer(error_answer(self._request.id, _too_late(), "waiting for a worker"))

    def _run_in_worker(self) -> None:
        if self._asker.is_gone:
            self._points.on_loop(partial(self._answer, b""))
        elif self._points.is_late(self._deadline):
            self._points.on_loop(partial(self._answer, error_answer(self._request.id, _too_late(), "")))
        elif (refusal := self._points.unread_refusal(self._asker)) is not None:
            self._points.on_loop(partial(self._answer, error_answer(self._request.id, refusal, "")))
        else:
            is_done = self._run(may_wait=True)
            assert is_done

    def _run(self, *, may_wait: bool, is_alone: bool = False) -> bool:
        """Makes the request; False: it would have to wait and may not."""
        request = self._request
        try:
            if request.HasField("mutate"):
                return self._mutate(may_wait=may_wait, is_alone=is_alone)
            if request.HasField("get"):
                answer = got(self._points, request, may_wait=may_wait)
                if answer is None:
                    return False
            else:
                raise InvalidRequestError(
                    f"request {request.id} asks for nothing; set one of get, mutate "
                    "(an operation that this server is too old to know looks the same)"
                )
        except Exception as error:
            answer = error_answer(request.id, error, "making a point request")
        if may_wait:
            self._answer_from_worker(answer)
        else:
            self._answer(answer)
        return True

    def _answer_from_worker(self, answer: bytes) -> None:
        if not self._asker.coming(len(answer), must_fit=len(answer) > self._points.few_bytes):
            answer = error_answer(self._request.id, self._points.answer_refusal(), "")
            self._asker.coming(len(answer), must_fit=False)
        self._points.on_loop(partial(self._answer_coming, answer))

    def _mutate(self, *, may_wait: bool, is_alone: bool) -> bool:
        points, request = self._points, self._request
        mutate = request.mutate
        if self._mutations is None:
            check_client_id(self._client_id)
            parts_max = None if may_wait else INLINE_PARTS_MAX
            try:
                self._mutations = row_mutations(mutate, self._client_id, self._sequence_floor, points.config, parts_max)
            except TooLongError:
                return False
        region = points.region(request.region_id)
        options = WriteOptions(self._deadline, durability(mutate.durability), is_alone)
        return region.mutate(self._mutations.read, options, self._done, may_wait=may_wait)

    def _done(self, outcomes: list[RowOutcome]) -> None:
        """Every change is published, or not made; called by the region from any thread, most often the log's."""
        if len(outcomes) > INLINE_ROWS_MAX:
            # The workers have stopped: so has the door, and nobody is there to be told. It must not reach the log's
            # thread, which would take it for a failed sync.
            with contextlib.suppress(RuntimeError):
                self._points.workers.points.submit(self._answer_many, outcomes)
        else:
            self._points.on_loop(partial(self._answer_outcomes, outcomes))

    def _answer_outcomes(self, outcomes: list[RowOutcome]) -> None:
        self._answer(self._mutate_answer(outcomes))

    def _answer_many(self, outcomes: list[RowOutcome]) -> None:
        self._points.on_loop(partial(self._answer, self._mutate_answer(outcomes)))

    def _mutate_answer(self, outcomes: list[RowOutcome]) -> bytes:
        """Raises nothing: the changes are made, and whoever published them must hear of no failure."""
        assert self._mutations is not None
        if self._mutations.refused:
            outcomes = self._mutations.outcomes_in_order(outcomes)
        return outcomes_answer(self._points, self._asker, self._request.id, outcomes)

    def _answer_coming(self, answer: bytes) -> None:
        self._asker.came(len(answer))
        self._answer(answer)

    def _answer(self, answer: bytes) -> None:
        """4 Answer, on the loop."""
        assert not self._is_answered, f"request {self._request.id} was answered twice"
        self._is_answered = True
        if self._timer is not None:
            self._timer.cancel()
        self._points.finished()
        if self._held_bytes:
            self._points.requests.give(self._held_bytes)
        self._asker.answered(answer)


def _rows_bytes(request: PointRequest) -> int:
    """What the rows of a request take beyond their own bytes, while it is made."""
    return ROW_COST * max(len(request.mutate.mutations), len(request.get.rows))


def outcomes_answer(points: Points, asker: Asker, request_id: int, outcomes: Sequence[RowOutcome]) -> bytes:
    """The answer of changes that were made, or an error when there is no room for it. Raises nothing."""
    try:
        if have_cells(outcomes) and (refusal := points.unread_refusal(asker)) is not None:
            return error_answer(request_id, _untold(refusal), "")
        answer = mutate_answer(request_id, outcomes)
        if len(answer) > points.few_bytes and not points.answers.has_room(ANSWER_COST * len(answer)):
            return error_answer(request_id, _untold(points.answer_refusal()), "")
        return answer
    except Exception as error:
        return error_answer(request_id, error, "answering a change")


def have_cells(outcomes: Sequence[RowOutcome]) -> bool:
    """Whether their answer may be large."""
    return any(isinstance(outcome, RowResult) and (outcome.results or outcome.seen) for outcome in outcomes)


def _untold(refusal: RegionTooBusyError) -> UnknownOutcomeError:
    """For a change whose answer has no room. Unlike the refusal it does not say that nothing was changed."""
    return UnknownOutcomeError(
        f"the request was carried out, and what came of it is not told: {refusal.message}; the same request, with its "
        "number, is answered as this one would have been"
    )


def _too_late() -> DeadlineError:
    return DeadlineError("the deadline passed while the request waited for a worker; nothing was changed, try again")
