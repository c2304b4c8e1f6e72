"""A direct connection for bulk batches: its client has greeted with `bulk`. docs/direct_protocol.md.

1. The states: OPEN → ENDED → CLOSED. ENDED: the END frame is on its way; the client has a moment to close its side.
   What it sends meanwhile is dropped, as in connection.py.
2. BulkStreams serves the connection as it serves a call of gRPC. It asks for one batch at a time; nothing is received
   until it does, so the client waits.
3. A batch is received into memory of its own, which the ledger has counted before. If it has none in time, the
   connection ends with a retryable error. The count passes on to BulkStreams when the batch is admitted.
4. A client that does not read its answers gets no others, and its batches are not received.
5. A connection without a batch for long is closed without a word, and when another client needs its place.
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
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, UNREAD_SECONDS_MAX, Unread
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.messages.failures import error_message

# How long a connection may be without a batch. Clients drop theirs earlier.
IDLE_SECONDS_MAX = 60.0
# What is received at once: the event loop serves other connections between two receives.
_RECEIVED_BYTES_MAX = 256 * KIB


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
        self._idle_since = self._monotonic()  # or since when the connection has ended
        self._serving: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[Body] | None = None  # the batch for which BulkStreams waits
        self._is_paused = False
        self._no_memory: asyncio.TimerHandle | None = None  # ends the wait for memory
        self._held_bytes: deque[int] = deque()  # of batches that were received and are not admitted
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
        if self._state is _State.OPEN:
            self._incoming.received(nbytes)
            self._take()

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
        self._stop_waiting()
        self._incoming.drop()
        while self._held_bytes:
            self._release()
        if self._serving is not None:
            self._serving.cancel()
            self._serving = None  # It would keep the batches that have not begun until a garbage collection.
        self._service.clients.leave(self)

    # Batches

    async def _serve(self) -> None:
        failure: Exception | None = None
        try:
            await self._service.serve_bulk(self._read, self._write, self._release)
        except Exception as error:
            failure = error
        if self._state is _State.OPEN and failure is not None:
            self._end_with(failure)

    async def _read(self) -> Body:
        """Returns the next batch. Raises the error with which the connection ends instead."""
        wanted: asyncio.Future[Body] = self._loop.create_future()
        self._wanted = wanted
        self._take()
        return await wanted

    def _take(self) -> None:
        """Gives the batch that has come to BulkStreams, if that waits for one. Receives on only while it does."""
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
            self._give(wanted, found[1])
        elif not incoming.reader.large_bytes or self._begin_large():
            self._resume_reading()
        else:
            self._pause_reading()
        incoming.hold()

    def _give(self, wanted: asyncio.Future[Body], body: Body) -> None:
        self._requests.add(len(body))
        self._held_bytes.append(len(body))
        self._unanswered_count += 1
        self._has_served = True
        self._pause_reading()
        wanted.set_result(body)

    def _release(self) -> None:
        """Counts the oldest batch no more that is counted here."""
        if self._held_bytes:
            self._requests.give(self._held_bytes.popleft())

    def _begin_large(self) -> bool:
        """Makes the memory for a large batch that comes. Returns False if there is none; then it waits for some."""
        if self._incoming.begin_large(_memory):
            self._stop_waiting()
            return True
        if self._no_memory is None:
            self._no_memory = self._loop.call_later(ADMISSION_WAIT_SECONDS, self._refuse)
        self._service.when_memory_is_given(self._try_again)
        return self._incoming.begin_large(_memory)  # Memory may have been released before that.

    def _try_again(self) -> None:
        if self._state is _State.OPEN and self._incoming.reader.large_bytes:
            self._take()

    def _refuse(self) -> None:
        """Gives up waiting for memory. The batch was not received, so the connection can't go on."""
        self._no_memory = None
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_exception(self._requests.refusal(self._incoming.reader.large_bytes))

    def _stop_waiting(self) -> None:
        if self._no_memory is not None:
            self._no_memory.cancel()
            self._no_memory = None

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
        """Ends nothing: BulkStreams, which stops too, answers what has begun and ends with SERVER_STOPPING."""

    def _end_with(self, error: Exception) -> None:
        """Takes no more batches, and ends the connection with this error."""
        if isinstance(error, InvalidRequestError):
            self._service.log.dropped(self._peer, error.message)
        self._state = _State.ENDED
        self._idle_since = self._monotonic()
        self._stop_waiting()
        self._incoming.drop_frames()
        self._transport.write(frame(END, error_message(error, "serving bulk batches").SerializeToString()))
        if isinstance(error, StoppingError):
            self._transport.close()
        else:
            self._resume_reading()
            with contextlib.suppress(OSError):  # The client is gone.
                self._transport.write_eof()

    def look(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes:
            if self._unread.is_too_long(unsent_bytes, now):
                self.drop(f"it has read nothing for {UNREAD_SECONDS_MAX:g} s, and {unsent_bytes} bytes wait")
        elif self._state is _State.ENDED:
            if now - self._idle_since > ENDED_SECONDS_MAX:
                self.abort()
        elif not self._is_paused and (slowness := self._incoming.slowness(now)):
            self.drop(slowness)
        elif self._is_idle and now - self._idle_since > IDLE_SECONDS_MAX:
            self.abort()

    @property
    def _is_idle(self) -> bool:
        return not self._unanswered_count and not self._incoming.reader.has_bytes

    def make_room(self) -> bool:
        """Closes the connection and returns True, if its client only keeps it for later batches."""
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
    """Returns memory that is not cleared first, which would take as long as receiving the batch."""
    return memoryview(pa.allocate_buffer(byte_count)).cast("B")
