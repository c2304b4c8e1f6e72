"""Coalesced changes: adjacent plain changes of one message, made by one call of the region and answered together.

A plain change is one row's, and has a few puts and increments and no condition. Those of a batch share the gate, the
calls of region and log, and the message of the answer. Each is still a change of its own, with its row lock, write
number, log record, request id and outcome. One without neighbours is made like any other change (Points.change). So is
each of a batch if one of them would have to wait, if the region refuses the batch as a whole, or if too many requests
are in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.engine.change_answers import have_cells, outcomes_answer
from rowlock_regionserver.engine.interfaces import ChangeRequest, Responder
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import RowMutation, RowOutcome, WriteOptions

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points

C = TypeVar("C", bound=ChangeRequest)

# With more, all callers run in lockstep: while their answers are sent, no caller sends a request.
COALESCED_CHANGES_MAX = 16


class CoalescedChanges(Generic[C]):
    """Gathers adjacent plain changes of one region and durability. Used on the event loop.

    The caller of `join` calls `make` before it begins another request or yields to the loop.
    """

    def __init__(
        self,
        points: Points,
        responder: Responder,
        encode: Callable[[Sequence[C], Sequence[RowOutcome]], bytes | None],
    ) -> None:
        """`encode` makes one answer for several changes, given their outcomes, or returns None. It raises nothing."""
        self._points = points
        self._responder = responder
        self._encode = encode
        # The current batch, and the common properties of its changes.
        self._requests: list[C] = []
        self._mutations: list[RowMutation] = []
        self._region_id = 0
        self._durability: Durability | None = None

    def join(self, request: C) -> bool:
        """Adds the request to the batch if it is a plain change; first makes the batch if it can't be added to it."""
        mutation = request.plain_change()
        if mutation is None:
            return False
        region_id, durability = request.region_id, request.durability()
        if (
            region_id != self._region_id
            or durability is not self._durability
            or len(self._requests) == COALESCED_CHANGES_MAX
        ):
            self.make()
            self._region_id, self._durability = region_id, durability
        self._requests.append(request)
        self._mutations.append(mutation)
        return True

    def make(self) -> None:
        """Makes the changes of the batch. Each is answered once."""
        requests, mutations = self._requests, self._mutations
        self._requests, self._mutations = [], []
        if len(requests) < 2 or not self._make_together(requests, mutations):
            for request in requests:
                self._points.change(request, self._responder)

    def _make_together(self, requests: Sequence[C], mutations: Sequence[RowMutation]) -> bool:
        """Returns False if nothing was done."""
        points, count = self._points, len(requests)
        if not points.reserve(count):
            return False
        try:
            began = points.clock.monotonic()
            done = partial(self._done, began, requests)
            options = WriteOptions(began, self._durability)
            is_made = points.region(self._region_id).mutate_each(mutations, options, done)
        except RegionServerError:  # Nothing was changed. Alone, each succeeds or gets its own error.
            is_made = False
        except Exception as error:
            # A bug, or too little memory: some may have been made.
            points.finished(count)
            for request in requests:
                self._responder.send(request.failure(error, "executing a point request"))
            return True
        if is_made:
            points.accepted(count)
        else:
            points.finished(count)
        return is_made

    def _done(
        self, began: float, requests: Sequence[C], indices: Sequence[int], outcomes: Sequence[RowOutcome]
    ) -> None:
        """Called by the region when these changes are published or refused; from any thread, mostly the log's."""
        self._points.on_loop(partial(self._answer, began, [requests[i] for i in indices], outcomes))

    def _answer(self, began: float, requests: Sequence[C], outcomes: Sequence[RowOutcome]) -> None:
        """4 Answer, on the loop. Raises nothing: the changes are made."""
        points, responder = self._points, self._responder
        points.finished(len(requests))
        # A repeated request id is answered with the cells of its first change, which may be many.
        answer = None if have_cells(outcomes) else self._encode(requests, outcomes)
        if answer is not None:
            responder.send(answer, len(requests))
        else:
            for request, outcome in zip(requests, outcomes, strict=True):
                responder.send(outcomes_answer(points, responder, request, [outcome]))
        if points.slow_calls.is_slow(began):
            points.slow_calls.log(began, "changes", requests[0].region_id, len(requests))
