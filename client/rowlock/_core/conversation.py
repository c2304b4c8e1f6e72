"""The point stream to one server, without I/O: the queue of requests, the requests in flight, and their answers.

One long-lived stream carries all point operations to a server. When the stream can take a message, the message holds
all requests that wait at that moment. No request waits for others to share its message, so a single caller pays
nothing, and messages grow under load. Answers arrive in any order and carry the request's id.

The states of a request: submitted → waiting → sent (in flight) → done. It is done when it is answered, when the stream
is lost, or when its caller abandons it. The caller decides on retries (rules: retry.py). It is woken exactly once, or
never if it abandoned the request.

The bytes travel by gRPC (_transport/stream.py with threads, aio/_transport/stream.py with tasks), or over a direct
connection (direct.py beside them); each stream and each direct connection has a conversation of its own. This module
takes no locks: a threaded driver holds its lock around each call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2
from rowlock_proto.varints import varint

from rowlock._core.sequences import Sequences
from rowlock.errors import LimitExceededError, RowlockError, ServerUnavailableError

# Enough to fill the link. In a larger message the first requests would only wait for the last ones.
MESSAGE_BYTES_MAX = 1024 * 1024
IN_FLIGHT_MAX = 4096
# With this many under way, the next requests are sent together after the other callers had a chance to add theirs.
_SEVERAL_UNDER_WAY = 4
# With this many in flight, that chance is a short sleep.
_MANY_IN_FLIGHT = 8
# The part of a message before its requests: the client's id and the floor, with their tags.
HEADER_BYTES_MAX = 29
# Field 2, PointRequests.sequence_floor, a varint.
_FLOOR_TAG = b"\x10"


class Request:
    """One point operation: its message and its outcome. It belongs to one caller and one attempt at a time.

    message: a PointRequests with exactly one request. Protobuf merges concatenated messages, so the joined bytes of
    several requests are one message with all of them.
    """

    __slots__ = (
        "answer",
        "failure",
        "id",
        "is_change",
        "message",
        "payload",
        "point",
        "region_id",
        "row",
        "sent",
        "table",
        "timeout_ms",
        "wake",
    )

    def __init__(self, table: str, row: bytes, message: region_pb2.PointRequests, is_change: bool) -> None:
        self.table = table
        self.row = row
        self.message = message
        self.point = message.requests[0]
        self.is_change = is_change
        self.id = 0
        self.payload = b""
        self.wake: Callable[[], object] = _unprepared
        # Whether it may have reached the server.
        self.sent = False
        # When the request is done, one of the two is set.
        self.answer: region_pb2.PointAnswer | None = None
        self.failure: RowlockError | None = None

    def prepare(self, region_id: int, timeout_ms: int, wake: Callable[[], object]) -> None:
        """Prepares the request for an attempt. `wake` is called once, when the request is done."""
        self.region_id = region_id
        self.timeout_ms = timeout_ms
        self.wake = wake
        self.sent = False
        self.answer = None
        self.failure = None

    def encode(self, request_id: int) -> None:
        """Gives the request its id, and serializes it."""
        point = self.point
        self.id = point.id = request_id
        point.region_id = self.region_id
        point.timeout_ms = self.timeout_ms
        self.payload = self.message.SerializeToString()

    def set_age(self, age_ms: int) -> None:
        """Sets how long ago the change was first sent, for the next attempt; 0: it was not sent."""
        if age_ms:
            self._numbered().age_ms = age_ms

    def set_sequence(self, sequence: int) -> None:
        """Sets the number under which the server makes the change once."""
        self._numbered().sequence = sequence

    def _numbered(self) -> region_pb2.RowMutation | region_pb2.CallProcedure:
        point = self.point
        return point.call if point.HasField("call") else point.mutate.mutations[0]

    def fail(self, failure: RowlockError) -> None:
        """Ends the attempt with a failure, before the request is sent."""
        self.sent = False
        self.answer = None
        self.failure = failure

    @property
    def is_in_doubt(self) -> bool:
        """Whether the request was sent and not answered."""
        return self.sent and self.answer is None


def _unprepared() -> None:
    raise AssertionError("a request was done before it was prepared")


@dataclass(frozen=True, slots=True)
class ConversationStatistics:
    """The requests that a conversation holds now, and its counts since it was made."""

    waiting: int
    in_flight: int
    messages_sent: int
    requests_sent: int
    answers_without_request: int


class Conversation:
    """The requests of one point stream. Not thread-safe; see above."""

    def __init__(
        self,
        sequences: Sequences,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        self._sequences = sequences
        self._message_bytes_max = message_bytes_max
        self._in_flight_max = in_flight_max
        # Those that were submitted and not sent. Only this class changes it.
        self.waiting: deque[Request] = deque()
        self._in_flight: dict[int, Request] = {}
        self._next_id = 1
        # The header: the client's id, and the floor, which moves with each change of a single caller.
        self._client_bytes = region_pb2.PointRequests(client_id=sequences.client_id).SerializeToString()
        self._header_bytes = b""
        self._header_floor = -1
        # The requests of the newest message.
        self._newest: list[Request] = []
        self._messages_sent = 0
        self._requests_sent = 0
        self._answers_without_request = 0

    def submit(self, request: Request) -> None:
        """Gives a prepared request its id and appends it to the queue."""
        request.encode(self._next_id)
        self._next_id += 1
        self.waiting.append(request)

    @property
    def can_send(self) -> bool:
        """Whether `next_message` would return a message."""
        return bool(self.waiting) and len(self._in_flight) < self._in_flight_max

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or is in flight."""
        return not (self.waiting or self._in_flight)

    @property
    def is_busy(self) -> bool:
        """Whether several requests wait or are in flight."""
        return len(self._in_flight) + len(self.waiting) >= _SEVERAL_UNDER_WAY

    @property
    def is_worth_waiting(self) -> bool:
        """Whether the next message should wait a moment for more requests: many are in flight and few are queued.

        The callers of those in flight will soon send their next requests. Without the wait, 64 threads may settle into
        messages of one or two requests, and such a message costs both sides as much as one of twenty. It is False for a
        single caller.
        """
        in_flight = len(self._in_flight)
        return in_flight >= _MANY_IN_FLIGHT and 4 * len(self.waiting) < in_flight

    def next_message(self) -> bytes | None:
        """Returns the next PointRequests, serialized, with as many waiting requests as fit, or at least one.

        Returns None if no request waits or too many are in flight.
        """
        waiting, in_flight = self.waiting, self._in_flight
        if not waiting or len(in_flight) >= self._in_flight_max:
            return None
        if len(waiting) == 1:  # One caller waits for each answer: the hot path.
            request = waiting.popleft()
            request.sent = True
            in_flight[request.id] = request
            self._newest = [request]
            self._messages_sent += 1
            self._requests_sent += 1
            return self._header() + request.payload
        parts = [self._header()]
        byte_count = len(parts[0])
        newest = self._newest = []
        while True:
            request = waiting.popleft()
            request.sent = True
            in_flight[request.id] = request
            newest.append(request)
            parts.append(request.payload)
            byte_count += len(request.payload)
            if not waiting or len(in_flight) >= self._in_flight_max:
                break
            if byte_count + len(waiting[0].payload) > self._message_bytes_max:
                break
        self._messages_sent += 1
        self._requests_sent += len(parts) - 1
        return b"".join(parts)

    def _header(self) -> bytes:
        """Returns the client's id and the floor, serialized; cached until the floor moves."""
        floor = self._sequences.floor()
        if floor != self._header_floor:
            self._header_floor = floor
            self._header_bytes = self._client_bytes + _FLOOR_TAG + varint(floor)  # Half the time of a message.
        return self._header_bytes

    def answered(self, answers: Iterable[region_pb2.PointAnswer]) -> None:
        """Gives answers to their requests and wakes the callers. Drops answers to abandoned requests."""
        for answer in answers:
            request = self._in_flight.pop(answer.id, None)
            if request is None:
                self._answers_without_request += 1
                continue
            request.answer = answer
            request.wake()

    def newest_message_not_sent(self) -> None:
        """Records that the server can't have the newest message as a whole, so that its requests are not in doubt."""
        for request in self._newest:
            if self._in_flight.get(request.id) is request:
                request.sent = False

    def lost(self, failure: RowlockError) -> None:
        """Fails all requests and wakes their callers, because the stream ended. `sent` says which are in doubt.

        A message beyond the server's limit ends the stream for all its requests. The request that is too large fails
        with that error; for the others it is a lost connection, after which they are retried.
        """
        requests = [*self._in_flight.values(), *self.waiting]
        collateral = failure
        too_large: Request | None = None
        if isinstance(failure, LimitExceededError):
            collateral = ServerUnavailableError("the stream ended because another request on it was too large")
            too_large = self._too_large(failure.limit_value or self._message_bytes_max)
        self._in_flight.clear()
        self.waiting.clear()
        for request in requests:
            request.failure = failure if request is too_large else collateral
            request.wake()

    def _too_large(self, byte_count: int) -> Request | None:
        """Returns the largest request in flight, if a message with it alone exceeds byte_count; else None."""
        largest = max(self._in_flight.values(), key=lambda request: len(request.payload), default=None)
        return largest if largest is not None and len(largest.payload) + HEADER_BYTES_MAX > byte_count else None

    def abandon(self, request: Request) -> None:
        """Removes a request that its caller no longer waits for. O(1) if it is in flight, else O(waiting)."""
        if request.sent:
            self._in_flight.pop(request.id, None)
        elif request in self.waiting:
            self.waiting.remove(request)

    def newest(self) -> Request | None:
        """Returns the request that will probably be answered last; None if there is none. O(1)."""
        if self.waiting:
            return self.waiting[-1]
        return next(reversed(self._in_flight.values())) if self._in_flight else None

    def statistics(self) -> ConversationStatistics:
        return ConversationStatistics(
            waiting=len(self.waiting),
            in_flight=len(self._in_flight),
            messages_sent=self._messages_sent,
            requests_sent=self._requests_sent,
            answers_without_request=self._answers_without_request,
        )

    def _check(self) -> None:
        assert len(self._in_flight) <= self._in_flight_max, "more requests are in flight than allowed"
        for request_id, request in self._in_flight.items():
            assert request.id == request_id, f"{request_id} is not the id of its request"
            assert request.sent, f"request {request_id} is in flight and was never sent"
        assert not any(request.sent for request in self.waiting), "a request that was sent waits to be sent"
