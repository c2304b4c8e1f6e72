"""The threaded driver of a conversation: one stream to one server, shared by all threads of a client.

    caller threads ── submit ──▶ Conversation ── next_message ──▶ grpc's sending thread   ──▶ server
                   ◀── wake ───  Conversation ◀── answered ────── grpc's receiving thread ◀── server

A caller sleeps on its own lock. It is woken in the function with which grpc deserializes a message. That function runs
in grpc's own thread, one thread switch earlier than code that iterates over the stream; a switch costs 20 to 30 us of
the 280 that an echo takes. So the stream's reading thread only requests the next message, and gets the stream's status
at its end. Tried instead: a waiting caller reads the stream for all callers. But inside grpc a caller can't keep a
deadline and must not be interrupted.

When grpc's receiving thread takes our lock, it holds grpc's lock of the call. So a thread that holds our lock must not
call into grpc: streams are cancelled outside the lock.

The stream is opened at the first request, and again at the first request after it was lost. Each opening is a _Run. A
run that is over never touches its successor.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.wire_errors import error_of_call
from rowlock._core.conversation import Conversation, ConversationStatistics, Request
from rowlock._core.sequences import Sequences
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import ClosedError, RowlockError, ServerUnavailableError


class Answers(Protocol):
    """The receiving half of an open stream; iterates over its deserialized messages."""

    def __iter__(self) -> Iterator[object]: ...

    def cancel(self) -> bool: ...


_READER_ENDS_S_MAX = 1.0
_UINT32_MAX = (1 << 32) - 1
# Under load a small message costs as much as a large one; see Conversation.is_worth_waiting.
COALESCE_WAIT_S = 0.0005

# Opens a stream. Arguments: the messages to send, and a function that is called with each received message; it must not
# return None.
Converse = Callable[[Iterator[bytes], Callable[[bytes], object]], Answers]


class _Run:
    """One opening of the stream."""

    __slots__ = ("answers", "is_over", "is_woken", "reader", "wake")

    def __init__(self) -> None:
        # Wakes the sender: held while there is nothing to send.
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        # Guarded by the stream's lock:
        self.is_woken = False
        self.is_over = False
        self.answers: Answers | None = None
        self.reader: threading.Thread | None = None

    def wake_sender(self) -> None:
        """Wakes the sender. The caller holds the stream's lock."""
        if not self.is_woken:
            self.is_woken = True
            self.wake.release()


class PointStream:
    """Sends requests to one server and waits for their answers. Thread-safe."""

    def __init__(self, converse: Converse, address: str, sequences: Sequences) -> None:
        self.address = address
        self._converse = converse
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._conversation = Conversation(sequences)
        self._run: _Run | None = None
        self._is_closed = False

    def call(self, request: Request, region_id: int, deadline: float) -> None:
        """Sends a request and blocks until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed. An interruption of
        the wait (KeyboardInterrupt) does not disturb other requests.
        """
        done = _thread.allocate_lock()
        done.acquire()
        remaining = deadline - time.monotonic()
        request.prepare(region_id, server_timeout_ms(remaining), done.release)
        try:
            with self._lock:
                run = self._run
                if run is None:
                    run = self._open()
                # After the stream was opened: if that fails, the request is certainly never sent.
                self._conversation.submit(request)
                run.wake_sender()
            if done.acquire(timeout=max(0.0, remaining)):
                return
        except BaseException:
            self._abandon(request)
            raise
        self._abandon(request)

    def hold_open(self) -> None:
        """Opens the stream without a request, if it is not open."""
        with self._lock:
            if self._run is None:
                self._open()

    def close(self, reason: RowlockError | None = None) -> None:
        """Ends the stream for good. Waiting calls end with the reason. Waits for the reading thread. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._conversation.lost(reason or ClosedError("the client was closed while the call was under way"))
            run = self._run
            self._run = None
            if run is not None:
                self._end(run)
        if run is not None:
            self._cancel(run)
            if run.reader is not None and run.reader is not threading.current_thread():
                run.reader.join(_READER_ENDS_S_MAX)

    def statistics(self) -> ConversationStatistics:
        with self._lock:
            return self._conversation.statistics()

    def _abandon(self, request: Request) -> None:
        with self._lock:
            self._conversation.abandon(request)

    def _open(self) -> _Run:
        """Opens a new run. The caller holds the lock."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        run = _Run()
        with Uninterrupted():
            run.answers = answers = self._converse(self._messages(run), partial(self._received, run))
            run.reader = threading.Thread(target=self._read, args=(run, answers), name="rowlock answers", daemon=True)
            try:
                run.reader.start()
            except BaseException:
                # The process is at its limit of threads. The sender ends, and then the server ends the stream.
                self._end(run)
                raise
            self._run = run
        return run

    def _messages(self, run: _Run) -> Iterator[bytes]:
        """Yields the stream's messages. Runs in grpc's sending thread, which continues after each message was sent."""
        conversation = self._conversation
        while True:
            run.wake.acquire()
            if conversation.is_busy:
                # Threads that were woken together can now submit their next requests, which this message will include.
                # Not for few callers: the shortest possible sleep costs a third of an echo.
                time.sleep(COALESCE_WAIT_S if conversation.is_worth_waiting else 0)
            with self._lock:
                run.is_woken = False
                message = None if run.is_over else conversation.next_message()
            while message is not None:
                yield message
                if not conversation.can_send:  # A thread that submits after this check wakes the sender.
                    break
                with self._lock:
                    message = None if run.is_over else conversation.next_message()
            if run.is_over:
                return

    def _received(self, run: _Run, data: bytes) -> bool:
        """Handles a received message. Runs in grpc's receiving thread; an exception here ends the stream."""
        message = region_pb2.PointAnswers.FromString(data)
        with self._lock:
            if not run.is_over:
                self._conversation.answered(message.answers)
                if self._conversation.can_send:
                    run.wake_sender()
        return True

    def _read(self, run: _Run, answers: Answers) -> None:
        """The reading thread. It requests one message after the other until the stream ends."""
        failure: RowlockError = ServerUnavailableError(f"the server at {self.address} ended the stream of requests")
        try:
            for _ in answers:
                pass
        except grpc.RpcError as error:
            failure = error_of_call(error, self.address)
        finally:
            with self._lock:
                if self._run is run:
                    self._run = None
                    self._end(run)
                    self._conversation.lost(failure)
            self._cancel(run)

    def _end(self, run: _Run) -> None:
        """Ends the run and its sender. The caller holds the lock, and cancels the stream after releasing it."""
        run.is_over = True
        run.wake_sender()

    def _cancel(self, run: _Run) -> None:
        if run.answers is not None:
            run.answers.cancel()


def server_timeout_ms(remaining_s: float) -> int:
    """Returns the server's share of the remaining time: a little less, so that its refusal still arrives in time."""
    milliseconds = int((remaining_s - 0.1 if remaining_s > 1 else remaining_s * 0.9) * 1000)
    return milliseconds if 0 < milliseconds < _UINT32_MAX else min(_UINT32_MAX, max(1, milliseconds))
