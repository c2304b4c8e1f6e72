"""A direct connection for scans, one after another: its client has greeted with `scans`. docs/direct_protocol.md.

1. stream_connection.py has the states, and says when a connection is closed.
2. Scans serves the scan as it serves a call of gRPC: read point, lease, session and memory are its own. The worker
   thread that makes a batch sends it. A batch is written when the system has taken it whole.
3. A scan that ends early, perhaps in the middle of a batch because its client does not read, leaves the rest of the
   batch here, then SCAN_END with the error. The ledger counts them; a client that takes nothing of them is dropped.
4. A client sends nothing while its scan is running. It closes the connection to end the scan.
"""

from __future__ import annotations

import asyncio
import contextlib

from rowlock_proto.direct_frames import END, SCAN, SCAN_BATCH, SCAN_BODY_BYTES_MAX, SCAN_END

from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.engine.scans import BatchSender
from rowlock_regionserver.errors import InvalidRequestError, RegionServerError, StoppingError
from rowlock_regionserver.rpc.direct.frame_sender import FrameSender
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.direct.stream_connection import State, StreamConnection
from rowlock_regionserver.rpc.messages.failures import error_message


class ScanConnection(StreamConnection):
    """Serves one scan at a time."""

    def __init__(self, service: DirectService, transport: asyncio.Transport, peer: str, incoming: Incoming) -> None:
        super().__init__(service, transport, peer, incoming)
        self._sender = FrameSender(transport.get_extra_info("socket"), service.ledger.scans, transport.abort)
        self._is_scanning = False
        self._task: asyncio.Task[None] | None = None  # serves a scan, or ends the connection
        self._is_stopping = False

    def welcome(self) -> None:
        """Takes the connection over, and welcomes its client."""
        self._take_over(SCAN_BODY_BYTES_MAX)
        self._take()

    # Calls of the transport

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is not State.OPEN:
            return
        # A scan is running for its client until the SCAN_END has arrived.
        if self._is_scanning or self._sender.unsent_bytes:
            self.drop("it sent something while its scan was running")
        else:
            self._incoming.received(nbytes)
            self._take()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._sender.close()
        if self._task is not None:
            self._task.cancel()

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
                self._is_scanning = self._has_served = True
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
        if self._state is State.OPEN:
            self._task = None
            self._is_scanning = False  # Before the end is sent: after that the next scan may come.
            self._quiet_since = self._monotonic()
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
        if self._state is State.OPEN and not self._is_scanning:
            self._end_with(StoppingError("the server is stopping; no scan was running on this connection"))

    def _end_with(self, error: RegionServerError) -> None:
        """Takes no more scans, and ends the connection with this error."""
        self._set_ended()
        self._send_last(END, error, "reading frames")
        self._task = self._loop.create_task(self._finish(is_stopping=isinstance(error, StoppingError)))

    async def _finish(self, *, is_stopping: bool) -> None:
        rest = self._sender.send_rest()
        if rest is not None:
            await rest
        self._quiet_since = self._monotonic()
        if is_stopping:
            self._transport.close()
        else:
            with contextlib.suppress(OSError):  # The client is gone.
                self._transport.write_eof()

    @property
    def _unsent_bytes(self) -> int:
        return self._sender.unsent_bytes

    @property
    def _is_idle(self) -> bool:
        return self._state is State.OPEN and not self._is_scanning and not self._incoming.reader.has_bytes

    def drop_if_silent(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be. A running scan has its lease."""
        if not self._is_scanning:
            super().drop_if_silent(now)
