"""A direct connection for bulk batches: its client has greeted with `bulk`. docs/direct_protocol.md.

1. stream_connection.py has the states, and says when a connection is closed.
2. BulkStreams serves the connection as it serves a call of gRPC. It asks for one batch at a time. Until it asks, at
   most one receive is held, and the socket makes the client wait.
3. A batch of more than 64 KiB is received into memory that the ledger has counted; a smaller one is counted when it
   has come. If there is no memory in time, the connection ends with a retryable error. BulkStreams takes the count over
   when it asks for the batch's admission.
4. While a client does not read its answers, the server sends it no more and receives none of its batches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import pyarrow as pa
from rowlock_proto.direct_frames import BULK_ANSWER, BULK_BATCH, END, Body, frame

from rowlock_regionserver.config import KIB
from rowlock_regionserver.engine.bulk_streams import ADMISSION_WAIT_SECONDS
from rowlock_regionserver.errors import InvalidRequestError, StoppingError
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.direct.stream_connection import State, StreamConnection
from rowlock_regionserver.rpc.messages.failures import error_message

# What is received at once: the event loop serves other connections between two receives.
_RECEIVED_BYTES_MAX = 256 * KIB
# When the server stops, a client from which nothing has come for this long is not sending a batch.
_SILENT_SECONDS = 0.2


class BulkConnection(StreamConnection):
    """Serves batches until its client or the server stops."""

    def __init__(self, service: DirectService, transport: asyncio.Transport, peer: str, incoming: Incoming) -> None:
        super().__init__(service, transport, peer, incoming)
        self._requests = service.ledger.requests
        self._serving: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[Body] | None = None  # the batch for which BulkStreams waits
        self._is_paused = False
        self._memory_deadline: asyncio.TimerHandle | None = None  # of the wait for memory
        self._held_bytes: deque[int] = deque()  # of batches that BulkStreams has not counted yet
        self._is_silent = True  # since the last check of a connection that has ended
        self._unanswered_count = 0
        self._may_write = asyncio.Event()
        self._may_write.set()

    def welcome(self) -> None:
        """Takes the connection over, and welcomes its client."""
        self._transport.set_write_buffer_limits(0)
        self._take_over(self._service.points.config.request_bytes_max)
        self._serving = self._loop.create_task(self._serve())

    # Calls of the transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return super().get_buffer(sizehint)[:_RECEIVED_BYTES_MAX]

    def buffer_updated(self, nbytes: int) -> None:
        self._is_silent = False
        if self._state is State.OPEN:
            self._incoming.received(nbytes)
            self._deliver_or_receive()

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._unread.begin(self._transport.get_write_buffer_size(), self._monotonic())

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._drop_batches()
        if self._serving is not None:
            self._serving.cancel()
            self._serving = None  # It would keep the batches that have not begun until a garbage collection.

    # Batches

    async def _serve(self) -> None:
        failure: Exception | None = None
        try:
            await self._service.bulk.serve(self._read, self._write, self._release)
        except Exception as error:
            failure = error
        if self._state is State.OPEN and failure is not None:
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
        if self._state is State.OPEN and self._incoming.reader.large_bytes:
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
        self._quiet_since = self._monotonic()
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
        self._set_ended()
        self._drop_batches()
        self._transport.write(frame(END, error_message(error, "serving bulk batches").SerializeToString()))
        self._resume_reading()
        with contextlib.suppress(OSError):  # The client is gone.
            self._transport.write_eof()
        if isinstance(error, StoppingError):
            self._close_when_silent()

    def _close_when_silent(self) -> None:
        """Closes the connection when the client sends no more. Closed before that, it would lose the END."""
        if self._state is State.ENDED:
            if self._is_silent:
                self._transport.close()
            else:
                self._is_silent = True
                self._loop.call_later(_SILENT_SECONDS, self._close_when_silent)

    def _drop_batches(self) -> None:
        """Drops those that BulkStreams has not counted yet."""
        self._stop_waiting()
        while self._held_bytes:
            self._release()

    @property
    def _unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def _is_idle(self) -> bool:
        return self._state is State.OPEN and not self._unanswered_count and not self._incoming.reader.has_bytes

    def _slowness(self, now: float) -> str:
        return "" if self._is_paused else super()._slowness(now)


def _memory(byte_count: int) -> memoryview:
    """Returns memory that is not cleared. To clear it would take as long as to receive the batch."""
    return memoryview(pa.allocate_buffer(byte_count)).cast("B")
