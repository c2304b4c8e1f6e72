"""Changes: executed on the loop or by a worker, and answered when they are published."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rowlock_regionserver.engine.interfaces import ChangeRequest, Responder
from rowlock_regionserver.engine.point_run import INLINE_PARTS_MAX, INLINE_ROWS_MAX, PointRun
from rowlock_regionserver.errors import RegionTooBusyError, UnknownOutcomeError
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.operations import RowMutation, RowOutcome, RowResult, WriteOptions

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points


class ChangeRun(PointRun[ChangeRequest]):
    """An accepted change, until it is answered."""

    __slots__ = ()

    def try_inline(self, *, is_alone: bool) -> bool:
        """2 Try, on the loop. Returns False, with nothing done, if it would have to wait or is large."""
        try:
            mutations = self._request.read(INLINE_ROWS_MAX, INLINE_PARTS_MAX)
            return mutations is not None and self._mutate(mutations, may_wait=False, is_alone=is_alone)
        except Exception as error:
            self._answer(self._request.failure(error, "executing a point request"))
            return True

    def _execute(self) -> None:
        try:
            mutations = self._request.read()
            assert mutations is not None
            is_made = self._mutate(mutations, may_wait=True, is_alone=False)
            assert is_made
        except Exception as error:
            self._answer_from_worker(self._request.failure(error, "executing a point request"))

    def _mutate(self, mutations: Sequence[RowMutation], *, may_wait: bool, is_alone: bool) -> bool:
        region = self._points.region(self._request.region_id)
        options = WriteOptions(self._deadline, self._request.durability(), is_alone)
        return region.mutate(mutations, options, self._done, may_wait=may_wait)

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
    points: Points, responder: Responder, request: ChangeRequest, outcomes: Sequence[RowOutcome]
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


def have_cells(outcomes: Sequence[RowOutcome]) -> bool:
    """Whether their answer has cells, and so may be large."""
    return any(isinstance(outcome, RowResult) and (outcome.results or outcome.seen) for outcome in outcomes)


def _unanswered(refusal: RegionTooBusyError) -> UnknownOutcomeError:
    """The error for a change without memory for its answer. Unlike the refusal it does not say that nothing changed."""
    return UnknownOutcomeError(
        f"the request was executed, but its answer could not be sent: {refusal.message}; a repetition with the same "
        "request id gets that answer"
    )
