"""Calls of row procedures: executed by a worker of their own pool, and answered when they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock_regionserver.engine.change_answers import ChangeAnswers
from rowlock_regionserver.engine.interfaces import CallRequest, Responder
from rowlock_regionserver.operations import WriteOptions
from rowlock_regionserver.procedures.runner import Runner

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points


class CallRun(ChangeAnswers[CallRequest]):
    """An accepted call of a procedure, until it is answered."""

    NAME = "call of a procedure"

    __slots__ = ("_runner",)

    def __init__(self, points: Points, request: CallRequest, responder: Responder, runner: Runner) -> None:
        super().__init__(points, request, responder)
        self._runner = runner

    def _execute(self) -> None:
        try:
            call, durability = self._request.read()
            region = self._points.region(self._request.region_id)
            region.call(call, self._runner, WriteOptions(self._deadline, durability), self._done)
        except Exception as error:
            self._answer_from_worker(self._request.failure(error, "calling a procedure"))
