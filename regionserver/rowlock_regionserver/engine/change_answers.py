"""The answers of changes: encoded and sent when every change of the request is published or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowlock_regionserver.engine.interfaces import CallRequest, ChangeRequest, PutRowsRequest, Responder
from rowlock_regionserver.engine.point_run import INLINE_ROWS_MAX, PointRun
from rowlock_regionserver.errors import RegionTooBusyError, UnknownOutcomeError
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.operations import RowOutcome, RowResult

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points

C = TypeVar("C", ChangeRequest, PutRowsRequest, CallRequest)


class ChangeAnswers(PointRun[C]):
    """An accepted request that changes rows; subclasses execute it."""

    __slots__ = ()

    def _done(self, outcomes: list[RowOutcome]) -> None:
        """Called by the region when every change is published or refused; from any thread, mostly the log's."""
        points = self._points
        if len(outcomes) > INLINE_ROWS_MAX:
            # RuntimeError: the workers have stopped, so has the listener, and the caller is gone. The error must not
            # reach the log thread, which would take it for a failed sync.
            with contextlib.suppress(RuntimeError):
                points.workers.points.submit(self._answer_many, outcomes)
        else:
            points.on_loop(partial(self._answer_outcomes, outcomes))

    def _answer_outcomes(self, outcomes: list[RowOutcome]) -> None:
        self._answer(outcomes_answer(self._points, self._responder, self._request, outcomes))

    def _answer_many(self, outcomes: list[RowOutcome]) -> None:
        answer = outcomes_answer(self._points, self._responder, self._request, outcomes)
        self._points.on_loop(partial(self._answer, answer))


def outcomes_answer(
    points: Points,
    responder: Responder,
    request: ChangeRequest | PutRowsRequest | CallRequest,
    outcomes: Sequence[RowOutcome],
) -> bytes:
    """Encodes the answer of changes that were made, or an error when there is no memory for it.

    Raises nothing: the changes are made, and the thread that published them must not fail.
    """
    try:
        if have_cells(outcomes) and (refusal := points.unread_refusal(responder)) is not None:
            return request.failure(_unanswered(refusal), "")
        answer = request.answer(outcomes)
        if len(answer) > points.few_bytes and not points.answers.has_room(ANSWER_COST * len(answer)):
            return request.failure(_unanswered(points.answer_refusal()), "")
        return answer
    except Exception as error:
        return request.failure(error, "answering a change")


def have_few_bytes(outcomes: Sequence[RowOutcome], bytes_max: int) -> bool:
    """Whether their answer has only new cells, those of increments say, and of at most this many bytes."""
    byte_count = 0
    for outcome in outcomes:
        if isinstance(outcome, RowResult):
            if outcome.seen or outcome.answer:
                return False
            for family, qualifier, _, value in outcome.results:
                byte_count += len(family) + len(qualifier) + len(value)
    return byte_count <= bytes_max


def have_cells(outcomes: Sequence[RowOutcome]) -> bool:
    """Whether their answer has cells or what a procedure returned, and so may be large."""
    for outcome in outcomes:  # Not `any`, which would make a generator for each answer.
        if isinstance(outcome, RowResult) and (outcome.results or outcome.seen or outcome.answer):
            return True
    return False


def _unanswered(refusal: RegionTooBusyError) -> UnknownOutcomeError:
    """The error for a change without memory for its answer. Unlike the refusal it does not say that nothing changed."""
    return UnknownOutcomeError(
        f"the request was executed, but its answer could not be sent: {refusal.message}; a repetition with the same "
        "request id gets that answer"
    )
