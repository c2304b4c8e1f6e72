"""The threaded driver of a direct connection: the threads that call do the sending and receiving themselves.

    one caller      sends its request, waits for the socket, reads its answer: no other thread takes part
    many callers    each adds its request; one of them, the reader, waits for the socket and reads for all

If another thread is in a section (4), a caller leaves its request to that thread, and waits for the answer at once.

1. At any time at most one caller is the reader. Only the reader waits for the socket: for answers, and for room if the
   system did not take all bytes of a frame. So a client that can't send always reads.
2. A caller sends its request itself, without waiting. Under load one of the callers, the gatherer, waits half a
   millisecond first, so that the others' next requests travel in the same message.
3. A reader that is answered, gives up at its deadline or is interrupted makes another waiting caller the reader. What
   was received or sent in part belongs to the connection, so nothing is lost with a thread.
4. What touches the socket's bytes or the conversation is done with the lock held, in a section (`_enter`, `_leave`).
   Threads wait outside of the lock. So TLS, which needs one lock for both directions, would fit in. An exception in a
   section, such as a KeyboardInterrupt, may leave things half done. Then the connection is broken: all its requests
   fail as in doubt, and their callers repeat them over another connection.
   A system call in a section releases the interpreter. So that the callers that run meanwhile don't all queue up for
   the lock, those with new requests append them to `_arrivals` without it. A section takes the arrivals when it begins
   and after it has ended. A caller appends first and then looks whether a section is still open, so one of the two
   takes them.
5. A thread may be interrupted a second time while it hands its part on. So each waiting caller looks twice a second
   whether there is a reader that shows signs of life, and whether requests wait that no caller sends.

A connection that was lost is never used again. The code that uses it (links.py) opens another one.

Where this comes from: XCB lets one of the threads that wait read for all, and hands that on in this way. libpq reads
while it waits to send, because a server whose answers are not read stops reading.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rowlock._core.conversation import ConversationStatistics, Request
from rowlock._core.sequences import Sequences
from rowlock._transport import channels
from rowlock._transport.direct_channel import DirectChannel
from rowlock._transport.direct_socket import OpenSocket
from rowlock._transport.stream import COALESCE_WAIT_S, server_timeout_ms
from rowlock._transport.waiting_caller import NOWHERE, WaitingCaller, wake_no_caller
from rowlock.errors import ClosedError, RowlockError

# How often a caller that waits looks whether the others do their parts, and how long a reader may show no sign of life.
_LOOK_S = 0.5
_LIFELESS_S = 10.0
# After this long without a call, the next one looks whether the server has closed the connection meanwhile.
_IDLE_S = 0.05

_INTERRUPTED = "a call was interrupted while it sent or received"


@dataclass(frozen=True, slots=True)
class DirectStatistics:
    """A connection's requests; how often reading was handed on, and how often a caller had to make up for another."""

    conversation: ConversationStatistics
    handed_on_count: int
    repaired_count: int


class DirectConnection:
    """Sends requests over one socket and waits for their answers. Thread-safe."""

    def __init__(
        self,
        opened: OpenSocket,
        server: str,
        target: str,
        sequences: Sequences,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """server, target: its address for gRPC, and where this connection goes, for messages."""
        self.target = target
        self._now = now
        self._channel = DirectChannel(opened, server, target, sequences, now)
        # Reentrant, because a signal handler may call, or fork, while its thread holds the lock.
        self._lock = threading.RLock()
        # Guarded by self._lock, as the channel is:
        self._reader: Request | None = None
        self._gatherer: Request | None = None
        self._entered_by = 0  # the thread that is in a section, or was interrupted in one
        # Requests that no section has taken. Appended to without the lock.
        self._arrivals: deque[Request] = deque()
        self._used_at = self._read_at = self._gathers_since = now()
        self._handed_on_count = self._repaired_count = 0

    @property
    def is_over(self) -> bool:
        """Whether it was lost or closed."""
        return self._channel.failure is not None

    def call(self, request: Request, region_id: int, deadline: float) -> bool:
        """Sends a request and blocks until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed. Returns False, with
        nothing sent, if the connection is over. An interruption of the wait does not disturb other requests.
        """
        now = self._now()
        request.prepare(region_id, server_timeout_ms(deadline - now), wake_no_caller)
        try:
            is_early = self._entered_by and self._entered_by != _thread.get_ident()
            waiting = self._arrive(request) if is_early else self._submit(request, now)
            if waiting is None:
                return False
            while request.answer is None and request.failure is None:
                if self._gatherer is request:
                    self._gather(request)
                is_reader = self._reader is request
                is_late = self._read(request, deadline) if is_reader else self._wait(request, waiting, deadline)
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

    def look(self) -> None:
        """Notices it if the server has closed the connection while no call used it."""
        with self._lock:
            if self._enter():
                if self._reader is None:
                    self._channel.receive_if_there()
                self._leave()

    def forget(self) -> None:
        """Closes this process's copy of the socket, in the child of a fork. The parent's connection goes on."""
        self._lock = threading.RLock()  # A thread of the parent may have held the other one.
        self._entered_by = 0
        self._arrivals.clear()
        self._channel.lose("the process forked")
        self._channel.close()

    def statistics(self) -> DirectStatistics:
        with self._lock:
            conversation = self._channel.conversation.statistics()
            return DirectStatistics(conversation, self._handed_on_count, self._repaired_count)

    # Sections

    def _enter(self) -> bool:
        """Begins a section; the caller holds the lock. Returns False if the connection is over."""
        channel = self._channel
        if not self._entered_by and channel.failure is None:
            self._entered_by = _thread.get_ident()
            if self._arrivals:
                self._take_arrivals()
            return True
        if self._entered_by:
            # A signal handler calls during a section of its own thread, which has to end the connection itself; or
            # another thread was interrupted in a section.
            channel.lose(_INTERRUPTED)
            if self._entered_by != _thread.get_ident():
                self._entered_by = 0
        if not self._entered_by:
            self._end()
        return False

    def _leave(self) -> None:
        """Ends a section."""
        self._entered_by = 0
        while self._channel.failure is None and self._arrivals and self._enter():
            self._entered_by = 0
        if self._channel.failure is not None:
            self._end()

    def _submit(self, request: Request, now: float) -> WaitingCaller | None:
        """Adds a request; sends it, or leaves that to the gatherer. Returns where to wait; None: the end has come."""
        waiting = None
        with self._lock:
            if not self._enter():
                return None
            channel = self._channel
            if self._reader is None:
                if now - self._used_at > _IDLE_S:
                    channel.receive_if_there()
                channel.quiet_since = now
            self._used_at = now
            if channel.failure is None:
                waiting = NOWHERE if self._reader is None else WaitingCaller()
            if waiting is not None and channel.add(request):
                if self._reader is None:  # There is no other request, except after two interruptions (5).
                    self._reader, self._read_at = request, now
                    channel.send_waiting()
                else:
                    request.wake = waiting.open
                    self._send_soon(request, now)
            self._leave()
            return waiting

    def _arrive(self, request: Request) -> WaitingCaller:
        """Leaves a request to the thread that is in a section. Returns where to wait for the answer."""
        waiting = WaitingCaller()
        request.wake = waiting.open
        self._arrivals.append(request)
        if not self._entered_by:  # The section ended, perhaps before it could see the request.
            with self._lock:
                if self._arrivals and self._enter():
                    self._leave()
        return waiting

    def _take_arrivals(self) -> None:
        """Adds the requests that have arrived, in a section. Sends them, or wakes a caller that has to."""
        channel, now = self._channel, self._now()
        self._used_at = now
        newest: Request | None = None
        while self._arrivals:
            request = self._arrivals.popleft()
            if not channel.add(request):
                request.wake()
                continue
            newest = request
            if self._reader is None:
                self._reader, self._read_at = request, now
                channel.quiet_since = now
                request.wake()
        if newest is not None and self._send_soon(newest, now):
            newest.wake()

    def _send_soon(self, request: Request, now: float) -> bool:
        """Sends what waits, in a section. Under load it leaves that to the request's caller, and returns True."""
        channel = self._channel
        if self._gatherer is None and channel.unsent is None:
            if channel.conversation.is_busy:
                self._gatherer, self._gathers_since = request, now
                return True
            channel.send_waiting()
        return False

    def _gather(self, request: Request) -> None:
        """Waits a moment for more requests, then sends all."""
        # Other threads run meanwhile. With few callers the shortest possible sleep would cost a third of a call.
        time.sleep(COALESCE_WAIT_S if self._channel.conversation.is_worth_waiting else 0)
        with self._lock:
            if self._enter():
                self._end_gathering(request)
                self._leave()

    def _read(self, request: Request, deadline: float) -> bool:
        """Reads for all callers until the request is done. Returns True if its deadline passes before that."""
        channel = self._channel
        while True:
            now = self._now()
            if now >= deadline:
                return True
            self._read_at = now
            events = channel.poll(min(deadline - now, _LOOK_S, channels.KEEPALIVE_MS / 1000))
            with self._lock:
                if not self._enter():
                    self._fail_if_missed(request)
                    return False
                if events:
                    channel.drain_wakes(events)
                    channel.receive()
                    if self._gatherer is None and (channel.unsent is not None or channel.conversation.waiting):
                        channel.send_rest()
                        channel.send_waiting()
                else:
                    channel.ping_if_silent(self._now())
                is_done = request.answer is not None or request.failure is not None
                if is_done:
                    self._hand_reading_on(request)
                self._leave()
            if is_done:
                return False

    def _wait(self, request: Request, waiting: WaitingCaller, deadline: float) -> bool:
        """Waits until the request is done or its caller gets a part. Returns True if the deadline passes."""
        while True:
            waiting.lock.acquire(timeout=max(0.0, min(_LOOK_S, deadline - self._now())))
            if request.answer is not None:
                return False
            with self._lock:
                if not self._enter():
                    self._fail_if_missed(request)
                    return False
                now = self._now()
                is_over = request.answer is not None or request.failure is not None
                if not is_over:
                    self._look(request, now)
                    waiting.shut()  # Also if it has to gather now: it will wait again.
                    is_over = self._reader is request or self._gatherer is request
                self._leave()
            if is_over or now >= deadline:
                return not is_over

    def _give_up(self, request: Request) -> None:
        """Ends the call at its deadline."""
        with self._lock:
            if self._enter():
                self._channel.conversation.abandon(request)
                self._end_gathering(request)
                self._hand_reading_on(request)
                self._leave()

    def _interrupted(self, request: Request) -> None:
        """Ends the call after an exception, wherever that came from."""
        with self._lock:
            if self._entered_by == _thread.get_ident():
                self._entered_by = 0
                self._channel.lose(_INTERRUPTED)
                self._end()
            elif self._enter():
                self._channel.conversation.abandon(request)
                self._end_gathering(request)
                if self._reader is request:
                    self._channel.is_polling = False
                self._hand_reading_on(request)
                self._leave()

    # Parts of sections

    def _hand_reading_on(self, request: Request) -> None:
        """If this caller is the reader, makes another one the reader: the one that will probably wait for longest."""
        if self._reader is request:
            successor = self._reader = self._channel.conversation.newest()
            if successor is not None:
                self._handed_on_count += 1
                self._read_at = self._now()
                successor.wake()

    def _end_gathering(self, request: Request) -> None:
        if self._gatherer is request:
            self._gatherer = None
            self._channel.send_waiting()

    def _look(self, request: Request, now: float) -> None:
        """Makes up for callers that left without handing their parts on, because they were interrupted twice."""
        if self._reader is None:
            self._reader, self._read_at = request, now
            self._repaired_count += 1
        elif now - self._read_at > _LIFELESS_S:
            self._channel.lose("the thread that read for all callers is gone")
        if self._gatherer is not None and now - self._gathers_since > _LOOK_S:
            self._end_gathering(self._gatherer)
            self._repaired_count += 1

    def _fail_if_missed(self, request: Request) -> None:
        """Fails a request that the end of the connection missed, because a thread was interrupted in a section."""
        if request.answer is None and request.failure is None:
            request.failure = self._channel.failure

    def _break(self, failure: RowlockError) -> None:
        """Ends the connection; the caller holds the lock."""
        self._channel.failure = self._channel.failure or failure
        if not self._entered_by or self._entered_by != _thread.get_ident():
            self._end()

    def _end(self) -> None:
        """Fails all requests of a connection that is over, and closes it. Idempotent. The caller holds the lock."""
        channel = self._channel
        assert channel.failure is not None
        self._reader = self._gatherer = None
        channel.conversation.lost(channel.failure)
        while self._arrivals:
            request = self._arrivals.popleft()
            request.failure = channel.failure
            request.wake()
        if channel.is_polling:
            channel.shut_down()  # The reader returns, and closes it.
        else:
            channel.close()
