"""Plain puts that came beside each other in one message: made by one call of the region, and answered together.

Much of what a put costs is not its own: the gate, the ways to the region, the log and back, a message for the answer.
Puts in company share that. They stay changes of their own all the same, each with its row lock, number, log record,
request id and outcome. One that is by itself goes the way of all other requests (Points.accept), and so does each of
those of which one would have to wait, which the region refuses as a whole, or which are too many to be in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rowlock_proto.v1.region_pb2 import PointRequest

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import RowMutation, RowOutcome, WriteOptions
from rowlock_regionserver.rpc.messages.answers import error_answer, put_answers
from rowlock_regionserver.rpc.messages.changes import CLIENT_ID_BYTES, plain_puts
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.services.point_run import Asker, have_cells, outcomes_answer

if TYPE_CHECKING:
    from rowlock_regionserver.rpc.services.points import Points

# With more, the puts of all callers go in step: while their answers are on the way, nobody asks for anything.
COMPANY_MAX = 16


class PutCompany:
    """Gathers the puts of one message, neighbours of one region and durability. Used on the event loop.

    Whoever calls `join` calls `make` before it begins anything else, or gives the loop away.
    """

    def __init__(
        self,
        points: Points,
        client_id: bytes,
        sequence_floor: int,
        asker: Asker,
        accept_alone: Callable[[PointRequest], None],
    ) -> None:
        self._points = points
        self._client_id = client_id
        self._sequence_floor = sequence_floor
        self._asker = asker
        self._accept_alone = accept_alone
        self._is_open = not client_id or len(client_id) == CLIENT_ID_BYTES
        # Those that have joined, and what they have in common.
        self._requests: list[PointRequest] = []
        self._mutations: list[RowMutation] = []
        self._region_id = 0
        self._durability = 0

    def join(self, request: PointRequest) -> bool:
        """Takes the request if it is a plain put; makes those that joined before if it can't be made with them."""
        if not self._is_open or not request.HasField("mutate"):
            return False
        mutate = request.mutate
        mutation = plain_puts(mutate, self._client_id, self._sequence_floor, self._points.config)
        if mutation is None:
            return False
        region_id, asked = request.region_id, mutate.durability
        if region_id != self._region_id or asked != self._durability or len(self._requests) == COMPANY_MAX:
            self.make()
            self._region_id, self._durability = region_id, asked
        self._requests.append(request)
        self._mutations.append(mutation)
        return True

    def make(self) -> None:
        """Sees to it that each put that has joined is answered once."""
        requests, mutations = self._requests, self._mutations
        self._requests, self._mutations = [], []
        if len(requests) < 2 or not self._make_together(requests, mutations):
            for request in requests:
                self._accept_alone(request)

    def _make_together(self, requests: Sequence[PointRequest], mutations: Sequence[RowMutation]) -> bool:
        """False: nothing was done."""
        points, count = self._points, len(requests)
        if not points.reserve(count):
            return False
        try:
            options = WriteOptions(points.clock.monotonic(), durability(self._durability))
            is_made = points.region(self._region_id).mutate_each(mutations, options, partial(self._done, requests))
        except RegionServerError:  # Nothing was changed. Alone each hears what is wrong, or there is room for it.
            is_made = False
        except Exception as error:
            # A bug, or too little memory: some of them may have been made.
            points.finished(count)
            for request in requests:
                self._asker.answered(error_answer(request.id, error, "making a point request"))
            return True
        if is_made:
            points.accepted(count)
        else:
            points.finished(count)
        return is_made

    def _done(self, requests: Sequence[PointRequest], places: Sequence[int], outcomes: Sequence[RowOutcome]) -> None:
        """These puts are published, or not made; called by the region from any thread, most often the log's."""
        self._points.on_loop(partial(self._answer, [requests[place].id for place in places], outcomes))

    def _answer(self, request_ids: Sequence[int], outcomes: Sequence[RowOutcome]) -> None:
        """4 Answer, on the loop. Raises nothing: the changes are made."""
        points, asker = self._points, self._asker
        points.finished(len(request_ids))
        # A request that was sent before, as another change, is answered with the cells of that one: perhaps many.
        answer = None if have_cells(outcomes) else put_answers(request_ids, outcomes)
        if answer is not None:
            asker.answered(answer, len(request_ids))
            return
        for request_id, outcome in zip(request_ids, outcomes, strict=True):
            asker.answered(outcomes_answer(points, asker, request_id, [outcome]))
