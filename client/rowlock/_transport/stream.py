"""The threaded driver of a conversation: one stream to one server, shared by all threads of a client.

    caller threads ── submit ──▶ Conversation ── next_message ──▶ grpc's sending thread   ──▶ server
                   ◀── wake ───  Conversation ◀── answered ────── grpc's receiving thread ◀── server

A caller sleeps on a lock of its own. It is woken where grpc turns a received message into an object: that runs in
grpc's own thread, one hand-over earlier than whoever iterates over the stream, which costs 20 to 30 us of the 280 that
an echo takes. The stream's reading thread has only to ask for the next message, and to learn how the stream ended.
Tried instead: letting a waiting caller read the stream itself, for all. A caller inside grpc can keep no deadline and
must not be interrupted.

grpc's receiving thread holds grpc's lock of this call when it takes ours, so nobody who holds ours may call into grpc:
streams are cancelled outside the lock.

The stream is opened at the first request and again at the first one after it was lost. Each opening is a _Run; a run
that is over never touches its successor.
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
from rowlock.errors import ClosedError, RowlockError, ServerUnavailableError


class Answers(Protocol):
    """The receiving half of an open stream, which gives what its messages were made into."""

    def __iter__(self) -> Iterator[object]: ...

    def cancel(self) -> bool: ...


_READER_ENDS_S_MAX = 1.0
_UINT32_MAX = (1 << 32) - 1
# Under load a small message costs as much as a large one; see Conversation.is_worth_waiting.
_COALESCE_WAIT_S = 0.0005

# Opens a stream: what it sends, and what is called with each message that it receives, which must not answer None.
Converse = Callable[[Iterator[bytes], Callable[[bytes], object]], Answers]


class _Run:
    """One opening of the stream."""

    __slots__ = ("answers", "is_over", "is_woken", "reader", "wake")

    def __init__(self) -> None:
        # The sender's bell: held while there is nothing to do.
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        # Guarded by the stream's lock:
        self.is_woken = False
        self.is_over = False
        self.answers: Answers | None = None
        self.reader: threading.Thread | None = None

    def ring(self) -> None:
        """Wakes the sender; the stream's lock is held."""
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

        Afterwards `request.answer` or `request.failure` is set; neither is when the deadline passed. Whatever
        interrupts the wait (KeyboardInterrupt) leaves the stream in order for everybody else.
        """
        bell = _thread.allocate_lock()
        bell.acquire()
        remaining = deadline - time.monotonic()
        request.prepare(region_id, server_timeout_ms(remaining), bell.release)
        try:
            with self._lock:
                run = self._run
                if run is None:
                    run = self._open()
                # Not before the stream is open: who fails to open it must be sure that nobody sends this request.
                self._conversation.submit(request)
                run.ring()
            if bell.acquire(timeout=max(0.0, remaining)):
                return
        except BaseException:
            self._abandon(request)
            raise
        self._abandon(request)

    def hold_open(self) -> None:
        """Opens the stream before there is anything to send, if it is not open."""
        with self._lock:
            if self._run is None:
                self._open()

    def close(self, reason: RowlockError | None = None) -> None:
        """Ends the stream for good and tells all who wait the reason. Idempotent; waits for the reading thread."""
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
        """A new run; the lock is held."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        run = _Run()
        run.answers = self._converse(self._messages(run), partial(self._received, run))
        run.reader = threading.Thread(target=self._read, args=(run, run.answers), name="rowlock answers", daemon=True)
        try:
            run.reader.start()
        except BaseException:
            # A process at its limit of threads. The sender goes, and the server ends what nobody sends to any more.
            self._end(run)
            raise
        self._run = run
        return run

    def _messages(self, run: _Run) -> Iterator[bytes]:
        """What the stream sends; runs in grpc's sending thread, which asks again when a message has gone out."""
        conversation = self._conversation
        while True:
            run.wake.acquire()
            if conversation.is_busy:
                # Lets the threads that were woken together put their next requests in before the message is closed.
                # Not for few callers: the shortest sleep there is costs a third of an echo.
                time.sleep(_COALESCE_WAIT_S if conversation.is_worth_waiting else 0)
            with self._lock:
                run.is_woken = False
                message = None if run.is_over else conversation.next_message()
            while message is not None:
                yield message
                if not conversation.can_send:  # Whoever submits after this look rings.
                    break
                with self._lock:
                    message = None if run.is_over else conversation.next_message()
            if run.is_over:
                return

    def _received(self, run: _Run, data: bytes) -> bool:
        """A message has come; runs in grpc's receiving thread, and what it raises ends the stream."""
        message = region_pb2.PointAnswers.FromString(data)
        with self._lock:
            if not run.is_over:
                self._conversation.answered(message.answers)
                if self._conversation.can_send:
                    run.ring()
        return True

    def _read(self, run: _Run, answers: Answers) -> None:
        """The reading thread: asks for one message after the other until the stream ends."""
        failure: RowlockError = ServerUnavailableError(f"the server at {self.address} ended the conversation")
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
        """The run is over, and its sender goes; the lock is held, and the caller cancels the stream without it."""
        run.is_over = True
        run.ring()

    def _cancel(self, run: _Run) -> None:
        if run.answers is not None:
            run.answers.cancel()


def server_timeout_ms(remaining_s: float) -> int:
    """What the server is given of the time that is left: a little less, so that its refusal still arrives in time."""
    return min(_UINT32_MAX, max(1, int((remaining_s - min(0.1, remaining_s / 10)) * 1000)))
