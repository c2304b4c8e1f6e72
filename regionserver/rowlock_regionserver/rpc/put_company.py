"""Plain puts that came in one message, made together: one call of the region, one hop from the log, one answer message.

Most of what a put costs is not its own: the gate, row locks, limits, and the way of its answer to the event loop. Puts
in company pay that once. They stay changes of their own all the same, each atomic and with a number, a log record and
an outcome; only when one of them would have to wait, or the region refuses them together, is each made alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rowlock_proto.v1.region_pb2 import PointRequest

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import RowMutation, RowOutcome, WriteOptions
from rowlock_regionserver.rpc.answers import error_answer, put_answers
from rowlock_regionserver.rpc.changes import CLIENT_ID_BYTES, plain_puts
from rowlock_regionserver.rpc.enums import durability
from rowlock_regionserver.rpc.point_run import Asker, have_cells, outcomes_answer

if TYPE_CHECKING:
    from rowlock_regionserver.rpc.points import Points

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
        self._requests: list[PointRequest] = []
        self._mutations: list[RowMutation] = []
        self._kind = (0, 0)  # region and durability of those that have joined

    def join(self, request: PointRequest) -> bool:
        """Takes the request if it is a plain put; makes those that joined before if it can't be made with them."""
        if not self._is_open or not request.HasField("mutate"):
            return False
        mutate = request.mutate
        mutation = plain_puts(mutate, self._client_id, self._sequence_floor)
        if mutation is None:
            return False
        kind = request.region_id, mutate.durability
        if kind != self._kind or len(self._requests) == COMPANY_MAX:
            self.make()
            self._kind = kind
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
        if not points.accept_company(count):
            return False
        region_id, asked = self._kind
        done = partial(self._done, requests)
        try:
            options = WriteOptions(points.clock.monotonic(), durability(asked))
            is_made = points.region(region_id).mutate(mutations, options, done, may_wait=False)
        except RegionServerError:  # Nothing was changed. Alone each hears what is wrong, or there is room for it.
            is_made = False
        except Exception as error:
            points.finished(count)
            for request in requests:
                self._asker.answered(error_answer(request.id, error, "making a point request"))
            return True
        if not is_made:
            points.send_away(count)
        return is_made

    def _done(self, requests: Sequence[PointRequest], outcomes: list[RowOutcome]) -> None:
        """Every put is published, or not made; called by the region from any thread, most often the log's."""
        self._points.on_loop(partial(self._answer_outcomes, requests, outcomes))

    def _answer_outcomes(self, requests: Sequence[PointRequest], outcomes: list[RowOutcome]) -> None:
        points, asker, count = self._points, self._asker, len(requests)
        points.finished(count)
        if not have_cells(outcomes):
            asker.answered(put_answers([request.id for request in requests], outcomes), count)
            return
        # Answers of requests that were sent before and were other changes then: each may be large.
        for request, outcome in zip(requests, outcomes, strict=True):
            asker.answered(outcomes_answer(points, asker, request.id, [outcome]))
