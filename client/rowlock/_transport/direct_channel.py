"""The bytes of a direct connection: sends frames, receives and cuts them, waits for the socket. Without any lock.

The socket never blocks. What the system does not take of a frame is kept (`unsent`), and sent when there is room. The
first failure is kept, too; after it nothing is sent or received. direct.py decides which thread does what, and when.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable

from rowlock_proto.direct_frames import HEAD, PING, REQUESTS, frame

from rowlock._core.conversation import HEADER_BYTES_MAX, MESSAGE_BYTES_MAX, Conversation, Request
from rowlock._core.direct import lost_error, take_frame, too_large_error
from rowlock._core.sequences import Sequences
from rowlock._transport import channels
from rowlock._transport.direct_socket import OpenSocket
from rowlock.errors import RowlockError

_WAKES_MAX = 64

# As poll returns them.
Events = list[tuple[int, int]]


class DirectChannel:
    """One socket and its conversation. One thread at a time uses it, except for `poll` and `wake`."""

    _is_closed = True

    def __init__(
        self, opened: OpenSocket, server: str, target: str, sequences: Sequences, now: Callable[[], float]
    ) -> None:
        """server, target: its address for gRPC, and where this connection goes, for messages. now: a clock."""
        self._server = server
        self._target = target
        self._now = now
        self._socket = opened.socket
        self._frames = opened.reader
        self._body_bytes_max = opened.body_bytes_max
        self.conversation = Conversation(sequences, message_bytes_max=min(MESSAGE_BYTES_MAX, opened.body_bytes_max))
        self.unsent: memoryview | None = None  # the rest of the frame that is being sent
        self.failure: RowlockError | None = None
        # Since when the server has been silent, and when it was last asked for a sign of life.
        self.quiet_since = now()
        self._pinged_at = 0.0
        try:
            # Wakes the thread that polls for answers only, because there are bytes to send too.
            self._woken, self._waker = os.pipe()
        except OSError:
            self._socket.close()
            raise
        self._is_closed = False
        os.set_blocking(self._waker, False)
        # Used by the thread that polls.
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._polls_for = select.POLLIN
        self.is_polling = False

    def add(self, request: Request) -> bool:
        """Adds a prepared request to those that wait. Returns False, with the request failed, if it is too large."""
        conversation = self.conversation
        conversation.submit(request)
        if len(request.payload) + HEADER_BYTES_MAX <= self._body_bytes_max:
            return True
        conversation.abandon(request)
        request.fail(too_large_error(len(request.payload), self._body_bytes_max, self._server))
        return False

    def lose(self, reason: object) -> None:
        """Records that the connection was lost, unless a failure is known."""
        self.failure = self.failure or lost_error(self._target, reason)

    # Sending

    def send_waiting(self) -> None:
        """Sends all requests that wait, until the system takes no more."""
        while self.conversation.waiting and self.unsent is None and self.failure is None:
            message = self.conversation.next_message()
            if message is None:
                return
            self._send(HEAD.pack(len(message) + 1, REQUESTS) + message)

    def send_rest(self) -> None:
        """Continues with the frame that the system has not taken as a whole, then with what waits."""
        if self.unsent is not None:
            self._send(self.unsent)
            self.send_waiting()

    def _send(self, data: bytes | memoryview) -> None:
        """Sends as much of a frame, or of the rest of one, as the system takes."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # The server can't have the whole frame.
            self.conversation.newest_message_not_sent()
            self.lose(error)
            return
        if sent == len(data):
            self.unsent = None
            return
        self.unsent = memoryview(data)[sent:]
        self._wake()

    # Receiving

    def receive(self) -> None:
        """Receives what is there, and gives answers to their callers."""
        frames = self._frames
        try:
            count = self._socket.recv_into(frames.room())
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(error)
            return
        if not count:
            self.lose("the server closed it")
            return
        self.quiet_since = self._now()
        frames.received(count)
        while (found := frames.next()) is not None:
            failure = take_frame(self.conversation, *found, self._target)
            if failure is not None:
                self.failure = self.failure or failure
                return
        if frames.error is not None:
            self.lose(frames.error)
        elif frames.large_bytes:
            frames.begin_large()

    def receive_if_there(self) -> None:
        """Receives what came while no thread waited for it: perhaps the end of the connection."""
        if events := self._poll.poll(0):
            self.drain_wakes(events)
            self.receive()

    def ping_if_silent(self, now: float) -> None:
        """Asks a silent server whether it is there, and loses the connection if there is no answer."""
        if now - self.quiet_since < channels.KEEPALIVE_MS / 1000:
            return
        if self._pinged_at < self.quiet_since:
            self._pinged_at = now
            if self.unsent is None:
                self._send(frame(PING, b""))
        elif now - self._pinged_at > channels.KEEPALIVE_TIMEOUT_MS / 1000:
            self.lose("the server does not answer a ping")

    # Waiting

    def poll(self, timeout_s: float) -> Events:
        """Blocks until there is something to receive, or room for bytes to send; returns nothing after the timeout.

        Returns nothing, at once, for a connection that is over.
        """
        # Set first: from here on a thread that adds bytes to send wakes this one, and a thread that ends the connection
        # leaves it to this one to close the files.
        self.is_polling = True
        if self.failure is not None:
            self.is_polling = False
            return []
        polls_for = select.POLLIN if self.unsent is None else select.POLLIN | select.POLLOUT
        if polls_for != self._polls_for:
            self._poll.modify(self._socket, polls_for)
            self._polls_for = polls_for
        events = self._poll.poll(timeout_s * 1000)
        self.is_polling = False
        return events

    def _wake(self) -> None:
        """Wakes the thread that polls, if one does. From any thread."""
        if self.is_polling:
            with contextlib.suppress(BlockingIOError):  # It was woken often enough.
                os.write(self._waker, b"\0")

    def drain_wakes(self, events: Events) -> None:
        """Takes the wakes that `poll` has reported."""
        if len(events) > 1 or events[0][0] == self._woken:
            os.read(self._woken, _WAKES_MAX)

    # The end

    def shut_down(self) -> None:
        """Ends the connection for both sides; a thread that polls returns."""
        if not self._is_closed:
            with contextlib.suppress(OSError):  # The server has closed it.
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes this process's files. No thread may poll. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            os.close(self._woken)
            os.close(self._waker)

    def __del__(self) -> None:
        self.close()
