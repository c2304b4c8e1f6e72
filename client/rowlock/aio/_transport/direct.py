"""The asyncio driver of a direct connection: a protocol of asyncio, shared by all tasks of a client.

A request that comes alone is sent at once. Others are sent together, when the event loop has run the tasks that were
ready with them. All tasks belong to one event loop, so there are no locks. A connection that was lost is never used
again; links.py opens another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

from rowlock_proto.direct_frames import (
    ANSWERS_SLACK_BYTES,
    HEAD,
    PING,
    REQUESTS,
    SHORT_BODY_BYTES_MAX,
    Body,
    FrameReader,
    frame,
)

from rowlock._core.conversation import (
    HEADER_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Conversation,
    ConversationStatistics,
    Request,
)
from rowlock._core.direct import (
    Announcement,
    DirectUnusableError,
    body_bytes_max_of,
    hello,
    lost_error,
    take_frame,
    too_large_error,
)
from rowlock._core.scan_release import abandon
from rowlock._core.sequences import Sequences
from rowlock._transport import channels
from rowlock._transport.stream import server_timeout_ms
from rowlock.errors import ClosedError, RowlockError

_SCRATCH_BYTES = 64 * 1024
_LOOKS_PER_KEEPALIVE = 4


class DirectConnection(asyncio.BufferedProtocol):
    """Sends requests over one socket and waits for their answers. For tasks of one event loop."""

    def __init__(self, server: str, target: str, announcement: Announcement, sequences: Sequences) -> None:
        """server, target: its address for gRPC, and where this connection goes, for messages.

        Use it when `welcomed` has returned.
        """
        self._server = server
        self.target = target
        self._announcement = announcement
        self._sequences = sequences
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._frames = FrameReader(SHORT_BODY_BYTES_MAX, memoryview(bytearray(_SCRATCH_BYTES)))
        self._welcome: asyncio.Future[None] = self._loop.create_future()
        self._body_bytes_max = 0
        self._conversation = Conversation(sequences)
        self._is_sending_due = False
        self._is_blocked = False
        self._failure: RowlockError | None = None  # why the connection is over
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_since = 0.0
        self._pinged_at = 0.0

    async def welcomed(self) -> None:
        """Waits for the server's welcome. Raises DirectUnusableError if another server is there."""
        try:
            await self._welcome
        except BaseException:
            self._transport.abort()
            raise

    @property
    def is_over(self) -> bool:
        """Whether it was lost or closed."""
        return self._failure is not None

    async def call(self, request: Request, region_id: int, deadline: float) -> bool:
        """Sends a request and waits until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed. Returns False, with
        nothing sent, if the connection is over. Cancelling the wait does not disturb other requests.
        """
        if self._failure is not None:
            return False
        remaining_s = deadline - time.monotonic()
        done: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        request.prepare(region_id, server_timeout_ms(remaining_s), wake)
        if not self.submit(request):
            return True
        out_of_time = self._loop.call_later(max(0.0, remaining_s), wake)
        is_done = False
        try:
            await done
            is_done = request.answer is not None or request.failure is not None
        finally:
            out_of_time.cancel()
            if not is_done:
                abandon(self._conversation, request, self.submit)
        return True

    def close(self, reason: RowlockError | None = None) -> None:
        """Ends the connection. Waiting calls end with the reason. Idempotent."""
        self._end(reason or ClosedError("the client was closed while the call was under way"))

    def forget(self) -> None:
        """Closes this process's copy of the socket, in the child of a fork. The parent's connection goes on."""
        self._failure = lost_error(self.target, "the process forked")
        opened = self._transport.get_extra_info("socket")
        if opened is not None:
            # The loop and the transport are the parent's. Only the descriptor is closed, for the server counts on that.
            with contextlib.suppress(OSError):
                os.close(opened.fileno())

    def statistics(self) -> ConversationStatistics:
        return self._conversation.statistics()

    # Calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(hello())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._frames
        self._quiet_since = self._loop.time()
        frames.received(nbytes)
        while (found := frames.next()) is not None:
            if not self._welcome.done():
                self._take_welcome(*found)
                continue
            failure = take_frame(self._conversation, *found, self.target)
            if failure is not None:
                self._end(failure)
                return
        if frames.error is not None:
            self._end(lost_error(self.target, frames.error))
        elif frames.large_bytes:
            frames.begin_large()
        if self._conversation.can_send:
            self._send_soon()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._send_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(lost_error(self.target, exc or "the server closed it"))

    def _take_welcome(self, kind: int, body: Body) -> None:
        try:
            self._body_bytes_max = body_bytes_max_of(kind, body, self._announcement)
        except DirectUnusableError as error:
            self._welcome.set_exception(error)
            return
        self._conversation = Conversation(
            self._sequences, message_bytes_max=min(MESSAGE_BYTES_MAX, self._body_bytes_max)
        )
        self._frames.set_body_bytes_max(self._body_bytes_max + ANSWERS_SLACK_BYTES)
        self._welcome.set_result(None)

    # Sending

    def submit(self, request: Request) -> bool:
        """Adds a request and sends it, at once or soon. Returns False, with the request failed, if it is too large."""
        conversation = self._conversation
        is_first = conversation.is_idle
        conversation.submit(request)
        if len(request.payload) + HEADER_BYTES_MAX > self._body_bytes_max:
            conversation.abandon(request)
            request.fail(too_large_error(len(request.payload), self._body_bytes_max, self._server))
            return False
        if is_first:
            self._quiet_since = self._loop.time()
            self._watch()
            self._send_waiting()
        else:
            self._send_soon()
        return True

    def _send_soon(self) -> None:
        if not self._is_sending_due:
            self._is_sending_due = True
            self._loop.call_soon(self._send_due)

    def _send_due(self) -> None:
        self._is_sending_due = False
        self._send_waiting()

    def _send_waiting(self) -> None:
        while not self._is_blocked and self._failure is None:
            message = self._conversation.next_message()
            if message is None:
                return
            self._transport.write(HEAD.pack(len(message) + 1, REQUESTS) + message)

    # Silence

    def _watch(self) -> None:
        """Looks, while requests are in flight, whether the server is there."""
        if self._timer is None:
            self._timer = self._loop.call_later(channels.KEEPALIVE_MS / 1000 / _LOOKS_PER_KEEPALIVE, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._conversation.is_idle or self._failure is not None:
            return
        now = self._loop.time()
        if now - self._quiet_since >= channels.KEEPALIVE_MS / 1000:
            if self._pinged_at < self._quiet_since:
                self._pinged_at = now
                self._transport.write(frame(PING, b""))
            elif now - self._pinged_at > channels.KEEPALIVE_TIMEOUT_MS / 1000:
                self._end(lost_error(self.target, "the server does not answer a ping"))
                return
        self._watch()

    # The end

    def _end(self, failure: RowlockError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._timer is not None:
            self._timer.cancel()
        if not self._welcome.done():
            self._welcome.set_exception(DirectUnusableError(str(self._frames.error or failure)))
            self._welcome.exception()  # Perhaps it is not waited for any more.
        self._transport.abort()
        self._conversation.lost(failure)
