"""Begins the requests of one PointRequests message in order, in slices, so that no caller occupies the event loop.

Adjacent puts and increments are coalesced (engine/coalesced_changes.py). A request is answered through the responder,
perhaps before it has begun to run, perhaps much later.
"""

from __future__ import annotations

from collections.abc import Callable

from rowlock_proto.v1.region_pb2 import PointRequests

from rowlock_regionserver.engine.coalesced_changes import CoalescedChanges
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.rpc.messages.mutations import CLIENT_ID_BYTES
from rowlock_regionserver.rpc.messages.point_requests import (
    PointCall,
    PointChange,
    PointGet,
    PointPutRows,
    PointScan,
    plain_changes_answer,
)


def begin_single(points: Points, message: PointRequests, responder: Responder, *, is_large: bool = False) -> None:
    """Begins the request of a message that has exactly one."""
    request = message.requests[0]
    if request.HasField("mutate"):
        change = PointChange(request, message.client_id, message.sequence_floor, points.config)
        points.change(change, responder, is_large=is_large, is_single=True)
    elif request.HasField("get"):
        points.get(PointGet(request, points.config), responder, is_large=is_large)
    elif request.HasField("put_rows"):
        puts = PointPutRows(request, message.client_id, message.sequence_floor, points.config)
        points.put_rows(puts, responder, is_large=is_large)
    elif request.HasField("open_scan"):
        points.open_scan(PointScan(request, points.config), responder, is_large=is_large)
    elif request.HasField("call"):
        call = PointCall(request, message.client_id, message.sequence_floor)
        points.call(call, responder, is_large=is_large)
    else:  # It has no operation that this server knows.
        unknown = PointChange(request, message.client_id, message.sequence_floor, points.config)
        points.change(unknown, responder, is_large=is_large, is_single=True)


class MessageRun:
    """The requests of one message. Used on the event loop."""

    def __init__(self, points: Points, message: PointRequests, responder: Responder, *, is_large: bool = False) -> None:
        self._points = points
        self._responder = responder
        self._is_large = is_large
        self._client_id, self._sequence_floor = message.client_id, message.sequence_floor
        self._may_join = not is_large and len(message.client_id) in (0, CLIENT_ID_BYTES)
        self._plain = CoalescedChanges(points, plain_changes_answer)
        self._pending = iter(message.requests)

    def advance(self, must_yield: Callable[[], bool]) -> bool:
        """Begins requests until `must_yield` returns True, at least one. Returns whether all have begun."""
        points, config, responder = self._points, self._points.config, self._responder
        plain, is_large = self._plain, self._is_large
        for request in self._pending:
            if request.HasField("mutate"):
                change = PointChange(request, self._client_id, self._sequence_floor, config)
                if not self._may_join or not plain.join(change, responder):
                    plain.make()
                    points.change(change, responder, is_large=is_large)
            elif request.HasField("get"):
                plain.make()
                points.get(PointGet(request, config), responder, is_large=is_large)
            elif request.HasField("put_rows"):
                plain.make()
                of_rows = PointPutRows(request, self._client_id, self._sequence_floor, config)
                points.put_rows(of_rows, responder, is_large=is_large)
            elif request.HasField("open_scan"):
                plain.make()
                points.open_scan(PointScan(request, config), responder, is_large=is_large)
            elif request.HasField("call"):
                plain.make()
                points.call(PointCall(request, self._client_id, self._sequence_floor), responder, is_large=is_large)
            else:  # It has no operation that this server knows.
                plain.make()
                unknown = PointChange(request, self._client_id, self._sequence_floor, config)
                points.change(unknown, responder, is_large=is_large)
            if must_yield():
                plain.make()
                return False
        plain.make()
        return True

    def drop(self) -> None:
        """Drops the requests that have not begun, because the client is gone. They count as answered."""
        for _ in self._pending:
            self._responder.send(b"")
