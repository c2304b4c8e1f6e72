"""The threaded driver of a direct connection: the threads that call do the sending and receiving themselves.

    one caller      sends its request, waits for the socket, reads its answer: no other thread takes part
    many callers    each adds its request; one of them, the reader, waits for the socket and reads for all

1. At any time at most one caller is the reader. It is the only one that waits for the socket, for answers and, if the
   system did not take all bytes of a frame, for room to send the rest. So a client that can't send always reads.
2. A caller sends its request itself, without waiting. Under load, one of the callers, the gatherer, waits half a
   millisecond first, so that the others' next requests travel in the same message.
3. A reader that is answered, gives up at its deadline or is interrupted makes another waiting caller the reader. The
   connection has everything that was received or sent in part, so nothing is lost with a thread.
4. What touches the socket's bytes or the conversation is done with the lock held, in a section (`_enter`, `_leave`).
   The socket never blocks; threads wait outside of the lock. So TLS, which needs one lock for both directions, would
   fit in. An exception in a section, such as a KeyboardInterrupt, may leave things half done. Then the connection is
   broken: all its requests fail as in doubt, and their callers repeat them over another connection.
5. A thread can be interrupted a second time while it hands its part on. So each waiting caller looks twice a second
   whether there is a reader that shows signs of life, and whether requests wait that nobody sends.

A connection that was lost is never used again. The code that uses it (links.py) opens another one.

Where this comes from: XCB lets one of the threads that wait read for all, and hands that on in the same way. libpq
reads while it waits to send, because a server that nobody reads from stops reading.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from rowlock_proto.direct_frames import HEAD, PING, REQUESTS, frame

from rowlock._core.conversation import (
    HEADER_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Conversation,
    ConversationStatistics,
    Request,
)
from rowlock._core.direct import lost_error, take_frame, too_large_error
from rowlock._core.sequences import Sequences
from rowlock._transport import channels
from rowlock._transport.direct_socket import OpenSocket
from rowlock._transport.stream import COALESCE_WAIT_S, server_timeout_ms
from rowlock.errors import ClosedError, RowlockError

# How often a caller that waits looks whether the others do their parts, and how long a reader may show no sign of life.
_LOOK_S = 0.5
_LIFELESS_S = 10.0
# After so long without a call, the next one looks whether the server has closed the connection meanwhile.
_IDLE_S = 0.05
_WAKES_MAX = 64

# As poll returns them.
Events = list[tuple[int, int]]


class _Waiting:
    """Where a caller that is not the reader waits. Guarded by the connection's lock, except for `lock` itself."""

    __slots__ = ("is_open", "lock")

    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self.lock.acquire()
        self.is_open = False

    def open(self) -> None:
        """Wakes the caller. Idempotent."""
        if not self.is_open:
            self.is_open = True
            self.lock.release()

    def shut(self) -> None:
        """Lets the caller wait again."""
        if self.is_open:
            self.is_open = False
            self.lock.acquire(False)


def _nothing() -> None:
    """Wakes a caller that does not wait."""


class DirectConnection:
    """Sends requests over one socket and waits for their answers. Thread-safe."""

    _is_closed = True

    def __init__(
        self,
        opened: OpenSocket,
        server: str,
        target: str,
        sequences: Sequences,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """server, target: its address for gRPC, and where this connection goes, for messages."""
        self._server = server
        self.target = target
        self._now = now
        self._socket = opened.socket
        self._body_bytes_max = opened.body_bytes_max
        # Wakes the reader while it waits for answers only, because there are bytes to send too.
        try:
            self._woken, self._waker = os.pipe()
        except OSError:
            self._socket.close()
            raise
        os.set_blocking(self._waker, False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        # Only the reader's thread uses these three outside of sections.
        self._polls_for = select.POLLIN
        self._is_polling = False
        self._read_at = now()
        # Reentrant, because a signal handler may call, or fork, while its thread holds the lock.
        self._lock = threading.RLock()
        # Guarded by self._lock:
        self._conversation = Conversation(sequences, message_bytes_max=min(MESSAGE_BYTES_MAX, opened.body_bytes_max))
        self._frames = opened.reader
        self._unsent: memoryview | None = None  # the rest of the frame that is being sent
        self._reader: Request | None = None
        self._gatherer: Request | None = None
        self._entered_by = 0  # the thread that is in a section, or was interrupted in one
        self._failure: RowlockError | None = None  # why the connection is over
        self._is_closed = False
        self._gathers_since = self._used_at = self._quiet_since = now()
        self._pinged_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it was lost or closed."""
        return self._failure is not None

    def call(self, request: Request, region_id: int, deadline: float) -> bool:
        """Sends a request and blocks until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed. Returns False, with
        nothing sent, if the connection is over. An interruption of the wait does not disturb other requests.
        """
        now = self._now()
        request.prepare(region_id, server_timeout_ms(deadline - now), _nothing)
        try:
            if not self._submit(request, now):
                return False
            if self._gatherer is request:
                self._gather(request)
            while request.answer is None and request.failure is None:
                is_late = self._read(request, deadline) if self._reader is request else self._wait(request, deadline)
                if is_late:
                    self._give_up(request)
                    break
        except BaseException:
            self._interrupted(request)
            raise
        return True

    def close(self, reason: RowlockError | None = None) -> None:
        """Ends the connection. Waiting calls end with the reason. Idempotent."""
        with self._lock:
            self._break(reason or ClosedError("the client was closed while the call was under way"))

    def forget(self) -> None:
        """Closes this process's copy of the socket, in the child of a fork. The parent's connection goes on."""
        self._lock = threading.RLock()  # A thread of the parent may have held the other one.
        self._entered_by = 0
        self._failure = lost_error(self.target, "the process forked")
        self._close_files()

    def statistics(self) -> ConversationStatistics:
        with self._lock:
            return self._conversation.statistics()

    def __del__(self) -> None:
        self._close_files()

    # Sections

    def _enter(self) -> bool:
        """Begins a section; the caller holds the lock. Returns False if the connection is over."""
        if self._entered_by:
            # A signal handler calls during a section of its own thread, which has to end the connection itself; or
            # another thread was interrupted in a section.
            self._failure = self._failure or _interruption(self.target)
            if self._entered_by != _thread.get_ident():
                self._entered_by = 0
                self._break(self._failure)
        elif self._failure is None:
            self._entered_by = _thread.get_ident()
            return True
        if not self._is_polling:
            self._close_files()
        return False

    def _leave(self) -> None:
        """Ends a section."""
        self._entered_by = 0
        if self._failure is not None:
            self._break(self._failure)

    def _submit(self, request: Request, now: float) -> bool:
        """Adds a request, and sends it, or leaves that to the gatherer. Returns False if the connection is over."""
        with self._lock:
            if not self._enter():
                return False
            if self._reader is None:
                if now - self._used_at > _IDLE_S:
                    self._receive_if_there()
                self._quiet_since = now
            self._used_at = now
            is_submitted = self._failure is None
            if is_submitted:
                self._add(request, now)
            self._leave()
            return is_submitted

    def _add(self, request: Request, now: float) -> None:
        conversation = self._conversation
        conversation.submit(request)
        if len(request.payload) + HEADER_BYTES_MAX > self._body_bytes_max:
            conversation.abandon(request)
            request.fail(too_large_error(len(request.payload), self._body_bytes_max, self._server))
            return
        if self._reader is None:
            self._reader, self._read_at = request, now
        if self._gatherer is None and self._unsent is None:
            if conversation.is_busy:
                self._gatherer, self._gathers_since = request, now
            else:
                self._send_waiting()

    def _gather(self, request: Request) -> None:
        """Waits a moment for more requests, then sends all."""
        # Other threads run meanwhile. With few callers the shortest possible sleep would cost a third of a call.
        time.sleep(COALESCE_WAIT_S if self._conversation.is_worth_waiting else 0)
        with self._lock:
            if self._enter():
                self._end_gathering(request)
                self._leave()

    def _read(self, request: Request, deadline: float) -> bool:
        """Reads for all callers until the request is done. Returns True if its deadline passes before that."""
        while True:
            now = self._now()
            if now >= deadline:
                return True
            self._read_at = now
            events = self._poll_socket(min(deadline - now, _LOOK_S, channels.KEEPALIVE_MS / 1000))
            with self._lock:
                if not self._enter():
                    self._fail_if_missed(request)
                    return False
                if events:
                    self._drain_wakes(events)
                    self._send_rest()
                    self._receive()
                else:
                    self._ping_if_silent(self._now())
                is_done = request.answer is not None or request.failure is not None
                if is_done:
                    self._hand_reading_on(request)
                self._leave()
            if is_done:
                return False

    def _wait(self, request: Request, deadline: float) -> bool:
        """Waits until the request is done or its caller becomes the reader. Returns True if the deadline passes."""
        waiting = _Waiting()
        while True:
            now = self._now()
            with self._lock:
                if not self._enter():
                    self._fail_if_missed(request)
                    return False
                is_over = request.answer is not None or request.failure is not None
                if not is_over:
                    self._look(request, now)
                    is_over = self._reader is request
                if not is_over:
                    waiting.shut()
                    request.wake = waiting.open
                self._leave()
            if is_over or now >= deadline:
                return not is_over
            waiting.lock.acquire(timeout=min(_LOOK_S, deadline - now))
            if request.answer is not None:
                return False

    def _give_up(self, request: Request) -> None:
        """Ends the call at its deadline."""
        with self._lock:
            if self._enter():
                self._conversation.abandon(request)
                self._hand_reading_on(request)
                self._leave()

    def _interrupted(self, request: Request) -> None:
        """Ends the call after an exception, wherever that came from."""
        with self._lock:
            if self._entered_by == _thread.get_ident():
                self._entered_by = 0
                self._break(_interruption(self.target))
            elif self._enter():
                self._conversation.abandon(request)
                self._end_gathering(request)
                if self._reader is request:
                    self._is_polling = False
                self._hand_reading_on(request)
                self._leave()

    # Parts of sections

    def _hand_reading_on(self, request: Request) -> None:
        """If this caller is the reader, makes another one the reader: the one that will probably wait for longest."""
        if self._reader is request:
            successor = self._reader = self._conversation.newest()
            if successor is not None:
                self._read_at = self._now()
                successor.wake()

    def _end_gathering(self, request: Request) -> None:
        if self._gatherer is request:
            self._gatherer = None
            self._send_waiting()

    def _look(self, request: Request, now: float) -> None:
        """Makes up for callers that left without handing their parts on, because they were interrupted twice."""
        if self._reader is None:
            self._reader, self._read_at = request, now
        elif now - self._read_at > _LIFELESS_S:
            self._failure = lost_error(self.target, "the thread that read for all callers is gone")
        if self._gatherer is not None and now - self._gathers_since > _LOOK_S:
            self._end_gathering(self._gatherer)

    def _fail_if_missed(self, request: Request) -> None:
        """Fails a request that the end of the connection missed, because a thread was interrupted in a section."""
        if request.answer is None and request.failure is None:
            request.failure = self._failure or _interruption(self.target)

    def _send_waiting(self) -> None:
        """Sends all requests that wait, until the system takes no more."""
        while self._unsent is None and self._failure is None:
            message = self._conversation.next_message()
            if message is None:
                return
            self._send(memoryview(HEAD.pack(len(message) + 1, REQUESTS) + message))

    def _send(self, data: memoryview) -> None:
        """Sends as much of a frame, or of the rest of one, as the system takes."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # The server can't have the whole frame.
            self._conversation.newest_message_not_sent()
            self._failure = lost_error(self.target, error)
            return
        if sent == len(data):
            self._unsent = None
            return
        self._unsent = data[sent:]
        if self._is_polling:
            with contextlib.suppress(BlockingIOError):  # It has been woken often enough.
                os.write(self._waker, b"\0")

    def _send_rest(self) -> None:
        """Continues with the frame that the system has not taken yet, then with what waits."""
        if self._unsent is not None:
            self._send(self._unsent)
            if self._unsent is None and self._gatherer is None:
                self._send_waiting()

    def _receive_if_there(self) -> None:
        """Receives what came while there was no caller: perhaps the end of the connection."""
        if events := self._poll.poll(0):
            self._drain_wakes(events)
            self._receive()

    def _receive(self) -> None:
        """Receives what is there, and gives answers to their callers."""
        frames = self._frames
        try:
            count = self._socket.recv_into(frames.room())
        except BlockingIOError:
            return
        except OSError as error:
            self._failure = self._failure or lost_error(self.target, error)
            return
        if not count:
            self._failure = self._failure or lost_error(self.target, "the server closed it")
            return
        self._quiet_since = self._now()
        frames.received(count)
        while (found := frames.next()) is not None:
            self._failure = take_frame(self._conversation, *found, self.target)
            if self._failure is not None:
                return
        if frames.error is not None:
            self._failure = lost_error(self.target, frames.error)
            return
        if frames.large_bytes:
            frames.begin_large()
        if self._gatherer is None:
            self._send_waiting()

    def _ping_if_silent(self, now: float) -> None:
        """Asks a silent server whether it is there, and ends the connection if there is no answer."""
        if now - self._quiet_since < channels.KEEPALIVE_MS / 1000:
            return
        if self._pinged_at < self._quiet_since:
            self._pinged_at = now
            if self._unsent is None:
                self._send(memoryview(frame(PING, b"")))
        elif now - self._pinged_at > channels.KEEPALIVE_TIMEOUT_MS / 1000:
            self._failure = lost_error(self.target, "the server does not answer a ping")

    # Waiting for the socket

    def _poll_socket(self, timeout_s: float) -> Events:
        """Blocks until there is something to receive, or room for bytes to send; returns nothing after the timeout."""
        # Before it looks for bytes to send: a caller that adds some from here on wakes it.
        self._is_polling = True
        polls_for = select.POLLIN if self._unsent is None else select.POLLIN | select.POLLOUT
        if polls_for != self._polls_for:
            self._poll.modify(self._socket, polls_for)
            self._polls_for = polls_for
        events = self._poll.poll(timeout_s * 1000)
        self._is_polling = False
        return events

    def _drain_wakes(self, events: Events) -> None:
        if len(events) > 1 or events[0][0] == self._woken:
            os.read(self._woken, _WAKES_MAX)

    # The end

    def _break(self, failure: RowlockError) -> None:
        """Ends the connection and fails all its requests. Idempotent. The caller holds the lock."""
        self._failure = self._failure or failure
        self._reader = self._gatherer = None
        self._conversation.lost(self._failure)
        if not self._is_polling:
            self._close_files()
        elif not self._is_closed:
            with contextlib.suppress(OSError):  # The server has closed it.
                self._socket.shutdown(socket.SHUT_RDWR)  # Wakes the reader, which closes the files.

    def _close_files(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            os.close(self._woken)
            os.close(self._waker)


def _interruption(target: str) -> RowlockError:
    return lost_error(target, "a call was interrupted while it sent or received")
