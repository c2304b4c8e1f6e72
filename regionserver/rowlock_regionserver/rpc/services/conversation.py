"""The long-lived point stream: requests in, answers out in any order, many of each in one message.

1. The requests of a message begin in its order, adjacent plain changes together (engine/coalesced_changes.py).
   Those that need not wait are answered before the next message is read, in one message unless they take long.
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

from rowlock_regionserver.config import MIB
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.ledger import Holding
from rowlock_regionserver.rpc.grpc.outbox import Outbox
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX, parse_large
from rowlock_regionserver.rpc.services.message_run import MessageRun, begin_single, check_request_count

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

        Waits while the client does not read its answers. Raises InvalidRequestError for other bytes.
        """
        if len(data) > INLINE_MESSAGE_BYTES_MAX:
            run = await self._large_run(data)
            del data
        else:
            run = self._begun_alone(data)
        if run is not None:
            self._is_taking = True
            await self._begin_all(run)
            self._is_taking = False
        await self._outbox.flush()
        if self._is_outbox_full():
            await self._outbox.written()

    def _is_outbox_full(self) -> bool:
        """Whether the client has more unread answers than a stream may have."""
        return self._outbox.unread_bytes > self._points.unread_bytes_max

    async def _large_run(self, data: bytes) -> MessageRun | None:
        """Parses a large message; returns None if it was refused."""
        large = await parse_large(self._points, data, self)
        if large is None:
            return None
        message, responder = large
        return MessageRun(self._points, responder, b"", message, is_large=True)

    def _begun_alone(self, data: bytes) -> MessageRun | None:
        """Begins the request of a message that has only one, and returns None; else returns what begins them."""
        message = parsed(PointRequests, data)
        count = len(message.requests)
        if count == 1:
            self.opened(1)
            self._is_taking = True
            begin_single(self._points, message, self)
            self._is_taking = False
            return None
        check_request_count(count, len(data))
        self.opened(count)
        return MessageRun(self._points, self, data, message)

    async def _begin_all(self, run: MessageRun) -> None:
        monotonic = self._points.clock.monotonic
        since = monotonic()
        holding = Holding(self._points.requests)

        def must_yield() -> bool:
            return monotonic() - since > _LOOP_HELD_SECONDS_MAX or self._is_outbox_full()

        try:
            while not run.advance(must_yield):
                self._is_taking = False
                self._outbox.flush_soon()
                holding.set(run.byte_count)
                await asyncio.sleep(0)
                if self._is_outbox_full():
                    run.set_aside()
                    holding.set(run.byte_count)
                    await self._outbox.written()
                    run.parse()
                self._is_taking = True
                since = monotonic()
        except BaseException:
            # The client is gone.
            self._is_taking = False
            run.drop()
            raise
        finally:
            holding.set(0)

    def opened(self, count: int) -> None:
        """Counts this many requests, each of which `send` will answer."""
        self._open_count += count

    @property
    def unread_bytes(self) -> int:
        return self._outbox.unread_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        return self._outbox.answers.reserve(byte_count, must_fit=must_fit)

    def release(self, byte_count: int) -> None:
        self._outbox.answers.release(byte_count)

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
        self._points.caller_is_gone()
