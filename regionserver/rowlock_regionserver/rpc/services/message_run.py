"""Begins the requests of one PointRequests message in order, in slices, so that no caller occupies the event loop.

Adjacent puts and increments are coalesced (engine/coalesced_changes.py). A request is answered through the responder,
perhaps before it has begun to run, perhaps much later.

A parsed message takes many times its bytes. So while its requests wait for a client that reads no answers, only its
bytes are kept: it is set aside, and parsed again when the client has read on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint

from rowlock_proto.direct_frames import Body
from rowlock_proto.v1.region_pb2 import PointRequest, PointRequests

from rowlock_regionserver.engine.coalesced_changes import CoalescedChanges
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.memory_plan import PARSED_REQUEST_BYTES, REQUEST_COST
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.mutations import CLIENT_ID_BYTES
from rowlock_regionserver.rpc.messages.point_requests import (
    PointCall,
    PointChange,
    PointGet,
    PointPutRows,
    PointScan,
    plain_changes_answer,
)

# A get of one row has 9 bytes at least, and a change more.
_REQUEST_BYTES_MIN = 8
# A message with no more requests is not checked.
_UNCHECKED_REQUESTS_MAX = 100


def check_request_count(count: int, byte_count: int) -> None:
    """Raises InvalidRequestError if a message of `byte_count` bytes has so many requests that they can't be valid."""
    if count > _UNCHECKED_REQUESTS_MAX and byte_count < _REQUEST_BYTES_MIN * count:
        raise InvalidRequestError(
            f"the message has {count} requests in {byte_count} bytes, but a request with an operation has at least "
            f"{_REQUEST_BYTES_MIN}; send only requests that have one"
        )


def begin_single(points: Points, message: PointRequests, responder: Responder, *, is_large: bool = False) -> None:
    """Begins the request of a message that has exactly one."""
    request = message.requests[0]
    if request.HasField("mutate"):
        change = PointChange(request, message.client_id, message.sequence_floor, points.config)
        points.change(change, responder, is_large=is_large, is_single=True)
    elif request.HasField("get"):
        points.get(PointGet(request, points.config), responder, is_large=is_large)
    else:
        _begin_rare(points, request, message.client_id, message.sequence_floor, responder, is_large=is_large)


def _begin_rare(
    points: Points,
    request: PointRequest,
    client_id: bytes,
    sequence_floor: int,
    responder: Responder,
    *,
    is_large: bool,
) -> None:
    """Begins a request that is neither a change nor a get."""
    if request.HasField("put_rows"):
        puts = PointPutRows(request, client_id, sequence_floor, points.config)
        points.put_rows(puts, responder, is_large=is_large)
    elif request.HasField("open_scan"):
        points.open_scan(PointScan(request, points.config), responder, is_large=is_large)
    elif request.HasField("call"):
        points.call(PointCall(request, client_id, sequence_floor), responder, is_large=is_large)
    else:  # It has no operation that this server knows.
        unknown = PointChange(request, client_id, sequence_floor, points.config)
        points.change(unknown, responder, is_large=is_large)


class MessageRun:
    """The requests of one message. Used on the event loop."""

    def __init__(
        self,
        points: Points,
        responder: Responder,
        data: Body,
        message: PointRequests | None,
        *,
        is_large: bool = False,
    ) -> None:
        """data: the bytes of the message; empty if its memory is counted elsewhere. Then it is never set aside.

        message: the parsed message. None: it is set aside; `parse` must come before `advance`.
        """
        self._points = points
        self._responder = responder
        self._is_large = is_large
        self._data = data
        self._count = self._begun_count = 0
        self._plain = CoalescedChanges(points, plain_changes_answer)
        # The requests that have not begun; None: the message is set aside, and _begun_count of its requests have begun.
        self._pending: Iterator[PointRequest] | None = None
        if message is not None:
            self._set_message(message)
            self._pending = iter(message.requests)

    def _set_message(self, message: PointRequests) -> None:
        self._count = len(message.requests)
        self._client_id, self._sequence_floor = message.client_id, message.sequence_floor
        self._may_join = not self._is_large and len(self._client_id) in (0, CLIENT_ID_BYTES)

    @property
    def is_parsed(self) -> bool:
        """Whether `advance` may be called."""
        return self._pending is not None

    @property
    def data_bytes(self) -> int:
        """The size of the message."""
        return len(self._data)

    @property
    def byte_count(self) -> int:
        """The memory that the message takes now; 0 if it is counted elsewhere."""
        byte_count = len(self._data)
        if byte_count and self._pending is not None:
            return REQUEST_COST * byte_count + PARSED_REQUEST_BYTES * self._count
        return byte_count

    def set_aside(self) -> None:
        """Keeps only the bytes of the message."""
        if self._data and self._pending is not None:
            self._begun_count = self._count - length_hint(self._pending)
            self._pending = None

    def parse(self) -> int:
        """Parses the message if it is set aside. Returns how many requests it has if that was not known, else 0.

        Raises InvalidRequestError for bytes that are not such a message.
        """
        if self._pending is not None:
            return 0
        message = parsed(PointRequests, self._data)
        is_known = self._count > 0
        if not is_known:
            check_request_count(len(message.requests), len(self._data))
            self._set_message(message)
        self._pending = iter(message.requests)
        for _ in islice(self._pending, self._begun_count):
            pass
        return 0 if is_known else self._count

    def advance(self, must_yield: Callable[[], bool]) -> bool:
        """Begins requests until `must_yield` returns True, at least one. Returns whether all have begun."""
        points, config, responder = self._points, self._points.config, self._responder
        plain, is_large, pending = self._plain, self._is_large, self._pending
        assert pending is not None, "a message that is set aside is parsed first"
        # A request that waits for a worker keeps the whole message that it is part of. When that is parsed again and
        # again, only one may be kept.
        for request in map(_copy, pending) if self._begun_count else pending:
            if request.HasField("mutate"):
                change = PointChange(request, self._client_id, self._sequence_floor, config)
                if not self._may_join or not plain.join(change, responder):
                    plain.make()
                    points.change(change, responder, is_large=is_large)
            elif request.HasField("get"):
                plain.make()
                points.get(PointGet(request, config), responder, is_large=is_large)
            else:
                plain.make()
                _begin_rare(points, request, self._client_id, self._sequence_floor, responder, is_large=is_large)
            if must_yield():
                plain.make()
                return False
        plain.make()
        return True

    def drop(self) -> None:
        """Drops the requests that have not begun, because the client is gone. They count as answered."""
        left_count = self._count - self._begun_count if self._pending is None else length_hint(self._pending)
        self._pending = iter(())
        if left_count:
            self._responder.send(b"", left_count)


def _copy(request: PointRequest) -> PointRequest:
    return PointRequest.FromString(request.SerializeToString())
