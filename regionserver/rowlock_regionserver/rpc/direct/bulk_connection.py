"""A direct connection for bulk batches: its client has greeted with `bulk`. docs/direct_protocol.md.

1. The states: OPEN → ENDED → CLOSED. ENDED: the END frame is on its way; the client has a moment to close its side.
   What it sends meanwhile is dropped, as in connection.py.
2. BulkStreams serves the connection as it serves a call of gRPC. It asks for one batch at a time. Until it asks, at
   most one receive is held, and the socket makes the client wait.
3. A batch of more than 64 KiB is received into memory that the ledger has counted; a smaller one is counted when it
   has come. If there is no memory in time, the connection ends with a retryable error. BulkStreams takes the count over
   when it asks for the batch's admission.
4. While a client does not read its answers, the server sends it no more and receives none of its batches.
5. The server closes a connection that has had no batch for a minute, or whose place another client needs. It sends no
   END.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import deque

import pyarrow as pa
from rowlock_proto.direct_frames import BULK_ANSWER, BULK_BATCH, END, PREAMBLE, Body, frame

from rowlock_regionserver.config import KIB
from rowlock_regionserver.engine.bulk_streams import ADMISSION_WAIT_SECONDS
from rowlock_regionserver.errors import InvalidRequestError, StoppingError
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, IDLE_SECONDS_MAX, UNREAD_SECONDS_MAX, Unread
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.messages.failures import error_message

# What is received at once: the event loop serves other connections between two receives.
_RECEIVED_BYTES_MAX = 256 * KIB
# When the server stops, a client from which nothing has come for this long is not sending a batch.
_QUIET_SECONDS = 0.2


class _State(enum.Enum):
    """The states, in this order."""

    OPEN = enum.auto()
    ENDED = enum.auto()
    CLOSED = enum.auto()


class BulkConnection(asyncio.BufferedProtocol):
    """A protocol of asyncio, which takes a connection over after its greeting. Used on the event loop."""

    def __init__(self, service: DirectService, transport: asyncio.Transport, peer: str, incoming: Incoming) -> None:
        self._service = service
        self._requests = service.ledger.requests
        self._transport = transport
        self._peer = peer
        self._incoming = incoming
        self._loop = asyncio.get_running_loop()
        self._monotonic = service.points.clock.monotonic
        self._state = _State.OPEN
        self._idle_since = self._ended_since = self._monotonic()
        self._serving: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[Body] | None = None  # the batch for which BulkStreams waits
        self._is_paused = False
        self._memory_deadline: asyncio.TimerHandle | None = None  # of the wait for memory
        self._held_bytes: deque[int] = deque()  # of batches that BulkStreams has not counted yet
        self._is_quiet = True  # since the last look at a connection that has ended
        self._unanswered_count = 0
        self._has_served = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._unread = Unread()  # for `look`

    def welcome(self) -> None:
        """Takes the connection over, and welcomes its client."""
        self._transport.set_protocol(self)
        self._service.clients.enter(self)
        self._service.clients.greeted(self, self.make_room)
        self._transport.set_write_buffer_limits(0)
        self._transport.write(PREAMBLE + self._service.welcome())
        self._incoming.reader.set_body_bytes_max(self._service.points.config.request_bytes_max)
        self._serving = self._loop.create_task(self._serve())

    # Calls of the transport

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._service.scratch if self._state is _State.ENDED else self._incoming.reader.room()
        return room[:_RECEIVED_BYTES_MAX]

    def buffer_updated(self, nbytes: int) -> None:
        self._is_quiet = False
        if self._state is _State.OPEN:
            self._incoming.received(nbytes)
            self._deliver_or_receive()

    def eof_received(self) -> bool:
        self.abort()  # The client has left: nobody reads the answers. What has begun is completed.
        return False

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._unread.begin(self._transport.get_write_buffer_size(), self._monotonic())

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = _State.CLOSED
        self._drop_batches()
        self._incoming.drop()
        if self._serving is not None:
            self._serving.cancel()
            self._serving = None  # It would keep the batches that have not begun until a garbage collection.
        self._service.clients.leave(self)

    # Batches

    async def _serve(self) -> None:
        failure: Exception | None = None
        try:
            await self._service.bulk.serve(self._read, self._write, self._release)
        except Exception as error:
            failure = error
        if self._state is _State.OPEN and failure is not None:
            self._end_with(failure)
        if failure is not None:
            failure.with_traceback(None)  # It would keep the batches that have not begun until the garbage collection.

    async def _read(self) -> Body:
        """Returns the next batch. Raises the error with which the connection ends instead."""
        wanted: asyncio.Future[Body] = self._loop.create_future()
        self._wanted = wanted
        self._deliver_or_receive()
        return await wanted

    def _deliver_or_receive(self) -> None:
        """Delivers the next batch, or receives on, if BulkStreams waits for one. Else pauses reading."""
        wanted, incoming = self._wanted, self._incoming
        if wanted is None or wanted.done():
            self._pause_reading()
            incoming.hold()
            return
        found, error = incoming.next_frame(), incoming.error()
        if found is not None and found[0] != BULK_BATCH:
            error = InvalidRequestError(
                f"a frame of kind {found[0]} is unknown on a connection for bulk batches; send BULK_BATCH"
            )
        if error is not None:
            wanted.set_exception(error)
        elif found is not None:
            self._deliver(wanted, found[1])
        elif not incoming.reader.large_bytes or self._begin_large():
            self._resume_reading()
        else:
            self._pause_reading()
        incoming.hold()

    def _deliver(self, wanted: asyncio.Future[Body], body: Body) -> None:
        self._wanted = None  # It would keep the batch for as long as BulkStreams asks for no other one.
        self._requests.add(len(body) - self._incoming.pass_on())
        self._held_bytes.append(len(body))
        self._unanswered_count += 1
        self._has_served = True
        self._pause_reading()
        wanted.set_result(body)

    def _release(self) -> None:
        """Stops counting the oldest batch that is still counted here."""
        if self._held_bytes:
            self._requests.give(self._held_bytes.popleft())

    def _begin_large(self) -> bool:
        """Allocates memory for the large batch that comes. If there is none, returns False and waits for some."""
        has_begun = self._has_begun_large()
        if not has_begun:
            if self._memory_deadline is None:
                self._memory_deadline = self._loop.call_later(ADMISSION_WAIT_SECONDS, self._refuse)
            self._service.when_memory_is_given(self._try_again)
            has_begun = self._has_begun_large()  # Memory may have been released before that.
        if has_begun:
            self._stop_waiting()
        return has_begun

    def _has_begun_large(self) -> bool:
        may_receive = self._service.bulk.may_receive(self._incoming.reader.large_bytes)
        try:
            return may_receive and self._incoming.begin_large(_memory)
        except MemoryError:
            return False

    def _try_again(self) -> None:
        if self._state is _State.OPEN and self._incoming.reader.large_bytes:
            self._deliver_or_receive()

    def _refuse(self) -> None:
        """Gives up waiting for memory. The batch was not received, so the connection can't go on."""
        self._memory_deadline = None
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_exception(self._requests.refusal(REQUEST_COST * self._incoming.reader.large_bytes))

    def _stop_waiting(self) -> None:
        if self._memory_deadline is not None:
            self._memory_deadline.cancel()
            self._memory_deadline = None

    async def _write(self, answer: bytes) -> None:
        await self._may_write.wait()
        self._unanswered_count -= 1
        self._idle_since = self._monotonic()
        self._transport.write(frame(BULK_ANSWER, answer))

    def _pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._incoming.read_on()
            self._transport.resume_reading()

    # Ending

    def stop(self) -> None:
        """Does nothing: BulkStreams stops, too, answers the batches that have begun, and ends with SERVER_STOPPING."""

    def _end_with(self, error: Exception) -> None:
        """Takes no more batches, and ends the connection with this error."""
        if isinstance(error, InvalidRequestError):
            self._service.log.dropped(self._peer, error.message)
        self._state = _State.ENDED
        self._ended_since = self._monotonic()
        self._drop_batches()
        self._incoming.drop_frames()
        self._transport.write(frame(END, error_message(error, "serving bulk batches").SerializeToString()))
        self._resume_reading()
        with contextlib.suppress(OSError):  # The client is gone.
            self._transport.write_eof()
        if isinstance(error, StoppingError):
            self._close_when_quiet()

    def _close_when_quiet(self) -> None:
        """Closes the connection when the client sends no more. Closed before that, it would lose the END."""
        if self._state is _State.ENDED:
            if self._is_quiet:
                self._transport.close()
            else:
                self._is_quiet = True
                self._loop.call_later(_QUIET_SECONDS, self._close_when_quiet)

    def _drop_batches(self) -> None:
        """Drops those that BulkStreams has not counted yet."""
        self._stop_waiting()
        while self._held_bytes:
            self._release()

    def look(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes:
            if self._unread.is_too_long(unsent_bytes, now):
                self.drop(f"it has read nothing for {UNREAD_SECONDS_MAX:g} s, and {unsent_bytes} bytes wait")
        elif self._state is _State.ENDED:
            if now - self._ended_since > ENDED_SECONDS_MAX:
                self.abort()
        elif not self._is_paused and (slowness := self._incoming.slowness(now)):
            self.drop(slowness)
        elif self._is_idle and now - self._idle_since > IDLE_SECONDS_MAX:
            self.abort()

    @property
    def _is_idle(self) -> bool:
        return not self._unanswered_count and not self._incoming.reader.has_bytes

    def make_room(self) -> bool:
        """Closes the connection if its client has no batch under way. Returns whether it did."""
        # Not before the first batch, which is on the way.
        if self._state is not _State.OPEN or not self._has_served or self._transport.is_closing():
            return False
        if not self._is_idle or self._transport.get_write_buffer_size():
            return False
        self.abort()
        return True

    def drop(self, reason: str) -> None:
        """Closes the connection at once, with a line in the log."""
        self._service.log.dropped(self._peer, reason)
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()


def _memory(byte_count: int) -> memoryview:
    """Returns memory that is not cleared. To clear it would take as long as to receive the batch."""
    return memoryview(pa.allocate_buffer(byte_count)).cast("B")
