"""A direct connection for scans, one after another: its client has greeted with `scans`. docs/direct_protocol.md.

1. The states: IDLE → SCANNING → IDLE ... → ENDED → CLOSED. ENDED: the END frame is on its way; the client has a moment
   to close its side. What it sends meanwhile is dropped, as in connection.py.
2. Scans serves the scan as it serves a call of gRPC: read point, lease, session and memory are its own. The worker
   thread that makes a batch sends it. A batch is written when the system has taken it whole.
3. A scan that ends early, perhaps in the middle of a batch because its client does not read, leaves the rest of the
   batch here, then SCAN_END with the error. The ledger counts them; a client that takes nothing of them is dropped.
4. A client sends nothing while its scan is running. It closes the connection to end the scan.
5. A connection that is idle for long is closed without a word: its client asks again on another one. One that has had
   a scan and is idle is closed so, too, when another client needs its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum

from rowlock_proto.direct_frames import END, PREAMBLE, SCAN, SCAN_BATCH, SCAN_BODY_BYTES_MAX, SCAN_END

from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.engine.scans import BatchSender
from rowlock_regionserver.errors import InvalidRequestError, RegionServerError, StoppingError
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, IDLE_SECONDS_MAX, UNREAD_SECONDS_MAX, Unread
from rowlock_regionserver.rpc.direct.frame_sender import FrameSender
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.messages.failures import error_message


class _State(enum.Enum):
    """The states, in this order."""

    IDLE = enum.auto()
    SCANNING = enum.auto()
    ENDED = enum.auto()
    CLOSED = enum.auto()


class ScanConnection(asyncio.BufferedProtocol):
    """A protocol of asyncio, which takes a connection over after its greeting. Used on the event loop."""

    def __init__(self, service: DirectService, transport: asyncio.Transport, peer: str, incoming: Incoming) -> None:
        self._service = service
        self._transport = transport
        self._peer = peer
        self._incoming = incoming
        self._loop = asyncio.get_running_loop()
        self._monotonic = service.points.clock.monotonic
        self._sender = FrameSender(transport.get_extra_info("socket"), service.ledger.scans, transport.abort)
        self._state = _State.IDLE
        self._state_since = self._monotonic()
        self._task: asyncio.Task[None] | None = None  # serves a scan, or ends the connection
        self._is_stopping = False
        self._has_served = False
        self._unread = Unread()  # for `look`

    def welcome(self) -> None:
        """Takes the connection over, and welcomes its client."""
        self._transport.set_protocol(self)
        self._service.clients.enter(self)
        self._service.clients.greeted(self, self.make_room)
        self._transport.write(PREAMBLE + self._service.welcome())
        self._incoming.reader.set_body_bytes_max(SCAN_BODY_BYTES_MAX)
        self._take()

    # Calls of the transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._service.scratch if self._state is _State.ENDED else self._incoming.reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is _State.SCANNING or (self._state is _State.IDLE and self._sender.unsent_bytes):
            # A scan is running for its client until the SCAN_END has arrived.
            self.drop("it sent something while its scan was running")
        elif self._state is _State.IDLE:
            self._incoming.received(nbytes)
            self._take()

    def eof_received(self) -> bool:
        self.abort()  # The client has left: nobody reads the rest of its scan.
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_state(_State.CLOSED)
        self._sender.close()
        self._incoming.drop()
        if self._task is not None:
            self._task.cancel()
        self._service.clients.leave(self)

    # Scans

    def _take(self) -> None:
        """Begins a scan, if its request has come."""
        found = self._incoming.next_frame()
        error: InvalidRequestError | None = None
        if self._incoming.reader.error is not None:
            error = InvalidRequestError(
                f"{self._incoming.reader.error}; docs/direct_protocol.md has the format, and a larger request goes "
                "by gRPC"
            )
        elif found is not None:
            kind, body = found
            if kind != SCAN:
                error = InvalidRequestError(f"a frame of kind {kind} is unknown on a connection for scans; send SCAN")
            elif self._incoming.reader.has_bytes:
                error = InvalidRequestError("a SCAN is followed by more bytes; send nothing until the scan has ended")
            else:
                self._set_state(_State.SCANNING)
                self._has_served = True
                self._task = self._loop.create_task(self._serve(bytes(body)))
        if error is not None:
            self._service.log.dropped(self._peer, error.message)
            self._end_with(error)
        self._incoming.hold()

    async def _serve(self, request: bytes) -> None:
        failure: Exception | None = None
        try:
            await self._service.serve_scan(request, self._peer, BatchSender(self._send, self._sender.send_rest))
        except Exception as error:
            failure = error
        if self._state is not _State.CLOSED:
            self._task = None
            self._set_state(_State.IDLE)  # Before the end is sent: after that the next scan may come.
            self._send_last(SCAN_END, failure, "scanning")
        if failure is not None:
            failure.with_traceback(None)  # It would keep the scan's batches until the garbage collection.
        if self._is_stopping:
            self.stop()

    def _send(self, batch: EncodedMessage) -> bool:
        """From a worker thread."""
        return self._sender.send_now(SCAN_BATCH, batch)

    def _send_last(self, kind: int, failure: Exception | None, doing: str) -> None:
        """Sends a frame that nobody waits for."""
        self._sender.send(kind, error_message(failure, doing).SerializeToString() if failure is not None else b"")
        self._sender.keep_unsent()
        self._unread.begin(self._sender.unsent_bytes, self._monotonic())

    # Ending

    def stop(self) -> None:
        """Ends the connection; if a scan is running, when that has ended."""
        self._is_stopping = True
        if self._state is _State.IDLE:
            self._end_with(StoppingError("the server is stopping; no scan was running on this connection"))

    def _end_with(self, error: RegionServerError) -> None:
        """Takes no more scans, and ends the connection with this error."""
        self._set_state(_State.ENDED)
        self._incoming.drop_frames()
        self._send_last(END, error, "reading frames")
        self._task = self._loop.create_task(self._finish(is_stopping=isinstance(error, StoppingError)))

    async def _finish(self, *, is_stopping: bool) -> None:
        rest = self._sender.send_rest()
        if rest is not None:
            await rest
        self._state_since = self._monotonic()
        if is_stopping:
            self._transport.close()
        else:
            with contextlib.suppress(OSError):  # The client is gone.
                self._transport.write_eof()

    def _set_state(self, state: _State) -> None:
        self._state = state
        self._state_since = self._monotonic()

    def look(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""
        if self._state is _State.SCANNING:
            return  # The scan has its lease.
        unsent_bytes = self._sender.unsent_bytes
        if unsent_bytes:
            if self._unread.is_too_long(unsent_bytes, now):
                self.drop(f"it has read nothing for {UNREAD_SECONDS_MAX:g} s, and {unsent_bytes} bytes wait")
        elif self._state is _State.ENDED:
            if now - self._state_since > ENDED_SECONDS_MAX:
                self.abort()
        elif slowness := self._incoming.slowness(now):
            self.drop(slowness)
        elif not self._incoming.reader.has_bytes and now - self._state_since > IDLE_SECONDS_MAX:
            self.abort()

    def make_room(self) -> bool:
        """Closes the connection and returns True, if its client only keeps it for a later scan."""
        # Not before the first scan: its request is on the way, and a client may take its loss for that of the server.
        if self._state is not _State.IDLE or not self._has_served or self._transport.is_closing():
            return False
        if self._sender.unsent_bytes or self._incoming.reader.has_bytes:
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
