"""The conversation with one server, without I/O: what waits to be sent, what is in flight, whose answer has come.

One long-lived stream carries all point operations to a server. Whatever callers have waiting when the stream can take
a message travels together in it: nobody waits for company, so a lone caller pays nothing, and under load messages
grow by themselves. Answers come in any order, by request id.

A request goes through: submitted → waiting → sent (in flight) → done. It is done when it is answered, when the stream
is lost, or when its caller abandons it; what is repeated after that is its caller's business (rules: retry.py). The
caller is woken exactly once, except when it abandoned.

Two drivers move the bytes: stream.py with threads, aio/stream.py with tasks. Neither this module nor its objects lock:
the threaded driver holds its lock around every call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2

from rowlock._core.sequences import Sequences
from rowlock.errors import LimitExceededError, RowlockError, ServerUnavailableError

# Enough to fill the link; more would only make those in front wait for those behind.
MESSAGE_BYTES_MAX = 1024 * 1024
IN_FLIGHT_MAX = 4096
_MANY_UNDER_WAY = 8
# Of a message, beside its requests: the client's id and the floor, with their tags.
_HEADER_BYTES_MAX = 29


class Request:
    """One point operation: its message, and what has become of it. It belongs to one caller and one attempt at a time.

    message: a PointRequests with exactly one request, so that the bytes of many, joined, are one message with all of
    them: protobuf merges concatenated messages.
    """

    __slots__ = ("answer", "failure", "id", "is_change", "message", "payload", "point", "row", "sent", "table", "wake")

    def __init__(self, table: str, row: bytes, message: region_pb2.PointRequests, is_change: bool) -> None:
        self.table = table
        self.row = row
        self.message = message
        self.point = message.requests[0]
        self.is_change = is_change
        self.id = 0
        self.payload = b""
        self.wake: Callable[[], object] = _nobody
        # Whether it may have reached the server.
        self.sent = False
        # One of the two is set when it is done.
        self.answer: region_pb2.PointAnswer | None = None
        self.failure: RowlockError | None = None

    def prepare(self, region_id: int, timeout_ms: int, wake: Callable[[], object]) -> None:
        """Makes it ready for an attempt; `wake` is called once, when it is done."""
        self.point.region_id = region_id
        self.point.timeout_ms = timeout_ms
        self.wake = wake
        self.sent = False
        self.answer = None
        self.failure = None

    def set_age(self, age_ms: int) -> None:
        """The next attempt says how long ago the change was first sent; 0: that it was not."""
        if age_ms:
            self.point.mutate.mutations[0].age_ms = age_ms

    def fail(self, failure: RowlockError) -> None:
        """It is done before it was sent."""
        self.sent = False
        self.answer = None
        self.failure = failure

    @property
    def is_in_doubt(self) -> bool:
        """It was sent, and the server has not answered it."""
        return self.sent and self.answer is None


def _nobody() -> None:
    raise AssertionError("a request was done before it was prepared")


@dataclass(frozen=True, slots=True)
class ConversationStatistics:
    """What one conversation holds now, and has done so far."""

    waiting: int
    in_flight: int
    messages_sent: int
    requests_sent: int
    answers_without_request: int


class Conversation:
    """Not thread-safe; see above."""

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
        self._waiting: deque[Request] = deque()
        self._in_flight: dict[int, Request] = {}
        self._next_id = 1
        self._header_bytes = b""
        self._header_floor = -1
        self._messages_sent = 0
        self._requests_sent = 0
        self._answers_without_request = 0

    def submit(self, request: Request) -> None:
        """Puts a prepared request into the line."""
        request.id = request.point.id = self._next_id
        self._next_id += 1
        request.payload = request.message.SerializeToString()
        self._waiting.append(request)

    @property
    def can_send(self) -> bool:
        """Whether `next_message` would give one."""
        return bool(self._waiting) and len(self._in_flight) < self._in_flight_max

    @property
    def is_busy(self) -> bool:
        """Whether many are under way."""
        return len(self._in_flight) + len(self._waiting) >= _MANY_UNDER_WAY

    @property
    def is_worth_waiting(self) -> bool:
        """Whether many are in flight and few wait: then more are about to come, and should travel together.

        Without it 64 threads may settle into messages of one or two requests, each of which costs both sides as much
        as one of twenty. A lone caller is never made to wait.
        """
        in_flight = len(self._in_flight)
        return in_flight >= _MANY_UNDER_WAY and 4 * len(self._waiting) < in_flight

    def next_message(self) -> bytes | None:
        """The next PointRequests, serialized: as many waiting requests as fit, at least one. None: nothing to send."""
        waiting, in_flight = self._waiting, self._in_flight
        if not waiting or len(in_flight) >= self._in_flight_max:
            return None
        parts = [self._header()]
        byte_count = len(parts[0])
        while True:
            request = waiting.popleft()
            request.sent = True
            in_flight[request.id] = request
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
        """What a message tells beside its requests; made anew only when the floor has moved."""
        floor = self._sequences.floor()
        if floor != self._header_floor:
            self._header_floor = floor
            header = region_pb2.PointRequests(client_id=self._sequences.client_id, sequence_floor=floor)
            self._header_bytes = header.SerializeToString()
        return self._header_bytes

    def answered(self, answers: Iterable[region_pb2.PointAnswer]) -> None:
        """Hands answers to those who wait for them. Late ones, of abandoned requests, are dropped."""
        for answer in answers:
            request = self._in_flight.pop(answer.id, None)
            if request is None:
                self._answers_without_request += 1
                continue
            request.answer = answer
            request.wake()

    def lost(self, failure: RowlockError) -> None:
        """The stream ended: everybody is woken with the failure; `sent` says who is left in doubt.

        A message beyond the limit ends the stream for all. That is the failure of the request which is so large, and
        a lost connection for the others, who try again.
        """
        requests = [*self._in_flight.values(), *self._waiting]
        others = failure
        too_large: Request | None = None
        if isinstance(failure, LimitExceededError):
            others = ServerUnavailableError("the conversation ended because of another request, which was too large")
            too_large = self._too_large(failure.limit_value or self._message_bytes_max)
        self._in_flight.clear()
        self._waiting.clear()
        for request in requests:
            request.failure = failure if request is too_large else others
            request.wake()

    def _too_large(self, byte_count: int) -> Request | None:
        """The largest request in flight, if a message with it alone is larger than this."""
        largest = max(self._in_flight.values(), key=lambda request: len(request.payload), default=None)
        return largest if largest is not None and len(largest.payload) + _HEADER_BYTES_MAX > byte_count else None

    def abandon(self, request: Request) -> None:
        """Its caller gives up and is not woken any more. O(1) once sent, else O(waiting)."""
        if request.sent:
            self._in_flight.pop(request.id, None)
        elif request in self._waiting:
            self._waiting.remove(request)

    def statistics(self) -> ConversationStatistics:
        return ConversationStatistics(
            waiting=len(self._waiting),
            in_flight=len(self._in_flight),
            messages_sent=self._messages_sent,
            requests_sent=self._requests_sent,
            answers_without_request=self._answers_without_request,
        )

    def _check(self) -> None:
        assert len(self._in_flight) <= self._in_flight_max, "more requests are in flight than allowed"
        for request_id, request in self._in_flight.items():
            assert request.id == request.point.id == request_id, f"{request_id} is not the id of its request"
            assert request.sent, f"request {request_id} is in flight and was never sent"
        assert not any(request.sent for request in self._waiting), "a request that was sent waits to be sent"
