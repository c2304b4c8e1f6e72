"""Coalesced changes: plain changes that came together, made by one call of the region.

They are adjacent in one message, and are answered together; or each is alone in its message, and the messages of
several connections came at one moment (rpc/direct/turn.py).

A plain change is one row's, and has some puts and increments and no condition. Those of a batch share the gate, the
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
from rowlock_regionserver.engine.change_answers import have_few_bytes, outcomes_answer
from rowlock_regionserver.engine.interfaces import ChangeRequest, Responder
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import RowMutation, RowOutcome, WriteOptions

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points

C = TypeVar("C", bound=ChangeRequest)

# With more, all callers run in lockstep: while their answers are sent, no caller sends a request.
COALESCED_CHANGES_MAX = 16
# The puts and increments of all changes of a batch. To make sixteen puts of ten columns takes half a millisecond.
COALESCED_PARTS_MAX = 160
# Outcomes with more bytes of cells are answered one by one, each if there is memory for its answer.
_CELL_BYTES_MAX = 4096


class CoalescedChanges(Generic[C]):
    """Gathers plain changes of one region and durability. Used on the event loop.

    The caller of `join` calls `make` before it begins another request or yields to the loop.
    """

    def __init__(
        self,
        points: Points,
        encode: Callable[[Sequence[C], Sequence[RowOutcome]], bytes | None],
    ) -> None:
        """`encode` makes one answer for several changes, given their outcomes, or returns None. It raises nothing."""
        self._points = points
        self._encode = encode
        # The current batch, and the common properties of its changes.
        self._requests: list[C] = []
        self._responders: list[Responder] = []
        self._mutations: list[RowMutation] = []
        self._part_count = 0
        self._region_id = 0
        self._durability: Durability | None = None

    def join(self, request: C, responder: Responder) -> bool:
        """Adds the request to the batch if it is a plain change; first makes the batch if it can't be added to it."""
        mutation = request.plain_change()
        if mutation is None:
            return False
        region_id, durability, part_count = request.region_id, request.durability(), len(mutation.changes)
        if (
            region_id != self._region_id
            or durability is not self._durability
            or len(self._requests) == COALESCED_CHANGES_MAX
            or self._part_count + part_count > COALESCED_PARTS_MAX
        ):
            self.make()
            self._region_id, self._durability = region_id, durability
        self._part_count += part_count
        self._requests.append(request)
        self._responders.append(responder)
        self._mutations.append(mutation)
        return True

    def make(self) -> None:
        """Makes the changes of the batch. Each is answered once."""
        requests, responders, mutations = self._requests, self._responders, self._mutations
        if not requests:
            return
        self._requests, self._responders, self._mutations, self._part_count = [], [], [], 0
        if len(requests) < 2 or not self._make_together(requests, responders, mutations):
            for request, responder in zip(requests, responders, strict=True):
                self._points.change(request, responder)

    def _make_together(
        self, requests: Sequence[C], responders: Sequence[Responder], mutations: Sequence[RowMutation]
    ) -> bool:
        """Returns False if nothing was done."""
        points, count = self._points, len(requests)
        if not points.reserve(count):
            return False
        answered: list[int] = []
        try:
            began = points.clock.monotonic()
            done = partial(self._done, began, requests, responders, answered)
            options = WriteOptions(began, self._durability)
            is_made = points.region(self._region_id).mutate_each(mutations, options, done)
        except RegionServerError:  # Nothing was changed. Alone, each succeeds or gets its own error.
            is_made = False
        except Exception as error:
            # A bug, or too little memory: some may have been made. Nobody else answers these.
            left = [i for i in range(count) if i not in answered]
            points.finished(len(left))
            for i in left:
                responders[i].send(requests[i].failure(error, "executing a point request"))
            return True
        if is_made:
            points.accepted(count)
        else:
            points.finished(count)
        return is_made

    def _done(
        self,
        began: float,
        requests: Sequence[C],
        responders: Sequence[Responder],
        answered: list[int],
        indices: Sequence[int],
        outcomes: Sequence[RowOutcome],
    ) -> None:
        """Called by the region when these changes are published or refused; from any thread, mostly the log's.

        Adds their indices to `answered`.
        """
        if len(indices) < len(requests):
            requests, responders = [requests[i] for i in indices], [responders[i] for i in indices]
        self._points.on_loop(partial(self._answer, began, requests, responders, outcomes))
        answered += indices

    def _answer(
        self, began: float, requests: Sequence[C], responders: Sequence[Responder], outcomes: Sequence[RowOutcome]
    ) -> None:
        """4 Answer, on the loop. Raises nothing: the changes are made."""
        points, first, count = self._points, responders[0], len(requests)
        points.finished(count)
        # A repeated request id is answered with the cells of its first change, which may be many.
        bytes_max = min(_CELL_BYTES_MAX, points.few_bytes)
        is_one_answer = responders.count(first) == count and have_few_bytes(outcomes, bytes_max)
        answer = self._encode(requests, outcomes) if is_one_answer else None
        if answer is not None:
            first.send(answer, count)
        else:
            for request, responder, outcome in zip(requests, responders, outcomes, strict=True):
                responder.send(outcomes_answer(points, responder, request, [outcome]))
        if points.slow_calls.is_slow(began):
            points.slow_calls.log(began, "changes", requests[0].region_id, count)
