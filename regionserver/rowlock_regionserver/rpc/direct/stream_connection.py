"""What direct connections for scans and those for bulk batches have in common. docs/direct_protocol.md.

1. The states: OPEN → ENDED → CLOSED. ENDED: the END frame is on its way; the client has a moment to close its side.
   What it sends meanwhile is dropped, as in connection.py.
2. A connection that has been idle for a minute is closed without an END: its client opens another one. One that has
   served its client and is idle is closed so, too, when another client needs its place.
"""

from __future__ import annotations

import asyncio
import enum
from abc import ABC, abstractmethod

from rowlock_proto.direct_frames import PREAMBLE

from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, IDLE_SECONDS_MAX, UNREAD_SECONDS_MAX, Unread
from rowlock_regionserver.rpc.direct.incoming import Incoming
from rowlock_regionserver.rpc.direct.service import DirectService


class State(enum.Enum):
    """The states, in this order."""

    OPEN = enum.auto()
    ENDED = enum.auto()
    CLOSED = enum.auto()


class StreamConnection(asyncio.BufferedProtocol, ABC):
    """A protocol of asyncio, which takes a connection over after its greeting. Used on the event loop."""

    def __init__(self, service: DirectService, transport: asyncio.Transport, peer: str, incoming: Incoming) -> None:
        self._service = service
        self._transport = transport
        self._peer = peer
        self._incoming = incoming
        self._loop = asyncio.get_running_loop()
        self._monotonic = service.points.clock.monotonic
        self._state = State.OPEN
        self._quiet_since = self._monotonic()  # since when it has been idle, or has ended
        self._has_served = False
        self._unread = Unread()  # for `look`

    def _take_over(self, body_bytes_max: int) -> None:
        """Takes the connection over, and welcomes its client. body_bytes_max: of the client's frames."""
        self._transport.set_protocol(self)
        self._service.clients.enter(self)
        self._service.clients.greeted(self, self.make_room)
        self._transport.write(PREAMBLE + self._service.welcome())
        self._incoming.reader.set_body_bytes_max(body_bytes_max)

    # Calls of the transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._service.scratch if self._state is State.ENDED else self._incoming.reader.room()

    def eof_received(self) -> bool:
        self.abort()  # The client has left: nobody reads what would be sent to it.
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.CLOSED
        self._incoming.drop()
        self._service.clients.leave(self)

    # Ending

    @abstractmethod
    def stop(self) -> None:
        """Ends the connection when what it has begun is answered."""

    def _set_ended(self) -> None:
        """Takes nothing more of what comes."""
        self._state = State.ENDED
        self._quiet_since = self._monotonic()
        self._incoming.drop_frames()

    @property
    @abstractmethod
    def _unsent_bytes(self) -> int:
        """How many bytes wait until the client reads."""

    @property
    @abstractmethod
    def _is_idle(self) -> bool:
        """Whether the client has nothing under way."""

    def _slowness(self, now: float) -> str:
        """Returns how the client sends too slowly; empty: it does not."""
        return self._incoming.slowness(now)

    def drop_if_silent(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""
        unsent_bytes = self._unsent_bytes
        if unsent_bytes:
            if self._unread.is_too_long(unsent_bytes, now):
                self.drop(f"it has read nothing for {UNREAD_SECONDS_MAX:g} s, and {unsent_bytes} bytes wait")
        elif self._state is State.ENDED:
            if now - self._quiet_since > ENDED_SECONDS_MAX:
                self.abort()
        elif slowness := self._slowness(now):
            self.drop(slowness)
        elif self._is_idle and now - self._quiet_since > IDLE_SECONDS_MAX:
            self.abort()

    def make_room(self) -> bool:
        """Closes the connection and returns True, if its client only keeps it for later."""
        # Not before the first request, which is on the way: a client may take its loss for that of the server.
        if not (self._has_served and self._is_idle) or self._unsent_bytes or self._transport.is_closing():
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
