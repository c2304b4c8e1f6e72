"""One direct connection: reads frames, begins their requests, and sends answers. docs/direct_protocol.md.

1. The states: GREETING → OPEN → ENDING → ENDED → CLOSED. ENDING: nothing more is begun, and what has begun is answered.
   ENDED: all is sent; the client has a moment to close its side.
2. The requests of a frame begin in its order, adjacent puts together. Those that need not wait are answered in one
   frame; the others later, together with all that are ready by then. A change alone in its frame may be made together
   with those of other connections (turn.py).
3. A connection begins requests for half a millisecond at most. Then the changes that it has gathered are made, which
   takes as long again, and it stands behind the others. One that floods the server pauses while scans are running.
4. It is not read from, and begins no request, while its client has too many unread answers, while a large frame or a
   message to parse waits for memory, and while what has come is not taken.
5. A client that breaks the protocol gets the answers to the requests that it sent before, then an END frame with the
   reason. What it sends after that is read and dropped: if its socket were closed with unread bytes in it, the system
   would discard the END.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging

from rowlock_proto.direct_frames import END, HELLO, PONG, PREAMBLE, VersionError
from rowlock_proto.v1.direct_pb2 import DirectHello

from rowlock_regionserver.errors import InvalidRequestError, RegionServerError, StoppingError
from rowlock_regionserver.rpc.direct.bulk_connection import BulkConnection
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, UNREAD_SECONDS_MAX, Unread, probe_client
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.outgoing import Outgoing
from rowlock_regionserver.rpc.direct.scan_connection import ScanConnection
from rowlock_regionserver.rpc.direct.service import DirectService, version_refusal
from rowlock_regionserver.rpc.messages.failures import error_message, parsed

logger = logging.getLogger(__name__)

# The longest time between two yields to the event loop. A yield costs two iterations of the loop, some 20 µs each.
SLICE_SECONDS_MAX = 0.0005
# A connection whose every receive is full, and that uses up this many slices meanwhile, floods the server: callers that
# wait for their answers have fewer requests on the way. While scans are running it pauses after each slice, this long
# for each step of a scan: the event loop takes the interpreter whenever the scans' threads release it for a moment, and
# they would hardly get it back.
FLOOD_SLICES = 400
PAUSE_SECONDS_A_STEP = 0.002
PAUSE_SECONDS_MAX = 0.008
GREETING_SECONDS_MAX = 10.0


class _State(enum.Enum):
    """The states, in this order."""

    GREETING = enum.auto()
    OPEN = enum.auto()
    ENDING = enum.auto()
    ENDED = enum.auto()
    CLOSED = enum.auto()


# Python 3.11 finds a global ten times as fast as a member in its enum, and each frame asks seven times.
_GREETING, _OPEN, _ENDING, _ENDED, _CLOSED = _State


class DirectConnection(asyncio.BufferedProtocol):
    """A protocol of asyncio, and the responder of its requests. Used on the loop, except where Responder says so."""

    def __init__(self, service: DirectService) -> None:
        self._service = service
        self._points = service.points
        self._loop = asyncio.get_running_loop()
        self._monotonic = service.points.clock.monotonic
        self._transport: asyncio.Transport
        self._peer = "a client"
        self._state = _State.GREETING
        self._incoming = Incoming(service, self, self._ping, self._when_parsed)
        self._outgoing = Outgoing(self._points.answers, self._points.config.request_bytes_max)
        self._open_count = 0  # requests to answer
        self.is_gone = False
        self._is_taking = False
        self._is_flush_due = False
        self._is_turn_due = False
        self._is_turn_missed = False  # because of unread answers
        self._is_paused = False
        self._end: RegionServerError | None = None
        self._slice_began = 0.0
        self._room_bytes = 0
        self._slices_in_a_row = 0  # used up since a receive took all that was waiting
        # For `look`: since when the state and the unread answers have been as they are.
        self._state_since = self._monotonic()
        self._unread = Unread()

    # Calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outgoing.set_transport(transport)
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if name and isinstance(name, tuple) else "a Unix socket"
        probe_client(transport.get_extra_info("socket"))
        self._service.clients.enter(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._incoming.reader.room() if self._is_reading else self._service.scratch
        self._room_bytes = len(room)
        return room

    def buffer_updated(self, nbytes: int) -> None:
        if nbytes < self._room_bytes:
            self._slices_in_a_row = 0  # No more was waiting.
        if self._is_reading:
            self._incoming.received(nbytes)
            if self._state is _GREETING:
                self._greet()
                self._incoming.hold()
            else:
                self._take_turn()

    @property
    def _is_reading(self) -> bool:
        """Whether it takes what it receives."""
        return self._state is _OPEN or self._state is _GREETING

    def eof_received(self) -> bool:
        self.abort()  # The client has left: nothing that it has sent need begin, and no answer need be sent.
        return False

    def pause_writing(self) -> None:
        self._outgoing.block()
        self._unread.begin(self._outgoing.blocked_bytes, self._monotonic())

    def resume_writing(self) -> None:
        self._outgoing.unblock()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_state(_State.CLOSED)
        self.is_gone = True
        self._outgoing.close()
        self._points.caller_is_gone()
        self._incoming.drop()
        self._service.clients.leave(self)

    # Greeting

    def _greet(self) -> None:
        found = self._incoming.next_frame()
        error = self._incoming.reader.error
        if isinstance(error, VersionError):
            self._refuse(version_refusal(error))
        elif error is not None:
            self.drop(str(error))
        elif found is not None:
            kind, body = found
            if kind == HELLO:
                self._welcome(bytes(body))
            else:
                self.drop(f"its first frame is of kind {kind}, not a hello")

    def _welcome(self, body: bytes) -> None:
        service = self._service
        hello = DirectHello()
        try:
            hello = parsed(DirectHello, body)
            refusal = service.refusal_of_hello(hello)
        except InvalidRequestError as error:
            refusal = error
        if refusal is not None:
            self._refuse(refusal)
            return
        if hello.scans:
            service.clients.leave(self)
            ScanConnection(service, self._transport, self._peer, self._incoming).welcome()
            return
        if hello.bulk:
            service.clients.leave(self)
            BulkConnection(service, self._transport, self._peer, self._incoming).welcome()
            return
        self._transport.write(PREAMBLE + service.welcome())
        self._incoming.reader.set_body_bytes_max(self._points.config.request_bytes_max)
        self._set_state(_State.OPEN)
        service.clients.greeted(self)
        self._take_turn()

    def _refuse(self, error: RegionServerError) -> None:
        """Welcomes the client with an error, and ends the connection."""
        self._service.log.dropped(self._peer, error.message)
        self._transport.write(PREAMBLE + self._service.welcome(error))
        self._incoming.drop_frames()
        self._set_state(_State.ENDING)
        self._finish()

    # Taking what has come

    def _take_turn(self) -> None:
        """Takes what has come, for one slice at most. Then yields, or waits for what it lacks, or reads on."""
        if not (self._state is _OPEN or self._state is _ENDING):
            return
        incoming = self._incoming
        self._slice_began = self._monotonic()
        self._is_taking = True
        try:
            is_all_taken = incoming.take(self._must_yield)
        except InvalidRequestError as error:
            self._end_with(error)
            is_all_taken = True
        finally:
            self._is_taking = False
        incoming.hold()
        self._flush()
        if not is_all_taken:
            self._pause_reading()
            if self._is_unread_too_much():
                self._is_turn_missed = True
                incoming.set_aside()
            elif not incoming.may_continue:
                self._service.when_memory_is_given(self._take_turn_soon)
                if incoming.may_continue:  # Memory was released before that.
                    self._take_turn_soon()
            elif not incoming.is_parsing:
                self._take_turn_later()
        elif self._state is _OPEN and (self._is_paused or incoming.has_error_or_large_frame):
            self._read_on()

    def _take_turn_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            # asyncio makes this call before those of sockets that it finds ready, and the one it asks for after them.
            self._loop.call_soon(self._loop.call_soon, self._take_due_turn)

    def _take_turn_later(self) -> None:
        """Takes a turn after the other connections; if this one floods the server, after running scans, too."""
        self._slices_in_a_row += 1
        step_count = self._points.workers.scan_step_count
        if not step_count or self._slices_in_a_row <= FLOOD_SLICES or self._state is not _OPEN:
            self._take_turn_soon()
        elif not self._is_turn_due:
            self._is_turn_due = True
            pause = min(PAUSE_SECONDS_A_STEP * step_count, PAUSE_SECONDS_MAX)
            self._loop.call_later(pause, self._take_due_turn)

    def _take_due_turn(self) -> None:
        self._is_turn_due = False
        self._service.turn.end()  # Changes that came since the last slice are not after this one.
        self._take_turn()

    def _must_yield(self) -> bool:
        return self._monotonic() - self._slice_began > SLICE_SECONDS_MAX or self._is_unread_too_much()

    def _is_unread_too_much(self) -> bool:
        """Whether the client has more unread answers than a connection may have."""
        unread_bytes = self._outgoing.unread_bytes
        return unread_bytes > 0 and unread_bytes > self._points.unread_bytes_max

    def _read_on(self) -> None:
        """All frames that came are taken: reads on, or ends."""
        incoming = self._incoming
        error = incoming.error()
        if error is not None:
            self._end_with(error)
        elif not incoming.reader.large_bytes or incoming.begin_large():
            self._resume_reading()
        else:
            self._pause_reading()
            self._service.when_memory_is_given(self._take_turn_soon)
            if incoming.begin_large():  # Memory was released before that.
                self._resume_reading()

    def _when_parsed(self, failure: Exception | None) -> None:
        """Called when a large message was parsed."""
        if isinstance(failure, InvalidRequestError):
            self._end_with(failure)
        elif failure is not None:
            logger.error("unexpected error while reading a large message", exc_info=failure)
            self._transport.abort()
        self._take_turn()

    def _pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # Answering

    def opened(self, count: int) -> None:
        """Counts this many requests, each of which `send` will answer."""
        self._open_count += count

    @property
    def unread_bytes(self) -> int:
        return self._outgoing.unread_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        return self._outgoing.answers.reserve(byte_count, must_fit=must_fit)

    def release(self, byte_count: int) -> None:
        self._outgoing.answers.release(byte_count)

    def send(self, answer: bytes, count: int = 1) -> None:
        """Sends answers. Those that arrive while a frame is taken, or together, are sent together."""
        self._open_count -= count
        self._outgoing.add(answer)
        if not (self._is_taking or self._is_flush_due):
            self._is_flush_due = True
            self._points.soon(self._flush)

    def hold_answers(self) -> None:
        """Holds answers back until `send_held`, which follows soon (turn.py)."""
        self._is_flush_due = True

    def send_held(self) -> None:
        """Sends the answers."""
        self._flush()

    def _ping(self, body: bytes) -> None:
        self._outgoing.set_frame(PONG, body)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._state is not _CLOSED:
            self._outgoing.flush()
            if self._is_turn_missed and not self._is_unread_too_much():
                self._is_turn_missed = False
                self._take_turn_soon()
            if self._state is _ENDING:
                self._finish()

    # Ending

    def stop(self) -> None:
        """Ends the connection when the requests that it has begun are answered."""
        if self._state is _GREETING:
            self.abort()
        else:
            self._end_with(StoppingError("the server is stopping; every request that it read was answered"))

    def _end_with(self, error: RegionServerError) -> None:
        """Takes no more frames, and ends the connection with this error when what has begun is answered."""
        if self._state is not _OPEN:
            return
        if not isinstance(error, StoppingError):
            self._service.log.dropped(self._peer, error.message)
        # Its traceback would keep the message that it is about, for as long as the client reads no answers.
        self._end = error.with_traceback(None)
        error.__context__ = None
        self._incoming.drop_frames()
        self._set_state(_State.ENDING)
        self._finish()

    def _finish(self) -> None:
        """Ends the connection if all is answered and sent."""
        if self._open_count or self._incoming.has_begun_message or not self._outgoing.is_empty:
            return
        self._set_state(_State.ENDED)
        if self._end is not None:
            self._outgoing.set_frame(END, error_message(self._end, "reading frames").SerializeToString())
            self._outgoing.flush()
        if isinstance(self._end, StoppingError):
            self._transport.close()  # It sends what it still holds.
        else:
            self._resume_reading()
            with contextlib.suppress(OSError):  # The client is gone.
                self._transport.write_eof()

    def _set_state(self, state: _State) -> None:
        self._state = state
        self._state_since = self._monotonic()

    def drop_if_silent(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""
        if self._state is _GREETING and now - self._state_since > GREETING_SECONDS_MAX:
            self.drop(f"it did not greet within {GREETING_SECONDS_MAX:g} s")
        elif self._state is _ENDED and now - self._state_since > ENDED_SECONDS_MAX:
            self.abort()
        elif self._outgoing.is_blocked:
            blocked_bytes = self._outgoing.blocked_bytes
            if self._unread.is_too_long(blocked_bytes, now):
                self.drop(f"it has read no answer for {UNREAD_SECONDS_MAX:g} s, and {blocked_bytes} bytes wait")
        elif self._state is _OPEN and not self._is_paused and (slowness := self._incoming.slowness(now)):
            self.drop(slowness)

    def drop(self, reason: str) -> None:
        """Closes the connection at once, with a line in the log."""
        self._service.log.dropped(self._peer, reason)
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()
