"""The long-lived point stream: requests in, answers out in any order, many of each in one message.

1. The requests of a message begin in its order, adjacent puts together (engine/coalesced_puts.py). Those that need not
   wait are answered before the next message is read, in one message unless they take long.
2. Answers that are ready later go to the outbox, and are sent together with all others that are ready by then.
3. While a client has too many unread answers, the stream is not read, and no more requests of the current message
   begin. Requests that workers already have are refused, see Points.unread_refusal.
4. No stream occupies the event loop for longer than a few milliseconds.
5. When the client has sent its last message, or the server stops, requests that have begun are answered before the
   stream ends. When the client disconnects, the other requests never begin, and answers are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rowlock_proto.v1.region_pb2 import PointRequests

from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.engine.coalesced_puts import CoalescedPuts
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.rpc.grpc.outbox import Outbox
from rowlock_regionserver.rpc.messages.answers import error_answer
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.mutations import CLIENT_ID_BYTES
from rowlock_regionserver.rpc.messages.point_requests import PointChange, PointGet, put_requests_answer
from rowlock_regionserver.rpc.messages.request_ids import request_ids

# A larger message is parsed, converted and executed by workers, and the memory for that is counted.
INLINE_MESSAGE_BYTES_MAX = 256 * KIB
# Answers are joined up to this size; a larger one is a message of its own.
ANSWER_MESSAGE_BYTES_MAX = 1 * MIB
# The longest time between two yields to the event loop: a yield costs little in comparison, and callers hardly notice.
_LOOP_HELD_SECONDS_MAX = 0.003


class Conversation:
    """One stream, and the responder of its requests. Used on the event loop, except where Responder says otherwise."""

    def __init__(self, points: Points, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._points = points
        message_bytes_max = min(points.config.request_bytes_max, ANSWER_MESSAGE_BYTES_MAX)
        self._outbox = Outbox(write, message_bytes_max, points.answers)
        self._open_count = 0
        self._is_taking = False
        self._all_answered = asyncio.Event()
        self.is_gone = False
        self.is_reading = False  # set by the reader: it waits for a message, so ending the stream loses no request

    async def take(self, data: bytes) -> None:
        """Begins the requests of a PointRequests message, and sends the answers that are ready at once.

        Waits while the client does not read its answers. Raises InvalidRequestError for bytes that are no such message.
        """
        if len(data) > INLINE_MESSAGE_BYTES_MAX:
            await self._take_large(data)
        else:
            message = parsed(PointRequests, data)
            await self._begin_all(message, self, is_large=False)
        await self._outbox.flush()
        if self._is_outbox_full():
            await self._outbox.written()

    def _is_outbox_full(self) -> bool:
        """Whether the client has more unread answers than a stream may have."""
        return self._outbox.unread_bytes > self._points.unread_bytes_max

    async def _take_large(self, data: bytes) -> None:
        points = self._points
        loop = asyncio.get_running_loop()
        byte_count = REQUEST_COST * len(data)
        try:
            points.requests.take(byte_count)
        except RegionServerError as refusal:
            # Only the ids of its requests are read, to answer each with the refusal.
            ids = await loop.run_in_executor(points.workers.points, request_ids, data)
            self._open_count += len(ids)
            for request_id in ids:
                self.send(error_answer(request_id, refusal, "accepting a request"))
            return
        responder = LargeMessageResponder(self, points.requests, byte_count)
        try:
            message = await loop.run_in_executor(points.workers.points, parsed, PointRequests, data)
            del data
            responder.set_request_count(len(message.requests))
        except BaseException:
            responder.set_request_count(0)
            raise
        await self._begin_all(message, responder, is_large=True)

    async def _begin_all(self, message: PointRequests, responder: Responder, *, is_large: bool) -> None:
        points, requests = self._points, message.requests
        self._open_count += len(requests)
        self._is_taking = True
        if len(requests) != 1:
            await self._begin_several(message, responder, is_large=is_large)
        elif (request := requests[0]).HasField("get"):
            points.get(PointGet(request, points.config), responder, is_large=is_large)
        else:
            change = PointChange(request, message.client_id, message.sequence_floor, points.config)
            points.change(change, responder, is_large=is_large, is_single=True)
        self._is_taking = False

    async def _begin_several(self, message: PointRequests, responder: Responder, *, is_large: bool) -> None:
        points, config = self._points, self._points.config
        client_id, sequence_floor = message.client_id, message.sequence_floor
        may_join = not is_large and len(client_id) in (0, CLIENT_ID_BYTES)
        puts = CoalescedPuts(points, responder, put_requests_answer)
        monotonic = points.clock.monotonic
        since = monotonic()
        pending = iter(message.requests)
        try:
            for request in pending:
                if request.HasField("get"):
                    puts.make()
                    points.get(PointGet(request, config), responder, is_large=is_large)
                else:
                    change = PointChange(request, client_id, sequence_floor, config)
                    if not may_join or not puts.join(change):
                        puts.make()
                        points.change(change, responder, is_large=is_large)
                if monotonic() - since > _LOOP_HELD_SECONDS_MAX or self._is_outbox_full():
                    puts.make()
                    self._is_taking = False
                    self._outbox.flush_soon()
                    await asyncio.sleep(0)
                    if self._is_outbox_full():
                        await self._outbox.written()
                    self._is_taking = True
                    since = monotonic()
            puts.make()
        except BaseException:
            # The client is gone. The pending requests never begin, but count as answered, so that the responder
            # releases its bytes.
            self._is_taking = False
            for _ in pending:
                responder.send(b"")
            raise

    @property
    def unread_bytes(self) -> int:
        return self._outbox.unread_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        return self._outbox.reserve(byte_count, must_fit=must_fit)

    def release(self, byte_count: int) -> None:
        self._outbox.release(byte_count)

    def send(self, answer: bytes, count: int = 1) -> None:
        """Puts answers into the outbox. Those that arrive while a message is being taken are sent together."""
        self._open_count -= count
        self._outbox.add(answer)
        if not self._is_taking:
            self._outbox.flush_soon()
        if not self._open_count:
            self._all_answered.set()

    async def all_answered(self) -> None:
        """Waits until every begun request is answered and the answers are written, or the client is gone."""
        while self._open_count:
            self._all_answered.clear()
            await self._all_answered.wait()
        await self._outbox.written()

    def leave(self) -> None:
        """Ends the conversation of a client that is gone: begins no more requests, and drops all answers."""
        self.is_gone = True
        self._outbox.close()


class LargeMessageResponder:
    """The responder of a large message's requests. It releases the message's bytes when all are answered."""

    def __init__(self, conversation: Conversation, account: Account, byte_count: int) -> None:
        """`byte_count` was reserved in the account. `set_request_count` must follow."""
        self._conversation = conversation
        self._account = account
        self._byte_count = byte_count
        self._unanswered_count = 0

    def set_request_count(self, request_count: int) -> None:
        """Sets how many requests the message has."""
        self._unanswered_count = request_count
        if not request_count:
            self._account.give(self._byte_count)

    @property
    def is_gone(self) -> bool:
        return self._conversation.is_gone

    @property
    def unread_bytes(self) -> int:
        return self._conversation.unread_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        return self._conversation.reserve(byte_count, must_fit=must_fit)

    def release(self, byte_count: int) -> None:
        self._conversation.release(byte_count)

    def send(self, answer: bytes, count: int = 1) -> None:
        self._unanswered_count -= count
        if not self._unanswered_count:
            self._account.give(self._byte_count)
        self._conversation.send(answer, count)
